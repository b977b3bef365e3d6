//! Equality as a `test` operation means it (RFC 6902, section 4.6): numbers are compared by value.

use serde_json::{Number, Value};

/// Whether two values are equal. The walk ends at the first difference, and visits no more than the smaller one has.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => equal_numbers(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            // Both are sorted by name.
            left.len() == right.len()
                && left.iter().zip(right).all(|((left_name, left), (right_name, right))| {
                    left_name == right_name && equal(left, right)
                })
        }
        _ => left == right,
    }
}

/// Whole numbers are compared exactly, others as doubles. A whole number equals a double that is this very number.
fn equal_numbers(left: &Number, right: &Number) -> bool {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left == right,
        (None, None) => left.as_f64() == right.as_f64(),
        (Some(whole), None) => is_whole(right, whole),
        (None, Some(whole)) => is_whole(left, whole),
    }
}

fn is_whole(float: &Number, whole: i128) -> bool {
    // The cast is exact for doubles without a fraction up to 2^127, and `whole` has at most 64 bits.
    float.as_f64().is_some_and(|float| float.fract() == 0.0 && float as i128 == whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_value() {
        let cases = [
            ("1", "1.0", true),
            ("1", "1e0", true),
            ("0", "-0.0", true),
            ("100000", "1E5", true),
            ("1.5", "1.50", true),
            ("1", "1.5", false),
            ("-1", "1", false),
            ("9007199254740993", "9007199254740992", false),
            ("9007199254740993", "9007199254740992.0", false),
            ("9007199254740992", "9007199254740992.0", true),
            ("18446744073709551615", "18446744073709551616.0", false),
            ("18446744073709551615", "-1", false),
            ("-9223372036854775808", "-9223372036854775808.0", true),
            ("0", "1e300", false),
            ("1", "\"1\"", false),
            ("[1,{\"a\":2}]", "[1.0,{\"a\":2.0}]", true),
            ("[1,2]", "[1]", false),
            ("{\"a\":1}", "{\"b\":1}", false),
            ("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true),
            ("null", "false", false),
            ("\"\\u0061\"", "\"a\"", true),
        ];
        for (left, right, expected) in cases {
            let [left, right]: [Value; 2] =
                [left, right].map(|text| serde_json::from_str(text).expect("JSON"));
            assert_eq!(equal(&left, &right), expected, "{left} and {right}");
            assert_eq!(equal(&right, &left), expected, "{right} and {left}");
        }
    }
}
