//! The size, depth and weight of a value.

use std::fmt::{self, Write};

use serde_json::{Number, Value};

/// What copying an object costs beside its members, in nodes. An object with one member takes 640 bytes of memory, as
/// much as some twenty elements of an array.
const OBJECT_COST: usize = 8;

/// Copying so many bytes of text costs as much as a node.
const TEXT_PER_NODE: usize = 64;

/// One walk over a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// The size of its serialised form.
    pub(super) size: usize,
    /// How many arrays and objects are nested in it, itself included.
    pub(super) depth: usize,
    /// What it costs to visit or copy, in nodes.
    pub(super) cost: usize,
}

impl Measure {
    /// Walks over a value, which is at most as deep as a piece may be.
    pub(super) fn new(value: &Value) -> Self {
        let mut measure = Measure { size: 0, depth: 0, cost: 1 };
        match value {
            Value::Array(elements) => {
                measure.size = 2 + commas(elements.len());
                elements.iter().for_each(|element| measure.add(Measure::new(element)));
                measure.depth += 1;
            }
            Value::Object(members) => {
                measure.size = 2 + commas(members.len());
                for (name, value) in members {
                    measure.add(Measure::new(value));
                    measure.size += name_size(name);
                    measure.cost += name.len() / TEXT_PER_NODE;
                }
                measure.cost += OBJECT_COST;
                measure.depth += 1;
            }
            Value::String(text) => {
                measure.size = text_size(text);
                measure.cost += text.len() / TEXT_PER_NODE;
            }
            Value::Number(number) => measure.size = number_size(number),
            Value::Null | Value::Bool(true) => measure.size = 4,
            Value::Bool(false) => measure.size = 5,
        }
        measure
    }

    fn add(&mut self, within: Measure) {
        self.size += within.size;
        self.depth = self.depth.max(within.depth);
        self.cost += within.cost;
    }
}

/// The size of a value's serialised form.
pub(super) fn size(value: &Value) -> usize {
    Measure::new(value).size
}

/// The commas between so many elements or members.
pub(super) fn commas(length: usize) -> usize {
    length.saturating_sub(1)
}

/// The size of a member's name, with its colon.
pub(super) fn name_size(name: &str) -> usize {
    text_size(name) + 1
}

/// The size of a text with its quotes and escapes.
fn text_size(text: &str) -> usize {
    2 + text.bytes().map(|byte| usize::from(ESCAPED_SIZES[usize::from(byte)])).sum::<usize>()
}

/// The size of each byte in a serialised text.
const ESCAPED_SIZES: [u8; 256] = {
    let mut sizes = [1; 256];
    let mut control = 0;
    while control < 0x20 {
        sizes[control] = r"\u0000".len() as u8;
        control += 1;
    }
    let short = b"\"\\\x08\x0c\n\r\t";
    let mut at = 0;
    while at < short.len() {
        sizes[short[at] as usize] = 2;
        at += 1;
    }
    sizes
};

fn number_size(number: &Number) -> usize {
    if let Some(number) = number.as_u64() {
        return digits(number);
    }
    if let Some(number) = number.as_i64() {
        return 1 + digits(number.unsigned_abs());
    }
    let mut length = Length(0);
    // `Length` never fails.
    let _ = write!(length, "{number}");
    length.0
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_size_is_that_of_the_serialised_form() {
        let all_characters: String = (0..0x250).filter_map(char::from_u32).collect();
        let values = [
            json!(null),
            json!([true, false, 0, 9, 10, -1, -10, u64::MAX, i64::MIN, 0.1, -0.0, 1e300, 1e15]),
            json!([[], {}, [1], {"a": 1}, {"a": [], "b\n": {"\"": "\u{1}"}}]),
            json!({ &all_characters: all_characters }),
        ];
        for value in values {
            assert_eq!(Measure::new(&value).size, value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn the_depth_counts_arrays_and_objects() {
        let cases = [(json!(1), 0), (json!([]), 1), (json!({"a": 1}), 1), (json!([1, [{}]]), 3)];
        for (value, depth) in cases {
            assert_eq!(Measure::new(&value).depth, depth, "{value}");
        }
    }
}
