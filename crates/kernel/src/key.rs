//! Keys: tuples of text, bytes and whole numbers, encoded so that bytes sort as the tuples do.
//!
//! Each element starts with a tag and ends by itself, so a shorter tuple's encoding is a prefix of every
//! longer tuple that begins with it. Text and bytes escape a zero as `00 FF` and end with `00`; a number
//! has its length in its tag and its magnitude big-endian (complemented when negative). No tag is `FF`:
//! see [`Key::end`].

use std::borrow::Borrow;
use std::fmt;

use bytes::Bytes;

const BYTES: u8 = 0x01;
const TEXT: u8 = 0x02;
/// The tag of zero; `k` bytes of magnitude make the tag `ZERO + k`, or `ZERO - k` when negative.
const ZERO: u8 = 0x14;
const NUMBER_BYTES: u8 = 8;
const ESCAPE: u8 = 0xFF;

/// One element of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// Any bytes. They sort before all text.
    Bytes(Vec<u8>),
    /// Text, ordered by its UTF-8 bytes. It sorts before all numbers.
    Text(String),
    /// A whole number, from `i64::MIN` to `u64::MAX`.
    Number(i128),
}

/// One element of a key, where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// See [`Element::Bytes`].
    Bytes(&'a [u8]),
    /// See [`Element::Text`].
    Text(&'a str),
    /// See [`Element::Number`].
    Number(i128),
}

impl<'a> From<&'a Element> for Part<'a> {
    fn from(element: &'a Element) -> Self {
        match element {
            Element::Bytes(bytes) => Part::Bytes(bytes),
            Element::Text(text) => Part::Text(text),
            Element::Number(number) => Part::Number(*number),
        }
    }
}

impl From<&str> for Element {
    fn from(text: &str) -> Self {
        Element::Text(text.to_string())
    }
}

impl From<String> for Element {
    fn from(text: String) -> Self {
        Element::Text(text)
    }
}

impl From<&[u8]> for Element {
    fn from(bytes: &[u8]) -> Self {
        Element::Bytes(bytes.to_vec())
    }
}

impl From<i64> for Element {
    fn from(number: i64) -> Self {
        Element::Number(number.into())
    }
}

impl From<u64> for Element {
    fn from(number: u64) -> Self {
        Element::Number(number.into())
    }
}

impl From<u32> for Element {
    fn from(number: u32) -> Self {
        Element::Number(number.into())
    }
}

/// An encoded tuple. Comparing keys compares the tuples.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

/// By its encoding, which keys are compared and hashed by.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Why bytes are not an encoded key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not a key: {reason} at byte {at}")]
pub struct KeyError {
    reason: &'static str,
    at: usize,
}

impl Key {
    /// The key of a tuple.
    pub fn of(elements: impl IntoIterator<Item = Element>) -> Self {
        let mut bytes = Vec::with_capacity(32);
        for element in elements {
            Key::push(&mut bytes, Part::from(&element));
        }
        Key(bytes.into())
    }

