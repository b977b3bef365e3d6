//! Seeded fuzzing on stable Rust: no bytes make the parser, the check or a patch panic.
//!
//! `XML_FUZZ_INPUTS` sets the number of inputs, `XML_FUZZ_SEED` the seed.

use super::text;
use consort_glue::bounds::MAX_PIECE;
use consort_glue::xml::{XmlDocument, check};
use consort_glue::{PieceForm, Rejection};

const CORPUS: [&str; 9] = [
    "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone='yes'?><a xmlns='urn:1' xmlns:p='urn:2'><p:b x='1' p:y='&lt;'/>t</a>",
    "<a>\r\n<!-- c --><?p d?><![CDATA[<&]]>&#x20AC;&amp;é<b><c>1</c><c>2</c></b></a>",
    "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
    "<patch xmlns:p='urn:2'><add sel=\"//p:b[@x='1']\" pos='before'><p:n/>t</add><add sel='//p:b' type='@p:z'>1</add></patch>",
    "<patch><replace sel='*/b/text()[1]'>u</replace><add sel='a' type='@y'>1</add><add sel='a' type='namespace::q'>urn:3</add></patch>",
    "<patch xmlns='urn:1'><replace sel='a/namespace::p'>urn:4</replace><remove sel=\"a/text()\"/><add sel='a'> <b/> </add></patch>",
    "<patch><remove sel=\"a/processing-instruction('p')\"/><replace sel='//c[.=\"1\"]'><d xmlns:z='u' z:k=''/></replace></patch>",
    "<patch><remove sel='a//b[c=\"2\"]/c[1]'/><add sel='/*' pos='after'><!--e--><?f?></add></patch>",
    "<patch><add sel='/*'>t<n/></add></patch>",
];

/// A small generator of the same numbers everywhere (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn mutated(&mut self) -> Vec<u8> {
        let mut bytes = CORPUS[self.below(CORPUS.len())].as_bytes().to_vec();
        let tokens: [&[u8]; 24] = [
            b"<",
            b">",
            b"/",
            b"&",
            b"'",
            b"\"",
            b"=",
            b"]]>",
            b"<![CDATA[",
            b"<!--",
            b"-->",
            b"<?",
            b"?>",
            b":",
            b"xmlns",
            b" ",
            b"\r",
            b"[",
            b"]",
            b"\xff",
            b"\xc3\xa9",
            b"\0",
            b"&#xffff;",
            b"//",
        ];
        for _ in 0..1 + self.below(3) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => drop(bytes.splice(at..at, tokens[self.below(tokens.len())].iter().copied())),
                1 => bytes.truncate(at),
                2 => drop(bytes.drain(at..(at + 1 + self.below(12)).min(bytes.len()))),
                3 => {
                    let other = CORPUS[self.below(CORPUS.len())].as_bytes();
                    let start = self.below(other.len());
                    let end = (start + self.below(40)).min(other.len());
                    bytes.splice(at..at, other[start..end].iter().copied());
                }
                4 => {
                    let end = (at + self.below(30)).min(bytes.len());
                    let copied = bytes[at..end].to_vec();
                    bytes.splice(at..at, copied);
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = self.below(256) as u8;
                    }
                }
            }
        }
        bytes
    }
}

#[test]
fn no_bytes_make_the_parser_or_a_patch_panic() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
    };
    let mut random = Random(number("XML_FUZZ_SEED", 5261));
    let documents: Vec<XmlDocument> = CORPUS[..2]
        .iter()
        .map(|text| XmlDocument::parse(text.as_bytes()).expect("a document"))
        .collect();
    let (mut read, mut applied) = (0, 0);
    for _ in 0..number("XML_FUZZ_INPUTS", 20_000) {
        let bytes = random.mutated();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let parsed = XmlDocument::parse(&bytes);
        assert_eq!(parsed.is_ok(), check(PieceForm::Whole, &bytes).is_ok(), "{shown}");
        if let Ok(document) = parsed {
            read += 1;
            let once = text(&document);
            let again = XmlDocument::parse(once.as_bytes())
                .unwrap_or_else(|error| panic!("{error}: {shown}"));
            assert_eq!(text(&again), once, "{shown}");
        }
        let checked: Result<(), Rejection> = check(PieceForm::XmlPatch, &bytes);
        for document in &documents {
            let mut patched = document.clone();
            let result = patched.apply(PieceForm::XmlPatch, &bytes, MAX_PIECE);
            assert!(result.is_err() || checked.is_ok(), "{shown}");
            let after = text(&patched);
            match result {
                Ok(()) => {
                    applied += 1;
                    let again = XmlDocument::parse(after.as_bytes());
                    assert_eq!(again.map(|again| text(&again)).ok(), Some(after), "{shown}");
                }
                Err(_) => assert_eq!(after, text(document), "{shown}"),
            }
        }
    }
    assert!(
        read > 500 && applied > 100,
        "the inputs reach the code: {read} read, {applied} applied"
    );
}
