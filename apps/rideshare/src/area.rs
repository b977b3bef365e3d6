//! Areas: the places between which people ride.

use serde_json::Value;

/// The highest number of an area; the lowest is 1.
const LAST: u64 = 198;

/// The number of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area(u64);

impl Area {
    /// Reads a member of a JSON body: a whole number, or a text of 1 to 3 digits.
    pub(crate) fn from_json(value: &Value) -> Option<Area> {
        match value {
            Value::Number(number) => Area::from_number(number.as_u64()?),
            Value::String(text) => Area::from_text(text),
            _ => None,
        }
    }

    /// Reads a text of 1 to 3 digits.
    pub(crate) fn from_text(text: &str) -> Option<Area> {
        let digits =
            (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits {
            return None;
        }
        Area::from_number(text.parse().ok()?)
    }

    /// Its number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    fn from_number(number: u64) -> Option<Area> {
        (1..=LAST).contains(&number).then_some(Area(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_texts_of_digits_are_areas() {
        for (json, area) in [
            ("1", Some(1)),
            ("198", Some(198)),
            ("\"3\"", Some(3)),
            ("\"003\"", Some(3)),
            ("\"198\"", Some(198)),
            ("0", None),
            ("199", None),
            ("-3", None),
            ("-0", None),
            ("3.0", None),
            ("3.5", None),
            ("3e0", None),
            ("1e300", None),
            ("18446744073709551616", None),
            ("true", None),
            ("null", None),
            ("[3]", None),
            ("\"0\"", None),
            ("\"199\"", None),
            ("\"\"", None),
            ("\"0003\"", None),
            ("\"+3\"", None),
            ("\"-3\"", None),
            ("\" 3\"", None),
            ("\"3 \"", None),
            ("\"3.0\"", None),
            ("\"٣\"", None),
            ("\"three\"", None),
        ] {
            let value = serde_json::from_str(json).unwrap();
            assert_eq!(Area::from_json(&value).map(Area::number), area, "{json}");
        }
    }
}