    /// This tuple with one more element.
    pub fn with(&self, element: impl Into<Element>) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 16);
        bytes.extend_from_slice(&self.0);
        Key::push(&mut bytes, Part::from(&element.into()));
        Key(bytes.into())
    }

    /// This tuple with all of these elements behind it.
    pub fn extended(&self, elements: impl IntoIterator<Item = Element>) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 32);
        bytes.extend_from_slice(&self.0);
        for element in elements {
            Key::push(&mut bytes, Part::from(&element));
        }
        Key(bytes.into())
    }

    /// Writes one more element behind the encoding of a tuple, for those who make many keys and keep few.
    pub fn push(encoding: &mut Vec<u8>, part: Part<'_>) {
        match part {
            Part::Bytes(plain) => encode_escaped(encoding, BYTES, plain),
            Part::Text(text) => encode_escaped(encoding, TEXT, text.as_bytes()),
            Part::Number(number) => encode_number(encoding, number),
        }
    }

    /// The tuple again.
    pub fn elements(&self) -> Result<Vec<Element>, KeyError> {
        let mut elements = Vec::new();
        let mut at = 0;
        while at < self.0.len() {
            let (element, next) = decode(&self.0, at)?;
            elements.push(element);
            at = next;
        }
        Ok(elements)
    }

    /// Takes bytes that an engine stored as a key.
    pub fn from_stored(bytes: impl Into<Bytes>) -> Self {
        Key(bytes.into())
    }

    /// The encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The encoding, shared.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Where the keys that begin with this tuple end: they are exactly those in `self..end`.
    ///
    /// A plain prefix of bytes would be wrong: `"a"` encodes as `02 'a' 00`, which also begins the text
    /// `"a\0"`, encoded as `02 'a' 00 FF 00`. What follows a whole element is a tag, and no tag is `FF`.
    pub fn end(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.0.len() + 1);
        bytes.extend_from_slice(&self.0);
        bytes.push(ESCAPE);
        bytes.into()
    }

    /// Whether this tuple begins with the elements of `prefix`.
    pub fn starts_with(&self, prefix: &Key) -> bool {
        self.0.starts_with(&prefix.0) && self.0.get(prefix.0.len()) != Some(&ESCAPE)
    }
}

impl<const N: usize> From<[&str; N]> for Key {
    fn from(texts: [&str; N]) -> Self {
        Key::of(texts.map(Element::from))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elements() {
            Ok(elements) => {
                let mut tuple = f.debug_tuple("Key");
                for element in &elements {
                    match element {
                        Element::Bytes(bytes) => tuple.field(&Bytes::copy_from_slice(bytes)),
                        Element::Text(text) => tuple.field(text),
                        Element::Number(number) => tuple.field(number),
                    };
                }
                tuple.finish()
            }
            Err(_) => write!(f, "Key({:?})", self.0),
        }
    }
}

fn encode_escaped(bytes: &mut Vec<u8>, tag: u8, plain: &[u8]) {
    bytes.push(tag);
    // What stands between zeros is copied at once.
    for (n, run) in plain.split(|&byte| byte == 0).enumerate() {
        if n > 0 {
            bytes.extend_from_slice(&[0, ESCAPE]);
        }
        bytes.extend_from_slice(run);
    }
    bytes.push(0);
}

fn encode_number(bytes: &mut Vec<u8>, number: i128) {
    let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
    assert!(range.contains(&number), "{number} does not fit a key");
    // In range, the magnitude fits 64 bits.
    let magnitude = number.unsigned_abs() as u64;
    let length = NUMBER_BYTES - (magnitude.leading_zeros() / 8) as u8;
    let significant = usize::from(NUMBER_BYTES - length);
    if number < 0 {
        bytes.push(ZERO - length);
        bytes.extend_from_slice(&(!magnitude).to_be_bytes()[significant..]);
    } else {
        bytes.push(ZERO + length);
        bytes.extend_from_slice(&magnitude.to_be_bytes()[significant..]);
    }
}

fn decode(bytes: &[u8], at: usize) -> Result<(Element, usize), KeyError> {
    match bytes[at] {
        BYTES => {
            let (plain, next) = decode_escaped(bytes, at + 1)?;
            Ok((Element::Bytes(plain), next))
        }
        TEXT => {
            let (plain, next) = decode_escaped(bytes, at + 1)?;
            let text = String::from_utf8(plain)
                .map_err(|_| KeyError { reason: "text that is not UTF-8", at })?;
            Ok((Element::Text(text), next))
        }
        tag if tag.abs_diff(ZERO) <= NUMBER_BYTES => decode_number(bytes, at, tag),
        _ => Err(KeyError { reason: "an unknown tag", at }),
    }
}

fn decode_escaped(bytes: &[u8], mut at: usize) -> Result<(Vec<u8>, usize), KeyError> {
    let mut plain = Vec::new();
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(0), Some(&ESCAPE)) => {
                plain.push(0);
                at += 2;
            }
            (Some(0), _) => return Ok((plain, at + 1)),
            (Some(&byte), _) => {
                plain.push(byte);
                at += 1;
            }
            (None, _) => {
                return Err(KeyError { reason: "an element without its end", at });
            }
        }
    }
}

