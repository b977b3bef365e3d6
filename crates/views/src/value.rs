//! Values of fields and groups, and their types as a config declares them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use compact_str::CompactString;
use consort_kernel::{Element, Part};

/// The most digits behind the point that a decimal may declare: 18 digits fit 64 bits.
pub const SCALE_MOST: u8 = 18;

/// The longest text that a field takes, unless its type says otherwise. Texts become parts of keys.
pub const TEXT_MOST: i64 = 256;

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A decimal number, as a whole number of its type's smallest steps.
    Decimal(i64),
    /// A text. Most are short, and then need no memory of their own.
    Text(CompactString),
}

/// What a value may be, without bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `decimal(scale)`
    Decimal(u8),
    /// `text`
    Text,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => f.write_str("bool"),
            Kind::Int => f.write_str("int"),
            Kind::Decimal(scale) => write!(f, "decimal({scale})"),
            Kind::Text => f.write_str("text"),
        }
    }
}

/// A field's type: `int`, `int 1..10`, `text`, `text 1..32` (its length), `bool`, `decimal(2)`,
/// `decimal(2) 0..99.99`; with `?` behind the word where the field may be absent: `int? 0..60`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// What it is.
    pub kind: Kind,
    /// Whether it may be absent.
    pub optional: bool,
    /// The values (of a decimal: in its smallest steps), or the length of a text in characters.
    pub range: RangeInclusive<i64>,
}

/// Why a text is no type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// Not a type's name.
    #[error("'{0}' is no type: use int, text, bool or decimal(DIGITS)")]
    Unknown(String),
    /// Not two numbers with `..` between.
    #[error("'{0}' is no range: write FROM..TO, both included, as in 1..10")]
    Range(String),
    /// Nothing fits it.
    #[error("the range {0} is empty: its end comes before its beginning")]
    Empty(String),
    /// A bool has just two values.
    #[error("a bool has no range")]
    BoolRange,
    /// More digits than 64 bits hold.
    #[error("a decimal has 0 to {SCALE_MOST} digits behind the point, not {0}")]
    Scale(String),
}

impl FromStr for FieldType {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, TypeError> {
        let (word, range) = match text.trim().split_once(char::is_whitespace) {
            Some((word, range)) => (word, Some(range.trim())),
            None => (text.trim(), None),
        };
        let (word, optional) = match word.strip_suffix('?') {
            Some(word) => (word, true),
            None => (word, false),
        };
        let kind = kind(word)?;
        let range = match (kind, range) {
            (Kind::Bool, Some(_)) => return Err(TypeError::BoolRange),
            (Kind::Text, None) => 0..=TEXT_MOST,
            (_, None) => i64::MIN..=i64::MAX,
            (_, Some(text)) => range_of(kind, text)?,
        };
        Ok(FieldType { kind, optional, range })
    }
}

fn kind(word: &str) -> Result<Kind, TypeError> {
    match word {
        "bool" => Ok(Kind::Bool),
        "int" => Ok(Kind::Int),
        "text" => Ok(Kind::Text),
        _ => {
            let inner = word.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')'));
            let digits = inner.ok_or_else(|| TypeError::Unknown(word.into()))?;
            match digits.parse::<u8>() {
                Ok(scale) if scale <= SCALE_MOST => Ok(Kind::Decimal(scale)),
                _ => Err(TypeError::Scale(digits.into())),
            }
        }
    }
}

fn range_of(kind: Kind, text: &str) -> Result<RangeInclusive<i64>, TypeError> {
    let no_range = || TypeError::Range(text.into());
    let (from, to) = text.split_once("..").ok_or_else(no_range)?;
    let bound = |text: &str| match kind {
        Kind::Decimal(scale) => parse_decimal(text.trim(), scale),
        _ => text.trim().parse().ok(),
    };
    let (from, to) = (bound(from).ok_or_else(no_range)?, bound(to).ok_or_else(no_range)?);
    if from > to {
        return Err(TypeError::Empty(text.into()));
    }
    Ok(from..=to)
}

