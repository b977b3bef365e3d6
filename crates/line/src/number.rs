//! Field values that stand without quotes: numbers and booleans.

use crate::point::FieldValue;

/// What a word without quotes is.
#[derive(Debug, PartialEq)]
pub(crate) enum Word {
    Value(FieldValue<'static>),
    /// It has the form of a number, but is beyond what this limit says.
    DoesNotFit(&'static str),
    /// It is neither number nor boolean.
    Other,
}

const FLOAT_LIMIT: &str = "a float is at most about 1.8e308";
const INTEGER_LIMIT: &str = "an integer lies between -9223372036854775808 and 9223372036854775807";
const UNSIGNED_LIMIT: &str = "an unsigned integer lies between 0 and 18446744073709551615";

/// Reads a word as a field value.
#[inline]
pub(crate) fn read(word: &str) -> Word {
    match word.as_bytes() {
        [b'-' | b'.' | b'0'..=b'9', .., b'i'] => integer(&word[..word.len() - 1]),
        [b'-' | b'.' | b'0'..=b'9', .., b'u'] => unsigned(&word[..word.len() - 1]),
        [b'-' | b'.' | b'0'..=b'9', ..] => float(word),
        [b't' | b'T' | b'f' | b'F', ..] => boolean(word),
        _ => Word::Other,
    }
}

fn integer(digits: &str) -> Word {
    match digits.parse() {
        Ok(number) => Word::Value(FieldValue::Integer(number)),
        Err(_) if is_whole(digits.strip_prefix('-').unwrap_or(digits)) => {
            Word::DoesNotFit(INTEGER_LIMIT)
        }
        Err(_) => Word::Other,
    }
}

fn unsigned(digits: &str) -> Word {
    match digits.parse() {
        Ok(number) => Word::Value(FieldValue::Unsigned(number)),
        Err(_) if is_whole(digits) => Word::DoesNotFit(UNSIGNED_LIMIT),
        Err(_) => Word::Other,
    }
}

fn float(word: &str) -> Word {
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() => Word::Value(FieldValue::Float(number)),
        // Rust also reads `-inf` and `-nan`, which are no numbers of the protocol.
        Ok(_) if !word.contains(['n', 'N']) => Word::DoesNotFit(FLOAT_LIMIT),
        _ => Word::Other,
    }
}

fn boolean(word: &str) -> Word {
    match word {
        "t" | "T" | "true" | "True" | "TRUE" => Word::Value(FieldValue::Boolean(true)),
        "f" | "F" | "false" | "False" | "FALSE" => Word::Value(FieldValue::Boolean(false)),
        _ => Word::Other,
    }
}

fn is_whole(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_number_is_read() {
        let floats = [
            ("1", 1.0),
            ("05", 5.0),
            ("-1.5", -1.5),
            ("1.", 1.0),
            (".5", 0.5),
            ("-.5", -0.5),
            ("1e4", 1e4),
            ("1E+4", 1e4),
            ("1.0e-4", 1e-4),
            ("1.e2", 100.0),
            ("-0e2", 0.0),
            ("1e-999", 0.0),
            ("1.7976931348623157e308", f64::MAX),
        ];
        for (word, number) in floats {
            assert_eq!(read(word), Word::Value(FieldValue::Float(number)), "{word}");
        }
        for (word, number) in [("0i", 0), ("-0i", 0), ("9223372036854775807i", i64::MAX)] {
            assert_eq!(read(word), Word::Value(FieldValue::Integer(number)), "{word}");
        }
        assert_eq!(read("-9223372036854775808i"), Word::Value(FieldValue::Integer(i64::MIN)));
        for (word, number) in [("0u", 0), ("007u", 7), ("18446744073709551615u", u64::MAX)] {
            assert_eq!(read(word), Word::Value(FieldValue::Unsigned(number)), "{word}");
        }
    }

    #[test]
    fn only_these_words_are_booleans() {
        for word in ["t", "T", "true", "True", "TRUE"] {
            assert_eq!(read(word), Word::Value(FieldValue::Boolean(true)), "{word}");
        }
        for word in ["f", "F", "false", "False", "FALSE"] {
            assert_eq!(read(word), Word::Value(FieldValue::Boolean(false)), "{word}");
        }
        for word in ["tRUE", "tr", "Fa", "truee", "yes", "1t"] {
            assert_eq!(read(word), Word::Other, "{word}");
        }
    }

    #[test]
    fn numbers_beyond_the_limits_do_not_fit() {
        for word in ["9223372036854775808i", "-9223372036854775809i"] {
            assert_eq!(read(word), Word::DoesNotFit(INTEGER_LIMIT), "{word}");
        }
        assert_eq!(read("18446744073709551616u"), Word::DoesNotFit(UNSIGNED_LIMIT));
        for word in ["1e309", "-1e309"] {
            assert_eq!(read(word), Word::DoesNotFit(FLOAT_LIMIT), "{word}");
        }
    }

    #[test]
    fn what_only_looks_like_a_number_is_none() {
        let words = [
            "",
            "-",
            ".",
            "-.",
            "--1",
            "1.1.1",
            "1a",
            "12abc",
            "1e",
            "1e-",
            "e1",
            "+1",
            "1i.",
            "i",
            "u",
            "-i",
            ".i",
            "1.0i",
            "9e10i",
            "-1u",
            "-0u",
            "--1u",
            "0x1p3",
            "1_000",
            "-inf",
            "-nan",
            "-infinity",
            "-INF",
            "inf",
            "nan",
            "NaN",
            "1\u{b}",
            "1é",
        ];
        for word in words {
            assert_eq!(read(word), Word::Other, "{word}");
        }
    }
}
