//! Which texts are documents, and how they are written (H14, H23).

use consort_glue::bounds::{MAX_DEPTH, MAX_PIECE};
use consort_glue::json::{JsonDocument, check};
use consort_glue::{PieceForm, Reason};

use crate::random::Random;
use crate::{document, text};

#[test]
fn members_are_sorted_and_white_space_goes() {
    let cases = [
        (" {\"b\" : 1 ,\n \"a\":[ 1 , 2 ] } ", r#"{"a":[1,2],"b":1}"#),
        (r#"{"\u0062":"\u00e9\/\u0001\n","":null}"#, "{\"\":null,\"b\":\"é/\\u0001\\n\"}"),
        ("true", "true"),
        ("\"\"", "\"\""),
        ("[]", "[]"),
    ];
    for (from, to) in cases {
        let document = document(from);
        assert_eq!(text(&document), to);
        assert_eq!(document.size(), to.len());
    }
}

#[test]
fn text_that_is_no_json_is_malformed() {
    let cases: [&[u8]; 18] = [
        b"",
        b" ",
        b"{",
        b"[1,]",
        b"{\"a\"}",
        b"{\"a\":1,}",
        b"{a:1}",
        b"'a'",
        b"01",
        b"+1",
        b".5",
        b"1.",
        b"NaN",
        b"1 2",
        b"[1] // a comment",
        b"\"\xff\"",
        b"\"\\ud800\"",
        b"\xef\xbb\xbf{}",
    ];
    for text in cases {
        let refused = JsonDocument::parse(text).expect_err("no JSON");
        assert_eq!(refused.reason, Reason::MALFORMED, "{}", text.escape_ascii());
    }
}

#[test]
fn the_detail_of_malformed_text_names_the_place() {
    let refused = JsonDocument::parse(b"{\"a\":[0,\n{\"b\":x}]}").expect_err("no JSON");
    assert!(refused.detail.contains("line 2 column 6"), "{refused}");
    assert!(refused.detail.contains("\"/a/1/b\""), "{refused}");
}

#[test]
fn a_name_may_come_once_in_each_object() {
    let cases = [
        (r#"{"a":1,"a":1}"#, "/a"),
        (r#"{"a":1,"\u0061":2}"#, "/a"),
        (r#"[0,{"x":{"b":[],"c":{},"b":{}}}]"#, "/1/x/b"),
        (r#"{"a":{"":1,"":2}}"#, "/a/"),
        (r#"{"a/b":1,"a\/b":2}"#, "/a~1b"),
    ];
    for (text, place) in cases {
        for form in [PieceForm::Whole, PieceForm::MergePatch] {
            let refused = check(form, text.as_bytes()).expect_err("twice");
            assert_eq!(refused.reason, Reason::DUPLICATE_NAME, "{text}");
            assert_eq!(refused.detail, format!("{place} is there twice"));
        }
        let patch = format!(r#"[{{"op":"add","path":"","value":{text}}}]"#);
        let refused = check(PieceForm::JsonPatch, patch.as_bytes()).expect_err("twice");
        assert_eq!(refused.reason, Reason::DUPLICATE_NAME, "{patch}");
    }
    document(r#"{"a":{"a":[{"a":1},{"a":1}]},"A":1}"#);
}

#[test]
fn a_number_keeps_its_value_or_is_refused() {
    let kept = [
        ("0", "0"),
        ("-0", "-0.0"),
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1E5", "100000.0"),
        ("0.10", "0.1"),
        ("1.5000000000000000000000000", "1.5"),
        ("0.00000000000000000000000012345678901234567", "1.2345678901234566e-25"),
        ("1000000000000000000000000.0", "1e+24"),
        ("0.10000000000000001", "0.1"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("5e-324", "5e-324"),
        ("0e999999999999", "0.0"),
        ("0.0e-999", "0.0"),
    ];
    for (from, to) in kept {
        assert_eq!(text(&document(from)), to, "{from}");
        assert_eq!(text(&document(to)), to, "{to}");
    }
    let refused = [
        "18446744073709551616",
        "-9223372036854775809",
        "12345678901234567890123",
        "3.14159265358979323846",
        "123456789012345678.0",
        "1e400",
        "-1e400",
        "1e309",
        "1e99999999999999999999",
        "2e-324",
        "1e-99999999999999999999",
        "-0.001e-330",
    ];
    for number in refused {
        let texts = [number.to_owned(), format!("{{\"a\":[1.5,\n{{\"b\":{number}}}]}}")];
        for (text, place) in texts.iter().zip(["\"\"", "\"/a/1/b\""]) {
            let refused = JsonDocument::parse(text.as_bytes()).expect_err("it would change");
            assert_eq!(refused.reason, Reason::NUMBER_CHANGES, "{text}");
            assert!(refused.detail.contains(place), "{refused}");
            assert!(refused.detail.contains(number), "{refused}");
            assert!(refused.detail.contains("send it as a text"), "{refused}");
        }
    }
}

#[test]
fn broken_text_behind_a_number_is_malformed() {
    for text in ["[12345678901234567890123", "[1e5,x]", "{\"a\":1e400 ,}x"] {
        let refused = JsonDocument::parse(text.as_bytes()).expect_err("no JSON");
        let expected =
            if text.contains("e400") { Reason::NUMBER_CHANGES } else { Reason::MALFORMED };
        assert_eq!(refused.reason, expected, "{text}: {refused}");
    }
}

#[test]
fn digits_within_texts_and_names_are_no_numbers() {
    let same = r#"{"12345678901234567890123":"3.14159265358979323846","\"1e400":0.5}"#;
    document(same);
}

#[test]
fn a_hundred_thousand_numbers_keep_their_value() {
    let mut random = Random::new(7);
    for _ in 0..100 {
        let spelled: Vec<String> = (0..1_000).map(|at| number(&mut random, at)).collect();
        let document = document(&format!("[{}]", spelled.join(",")));
        let written = text(&document);
        let written: Vec<&str> = written.trim_matches(['[', ']']).split(',').collect();
        assert_eq!(written.len(), spelled.len());
        for (spelled, written) in spelled.iter().zip(written) {
            let [before, after] = [spelled, written].map(|text| text.parse::<f64>().expect("one"));
            assert_eq!(before.to_bits(), after.to_bits(), "{spelled} became {written}");
            if digits(spelled).0.len() <= 15 && before.is_normal() {
                assert_eq!(digits(spelled), digits(written), "{spelled} became {written}");
            }
        }
    }
}

/// A double in its shortest spelling or with 17 digits, or an everyday decimal.
fn number(random: &mut Random, at: usize) -> String {
    loop {
        let double = f64::from_bits(random.next());
        if !double.is_finite() {
            continue;
        }
        return match at % 4 {
            0 => format!("{double:?}"),
            1 => format!("{double:.16e}"),
            2 => format!("{}.{:02}", random.below(1_000_000), random.below(100)),
            _ => {
                format!("-{}.{}e{}", random.below(10), random.below(100_000_000), random.below(290))
            }
        };
    }
}

/// The digits of a decimal without zeros at both ends, and its exponent.
fn digits(number: &str) -> (String, i64) {
    let number = number.trim_start_matches('-').to_lowercase();
    let (mantissa, exponent) = number.split_once('e').unwrap_or((&number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    if significant.is_empty() {
        return (String::new(), 0);
    }
    let exponent: i64 = exponent.parse().expect("an exponent");
    (significant.to_owned(), exponent - fraction.len() as i64 + zeros as i64)
}

#[test]
fn depth_and_size_are_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(text(&document(&nested(MAX_DEPTH))), nested(MAX_DEPTH));
    for depth in [MAX_DEPTH + 1, 127, 128, 1_000_000] {
        let refused = JsonDocument::parse(nested(depth).as_bytes()).expect_err("too deep");
        assert!(refused.detail.len() < 400, "{refused}");
        assert_eq!(refused.reason, Reason::PIECE_TOO_DEEP, "{depth}");
    }
    let long = |size: usize| format!("\"{}\"", "x".repeat(size - 2));
    assert_eq!(document(&long(MAX_PIECE)).size(), MAX_PIECE);
    let refused = JsonDocument::parse(long(MAX_PIECE + 1).as_bytes()).expect_err("too large");
    assert_eq!(refused.reason, Reason::PIECE_TOO_LARGE);
}

#[test]
fn a_document_that_is_written_too_large_is_refused() {
    let text = format!("[{}1]", "1e15,".repeat(MAX_PIECE / 10));
    let refused = JsonDocument::parse(text.as_bytes()).expect_err("too large");
    assert_eq!(refused.reason, Reason::PIECE_TOO_LARGE);
}

#[test]
fn a_piece_is_checked_by_its_form() {
    let cases = [
        (PieceForm::Whole, "{}", None),
        (PieceForm::Whole, "{", Some(Reason::MALFORMED)),
        (PieceForm::MergePatch, r#"{"a":null}"#, None),
        (PieceForm::MergePatch, "{\"a\":1e400}", Some(Reason::NUMBER_CHANGES)),
        (PieceForm::JsonPatch, "[]", None),
        (PieceForm::JsonPatch, "{}", Some(Reason::MALFORMED)),
        (PieceForm::Delete, "", None),
        (PieceForm::Delete, "{}", Some(Reason::MALFORMED)),
        (PieceForm::XmlPatch, "<diff/>", Some(Reason::MALFORMED)),
    ];
    for (form, piece, reason) in cases {
        let refused = check(form, piece.as_bytes()).err().map(|refused| refused.reason);
        assert_eq!(refused, reason, "{form} {piece}");
    }
    for form in [PieceForm::Whole, PieceForm::Delete, PieceForm::XmlPatch] {
        assert_eq!(crate::applied(form, "1", "2"), Err(Reason::MALFORMED), "{form} is no patch");
    }
}