impl FieldType {
    /// The value that `text`, from a path or a query, is; otherwise what it should be.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = parse(self.kind, text).filter(|value| self.allows(value));
        value.ok_or_else(|| self.to_string())
    }

    /// Whether a value of its kind is within its range.
    pub(crate) fn allows(&self, value: &Value) -> bool {
        match value {
            Value::Bool(_) => true,
            Value::Int(number) | Value::Decimal(number) => self.range.contains(number),
            Value::Text(text) => {
                i64::try_from(text.chars().count()).is_ok_and(|length| self.range.contains(&length))
            }
        }
    }
}

/// The value of `kind` that `text` is.
pub fn parse(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Bool => text.parse().ok().map(Value::Bool),
        Kind::Int => text.parse().ok().map(Value::Int),
        Kind::Decimal(scale) => parse_decimal(text, scale).map(Value::Decimal),
        Kind::Text => Some(Value::Text(text.into())),
    }
}

impl FieldType {
    /// As a config writes it, always in the same way.
    pub fn written(&self) -> String {
        let optional = if self.optional { "?" } else { "" };
        let (from, to) = (*self.range.start(), *self.range.end());
        let all = match self.kind {
            Kind::Text => 0..=TEXT_MOST,
            _ => i64::MIN..=i64::MAX,
        };
        if self.range == all {
            return format!("{}{optional}", self.kind);
        }
        let shown = |number: i64| match self.kind {
            Kind::Decimal(scale) => show_decimal(number, scale),
            _ => number.to_string(),
        };
        format!("{}{optional} {}..{}", self.kind, shown(from), shown(to))
    }
}

impl fmt::Display for FieldType {
    /// What a value must be, in a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.range.start(), self.range.end());
        let bounded = *from != i64::MIN || *to != i64::MAX;
        match self.kind {
            Kind::Bool => f.write_str("true or false"),
            Kind::Int if bounded => write!(f, "a whole number from {from} to {to}"),
            Kind::Int => f.write_str("a whole number of 64 bits"),
            Kind::Text => write!(f, "a text of {from} to {to} characters"),
            Kind::Decimal(scale) => {
                write!(f, "a number with at most {scale} digits behind the point")?;
                if bounded {
                    let shown = |number: i64| show_decimal(number, scale);
                    write!(f, ", from {} to {}", shown(*from), shown(*to))?;
                }
                Ok(())
            }
        }
    }
}

impl Value {
    /// Its part of a key. Values of one kind sort as they compare.
    pub fn element(&self) -> Element {
        match self {
            Value::Bool(value) => Element::Number(i128::from(*value)),
            Value::Int(number) | Value::Decimal(number) => Element::from(*number),
            Value::Text(text) => Element::from(text.as_str()),
        }
    }

    /// Its part of a key, where it stands.
    pub(crate) fn part(&self) -> Part<'_> {
        match self {
            Value::Bool(value) => Part::Number((*value).into()),
            Value::Int(number) | Value::Decimal(number) => Part::Number((*number).into()),
            Value::Text(text) => Part::Text(text),
        }
    }

    /// The value of `kind` that a key's element is.
    pub fn from_element(kind: Kind, element: &Element) -> Option<Self> {
        match (kind, element) {
            (Kind::Bool, Element::Number(number)) => Some(Value::Bool(*number != 0)),
            (Kind::Int, Element::Number(number)) => i64::try_from(*number).ok().map(Value::Int),
            (Kind::Decimal(_), Element::Number(number)) => {
                i64::try_from(*number).ok().map(Value::Decimal)
            }
            (Kind::Text, Element::Text(text)) => Some(Value::Text(text.as_str().into())),
            _ => None,
        }
    }

    /// Puts its JSON behind `text`. A decimal keeps its digits.
    pub fn write_json(&self, kind: Kind, text: &mut String) {
        match self {
            Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Value::Int(_) | Value::Decimal(_) => text.push_str(&self.shown(kind)),
            Value::Text(plain) => push_json_text(text, plain),
        }
    }

    /// As people write it, and as [`parse`] reads it.
    pub fn shown(&self, kind: Kind) -> String {
        match (self, kind) {
            (Value::Decimal(number), Kind::Decimal(scale)) => show_decimal(*number, scale),
            (Value::Int(number) | Value::Decimal(number), _) => number.to_string(),
            (Value::Bool(value), _) => value.to_string(),
            (Value::Text(text), _) => text.as_str().into(),
        }
    }
}