fn decode_number(bytes: &[u8], at: usize, tag: u8) -> Result<(Element, usize), KeyError> {
    let length = usize::from(tag.abs_diff(ZERO));
    let start = at + 1;
    let digits = bytes
        .get(start..start + length)
        .ok_or(KeyError { reason: "a number without its end", at })?;
    let negative = tag < ZERO;
    let magnitude = digits
        .iter()
        .fold(0u64, |sum, &digit| (sum << 8) | u64::from(if negative { !digit } else { digit }));
    let number = i128::from(magnitude);
    let number = if negative { -number } else { number };
    Ok((Element::Number(number), start + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element() -> impl Strategy<Value = Element> {
        let near_powers = (0u32..64, -2i128..=2, any::<bool>()).prop_map(|(bits, off, minus)| {
            let number = (1i128 << bits) + off;
            if minus { -number } else { number }
        });
        let fits = |n: &i128| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(n);
        prop_oneof![
            prop::collection::vec(prop_oneof![Just(0u8), Just(255u8), any::<u8>()], 0..8)
                .prop_map(Element::Bytes),
            "[\\x00a-c\u{ff}\u{10ffff}]{0,6}".prop_map(Element::Text),
            any::<i64>().prop_map(Element::from),
            any::<u64>().prop_map(Element::from),
            near_powers.prop_filter("fits", fits).prop_map(Element::Number),
        ]
    }

    fn tuple() -> impl Strategy<Value = Vec<Element>> {
        prop::collection::vec(element(), 0..5)
    }

    proptest! {
        #[test]
        fn keys_sort_as_their_tuples(a in tuple(), b in tuple()) {
            prop_assert_eq!(Key::of(a.clone()).cmp(&Key::of(b.clone())), a.cmp(&b));
        }

        #[test]
        fn keys_give_their_tuple_back(tuple in tuple()) {
            prop_assert_eq!(Key::of(tuple.clone()).elements(), Ok(tuple));
        }

        #[test]
        fn a_prefix_is_whole_elements(a in tuple(), b in tuple()) {
            let (long, short) = (Key::of(a.clone()), Key::of(b.clone()));
            prop_assert_eq!(long.starts_with(&short), a.starts_with(&b));
            let in_range = long >= short && long.as_bytes() < &short.end()[..];
            prop_assert_eq!(in_range, a.starts_with(&b));
        }

        #[test]
        fn bytes_that_are_no_key_are_an_error_and_not_a_panic(bytes: Vec<u8>) {
            let key = Key::from_stored(bytes.clone());
            if let Ok(elements) = key.elements()
                && elements.iter().all(canonical)
            {
                prop_assert_eq!(Key::of(elements).as_bytes().len() <= bytes.len(), true);
            }
        }
    }

    fn canonical(element: &Element) -> bool {
        !matches!(element, Element::Number(n) if *n < i128::from(i64::MIN))
    }

    #[test]
    fn the_encoding_is_the_same_in_every_release() {
        let key = Key::of([
            Element::from("a\0b"),
            Element::from(&b"\x00\xff"[..]),
            Element::from(0u64),
            Element::from(-1i64),
            Element::from(258u64),
            Element::from(i64::MIN),
            Element::from(u64::MAX),
        ]);
        let expected = [
            &b"\x02a\x00\xffb\x00"[..],
            b"\x01\x00\xff\xff\x00",
            b"\x14",
            b"\x13\xfe",
            b"\x16\x01\x02",
            b"\x0c\x7f\xff\xff\xff\xff\xff\xff\xff",
            b"\x1c\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        assert_eq!(key.as_bytes(), expected.concat());
    }

    #[test]
    fn a_key_grows_by_one_element() {
        let key = Key::from(["lease", "role"]).with(7u64);
        assert_eq!(key, Key::of(["lease".into(), "role".into(), 7u64.into()]));
        assert_eq!(key, Key::from(["lease"]).extended(["role".into(), 7u64.into()]));
        assert_eq!(format!("{key:?}"), r#"Key("lease", "role", 7)"#);
    }
}
