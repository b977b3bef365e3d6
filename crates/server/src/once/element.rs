//! One element of a JSON array, as it stands there: nothing is copied, and nothing but the element is kept.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Why there is no such element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is no JSON array.
    NotAnArray,
    /// The array has only so many.
    Beyond(usize),
}

/// The element at `position`, from 0.
pub(super) fn element(array: &Bytes, position: usize) -> Result<Bytes, Missing> {
    let mut deserializer = serde_json::Deserializer::from_slice(array);
    let found = Pick { position, array: PhantomData }.deserialize(&mut deserializer);
    let found = found.and_then(|found| deserializer.end().map(|()| found));
    match found {
        Ok(Ok(raw)) => Ok(array.slice_ref(raw.get().as_bytes())),
        Ok(Err(length)) => Err(Missing::Beyond(length)),
        Err(_) => Err(Missing::NotAnArray),
    }
}

/// Reads the whole array, and keeps one element, or how many there are.
struct Pick<'a> {
    position: usize,
    array: PhantomData<&'a ()>,
}

impl<'de> DeserializeSeed<'de> for Pick<'de> {
    type Value = Result<&'de RawValue, usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Pick<'de> {
    type Value = Result<&'de RawValue, usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        for passed in 0..self.position {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(Err(passed));
            }
        }
        let found = seq.next_element::<&'de RawValue>()?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found.ok_or(self.position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(array: &'static str, position: usize) -> Result<String, Missing> {
        let element = element(&Bytes::from_static(array.as_bytes()), position);
        element.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn an_element_is_given_as_it_stands() {
        let array = r#" [ {"a" : 1}, "two", 3.0, [4], null ] "#;
        for (position, expected) in
            [r#"{"a" : 1}"#, r#""two""#, "3.0", "[4]", "null"].iter().enumerate()
        {
            assert_eq!(at(array, position).as_deref(), Ok(*expected));
        }
        assert_eq!(at(array, 5), Err(Missing::Beyond(5)));
        assert_eq!(at(array, usize::MAX), Err(Missing::Beyond(5)));
        assert_eq!(at("[]", 0), Err(Missing::Beyond(0)));
    }

    #[test]
    fn only_arrays_have_elements() {
        for text in ["{}", "1", "\"[1]\"", "", "[1", "[1,]", "[1] 2", "null", "<a/>"] {
            assert_eq!(at(text, 0), Err(Missing::NotAnArray), "{text}");
        }
    }
}