/// Puts `plain` behind `text` as a JSON string.
pub fn push_json_text(text: &mut String, plain: &str) {
    // A text always has a JSON form.
    text.push_str(&serde_json::to_string(plain).unwrap_or_default());
}

/// A number of `scale` digits behind the point, as a whole number of its smallest steps. `None` if it has
/// more digits than that, or is too large.
pub fn parse_decimal(text: &str, scale: u8) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1i128, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || digits.ends_with('.') || !all_digits(whole) || !all_digits(part) {
        return None;
    }
    // Zeros at the end say nothing.
    let part = part.trim_end_matches('0');
    if part.len() > usize::from(scale) || whole.len() > 19 {
        return None;
    }
    let steps = 10i128.pow(u32::from(scale));
    let rest = 10i128.pow(u32::from(scale) - part.len() as u32);
    let whole: i128 = whole.parse().ok()?;
    let part: i128 = if part.is_empty() { 0 } else { part.parse().ok()? };
    i64::try_from(sign * (whole * steps + part * rest)).ok()
}

/// What [`parse_decimal`] reads.
pub fn show_decimal(number: i64, scale: u8) -> String {
    if scale == 0 {
        return number.to_string();
    }
    let steps = 10u64.pow(u32::from(scale));
    let sign = if number < 0 { "-" } else { "" };
    let (whole, part) = (number.unsigned_abs() / steps, number.unsigned_abs() % steps);
    format!("{sign}{whole}.{part:0digits$}", digits = usize::from(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> FieldType {
        text.parse().unwrap()
    }

    #[test]
    fn types_are_read_as_they_are_written() {
        let int = field("int 1..10");
        assert_eq!((int.kind, int.optional, int.range), (Kind::Int, false, 1..=10));
        assert!(field("int?").optional && field("text? 1..3").optional);
        assert_eq!(field("int -5..-1").range, -5..=-1);
        assert_eq!(field("text").range, 0..=TEXT_MOST);
        assert_eq!(field("decimal(2) 0..9.5").range, 0..=950);
        for text in ["int", "int? 1..10", "text", "text 1..3", "bool?", "decimal(2) 0.00..9.50"] {
            assert_eq!(field(text).written(), text);
        }
        let wrong = ["", "integer", "int 1-10", "int 5..1", "int 1..x", "bool 0..1", "decimal(19)"];
        for text in wrong.into_iter().chain(["decimal", "decimal(x)", "decimal(1) 0..0.55"]) {
            assert!(text.parse::<FieldType>().is_err(), "{text}");
        }
    }

    #[test]
    fn decimals_are_exact_both_ways() {
        let cases = [("0.01", 1), ("-0.01", -1), ("12.5", 1250), ("7", 700), ("1.10000", 110)];
        for (text, number) in cases {
            assert_eq!(parse_decimal(text, 2), Some(number), "{text}");
            assert_eq!(parse_decimal(&show_decimal(number, 2), 2), Some(number));
        }
        assert_eq!(show_decimal(-1, 2), "-0.01");
        let mut json = String::new();
        Value::Decimal(1250).write_json(Kind::Decimal(2), &mut json);
        assert_eq!(json, "12.50");
        for wrong in ["", "-", ".5", "5.", "1e3", "1.001", "1 ", "+1", "99999999999999999999"] {
            assert_eq!(parse_decimal(wrong, 2), None, "{wrong}");
        }
        assert_eq!(parse_decimal("92233720368547758.07", 2), Some(i64::MAX));
        assert_eq!(parse_decimal("92233720368547758.08", 2), None);
    }

    #[test]
    fn values_survive_keys() {
        let values = [
            (Kind::Bool, Value::Bool(true)),
            (Kind::Int, Value::Int(-7)),
            (Kind::Decimal(2), Value::Decimal(5)),
            (Kind::Text, Value::Text("x".into())),
        ];
        for (kind, value) in values {
            assert_eq!(Value::from_element(kind, &value.element()), Some(value));
        }
    }
}
