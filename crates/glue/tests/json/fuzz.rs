//! Bytes that were pieces once: whatever they have become, nothing panics and every rule holds.
//!
//! `CONSORT_FUZZ_INPUTS` sets how many inputs are tried, `CONSORT_FUZZ_SEED` where they begin.

use consort_glue::bounds::MAX_PIECE;
use consort_glue::json::{JsonDocument, check, diff};
use consort_glue::{PieceForm, Reason};

use crate::apply;
use crate::random::Random;

/// Texts that have every part between them.
const CORPUS: [&str; 12] = [
    r#"{"title":"A","tags":["x","y"],"cast":{"a~/b":1,"c":[2.5,-1e3]},"year":2001,"":null}"#,
    r#"[[[[[]]]],{"a":{"a":{"a":{}}}},true,false,null,"\u00e9\ud83d\ude00\\\"\n"]"#,
    r#"{"tags":["z"],"cast":{"c":null,"d":{"e":null}},"year":18446744073709551615}"#,
    r#"[{"op":"add","path":"/tags/-","value":{"n":[1]}},{"op":"remove","path":"/year"}]"#,
    r#"[{"op":"move","from":"/cast","path":"/tags/0"},{"op":"copy","from":"","path":"/self"}]"#,
    r#"[{"op":"replace","path":"/cast/a~0~1b","value":0.1},{"op":"test","path":"/title","value":"A"}]"#,
    r#"[{"op":"move","from":"/tags/0","path":"/tags/1"},{"op":"test","path":"/year","value":2001.0}]"#,
    r#"[{"op":"copy","from":"/3","path":"/0/0"},{"op":"remove","path":"/1/a/a"}]"#,
    "[1e400,12345678901234567890123,0.1234567890123456789,-0,1E5,5e-324]",
    r#"{"a":1,"\u0061":2}"#,
    "9223372036854775808",
    "\"text\"",
];

const TOKENS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"\\",
    b"/",
    b"~0",
    b"~1",
    b"-",
    b"1e",
    b"0",
    b".",
    b"null",
    b"\"op\":",
    b"\"path\":\"\"",
    b"\"value\":",
    b"\"from\":\"/a\"",
    b"\\u0061",
    b"\xff",
    b"[[[[[[[[",
    b"99999999999999999999",
];

#[test]
fn no_bytes_make_the_reader_or_the_patches_panic() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let inputs = number("CONSORT_FUZZ_INPUTS").unwrap_or(20_000);
    let seed = number("CONSORT_FUZZ_SEED").unwrap_or(1);
    let mut read = 0;
    for input in 0..inputs {
        let mut random = Random::new(seed.wrapping_mul(1 << 32).wrapping_add(input));
        let bytes = mutated(&mut random);
        let outcome = std::panic::catch_unwind(|| try_everything(&bytes));
        match outcome {
            Ok(is_json) => read += u64::from(is_json),
            Err(_) => panic!("seed {seed}, input {input}: {}", bytes.escape_ascii()),
        }
    }
    assert!(read > inputs / 20, "only {read} of {inputs} inputs could be read");
}

/// A text of the corpus with some changes.
fn mutated(random: &mut Random) -> Vec<u8> {
    let mut bytes = CORPUS[random.below(CORPUS.len())].as_bytes().to_vec();
    for _ in 0..random.below(5) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(12)).min(bytes.len());
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, TOKENS[random.below(TOKENS.len())].iter().copied())),
            3 => {
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            4 => {
                let other = CORPUS[random.below(CORPUS.len())].as_bytes();
                let start = random.below(other.len());
                let part = other[start..].iter().copied().take(random.below(40));
                bytes.splice(at..end, part);
            }
            _ => {
                if let Some(digit) = bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).last() {
                    *digit = b'0' + random.below(10) as u8;
                }
            }
        }
    }
    bytes
}

/// Reads bytes in every way and applies them to each document of the corpus. Tells whether they are a document.
fn try_everything(bytes: &[u8]) -> bool {
    let document = JsonDocument::parse(bytes);
    assert_eq!(document.as_ref().err(), check(PieceForm::Whole, bytes).as_ref().err());
    for form in [PieceForm::MergePatch, PieceForm::JsonPatch] {
        let refused = check(form, bytes).err();
        for from in &CORPUS[..3] {
            let mut document = JsonDocument::parse(from.as_bytes()).expect("the corpus is JSON");
            let applied = apply(&mut document, form, bytes, 400);
            match (applied, &refused) {
                (Err(rejection), Some(refused)) => assert_eq!(&rejection, refused),
                (Ok(()), Some(refused)) => panic!("applied although refused: {refused}"),
                (Err(rejection), None) => assert_ne!(rejection.reason, Reason::MALFORMED),
                (Ok(()), None) => {}
            }
        }
    }
    let Ok(document) = document else { return false };
    let written = document.to_bytes();
    assert_eq!(written.len(), document.size());
    assert_eq!(JsonDocument::parse(&written).as_ref(), Ok(&document));
    for other in &CORPUS[..3] {
        let other = JsonDocument::parse(other.as_bytes()).expect("the corpus is JSON");
        let mut patched = other.clone();
        let patch = diff(&other, &document);
        assert_eq!(patched.apply(PieceForm::JsonPatch, &patch, MAX_PIECE), Ok(()));
        assert_eq!(patched, document);
    }
    true
}
