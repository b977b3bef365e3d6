//! Reads JSON text into a tree, and refuses text that would not keep its meaning.
//!
//! serde_json itself keeps the last of two members with one name, and rounds numbers. The visitor here builds the tree
//! as serde_json does, and sees names and depth on the way. It does not see how a number is spelled, so texts with a
//! number that is not a 64-bit integer are scanned once more.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::number;
use super::scan::{Numbers, pointer_at};
use super::shown;
use crate::bounds::MAX_PIECE;
use crate::{Reason, Rejection};

/// Reads one JSON text of at most `max_depth` nested arrays and objects.
pub(super) fn read(text: &[u8], max_depth: usize) -> Result<Value, Rejection> {
    if text.len() > MAX_PIECE {
        return Err(too_large(text.len()));
    }
    let mut state = Reading { depth_left: max_depth, has_floats: false, refused: None };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let read = Node(&mut state).deserialize(&mut deserializer);
    match read.and_then(|value| deserializer.end().map(|()| value)) {
        Err(error) => Err(refusal(text, &error, state.refused, max_depth)),
        Ok(value) if state.has_floats => check_numbers(text).map(|()| value),
        Ok(value) => Ok(value),
    }
}

/// The refusal of a text of this size.
pub(super) fn too_large(size: usize) -> Rejection {
    Rejection::new(
        Reason::PIECE_TOO_LARGE,
        format!("{size} bytes, and a piece has at most {MAX_PIECE}"),
    )
}

fn check_numbers(text: &[u8]) -> Result<(), Rejection> {
    for token in Numbers::new(text) {
        if let Some(flaw) = number::flaw(&text[token.clone()]) {
            return Err(changed_number(text, token, flaw));
        }
    }
    Ok(())
}

/// Why the reader stopped: for a rule of ours, at a number beyond a double, or at text that is no JSON.
fn refusal(
    text: &[u8],
    error: &serde_json::Error,
    refused: Option<Reason>,
    max_depth: usize,
) -> Rejection {
    let offset = offset(text, error);
    let place = shown(&pointer_at(text, offset));
    match refused {
        Some(Reason::DUPLICATE_NAME) => {
            Rejection::new(Reason::DUPLICATE_NAME, format!("{place} is there twice"))
        }
        Some(reason) => {
            Rejection::new(reason, format!("{place} is nested deeper than {max_depth} levels"))
        }
        None => {
            let mut tokens = Numbers::new(text).take_while(|token| token.start <= offset);
            let unfit = tokens.find_map(|token| {
                // The reader stops within the token or just behind it.
                let flaw = number::flaw(&text[token.clone()]).filter(|_| offset <= token.end + 1);
                flaw.filter(|_| error.is_syntax()).map(|flaw| (token, flaw))
            });
            match unfit {
                Some((token, flaw)) => changed_number(text, token, flaw),
                None => Rejection::new(Reason::MALFORMED, format!("{error}, at \"{place}\"")),
            }
        }
    }
}

fn changed_number(text: &[u8], token: Range<usize>, flaw: &str) -> Rejection {
    let place = shown(&pointer_at(text, token.start));
    let token = String::from_utf8_lossy(&text[token]);
    let token = shown(&token);
    Rejection::new(
        Reason::NUMBER_CHANGES,
        format!("the number {token} at \"{place}\" {flaw}: send it as a text"),
    )
}

/// The offset of an error in the text.
fn offset(text: &[u8], error: &serde_json::Error) -> usize {
    let lines_before = error.line().saturating_sub(1);
    let line_start = match lines_before.checked_sub(1) {
        None => 0,
        Some(last) => text
            .iter()
            .enumerate()
            .filter(|&(_, &byte)| byte == b'\n')
            .nth(last)
            .map_or(0, |(at, _)| at + 1),
    };
    (line_start + error.column()).min(text.len())
}

/// The state of one reading.
struct Reading {
    /// How many arrays and objects may still be opened within each other.
    depth_left: usize,
    has_floats: bool,
    /// The rule of ours that stopped the reading. serde_json's error then tells the position only.
    refused: Option<Reason>,
}

impl Reading {
    fn open<E: Error>(&mut self) -> Result<(), E> {
        match self.depth_left.checked_sub(1) {
            Some(left) => self.depth_left = left,
            None => return Err(self.refuse(Reason::PIECE_TOO_DEEP)),
        }
        Ok(())
    }

    fn close(&mut self) {
        self.depth_left += 1;
    }

    fn refuse<E: Error>(&mut self, reason: Reason) -> E {
        self.refused = Some(reason);
        E::custom(reason)
    }
}

/// One value: it reads itself and, at most `depth_left` deep, the values within.
struct Node<'r>(&'r mut Reading);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.has_floats = true;
        match Number::from_f64(value) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(self.0.refuse(Reason::NUMBER_CHANGES)),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        self.0.open()?;
        let mut array = Vec::new();
        while let Some(element) = elements.next_element_seed(Node(&mut *self.0))? {
            array.push(element);
        }
        self.0.close();
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.0.open()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            match object.entry(name) {
                Entry::Occupied(_) => return Err(self.0.refuse(Reason::DUPLICATE_NAME)),
                Entry::Vacant(entry) => {
                    entry.insert(members.next_value_seed(Node(&mut *self.0))?);
                }
            }
        }
        self.0.close();
        Ok(Value::Object(object))
    }
}
