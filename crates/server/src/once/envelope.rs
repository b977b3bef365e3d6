//! An upstream's answer as it is kept: status, a few headers and the body, in one piece of bytes.
//!
//! Version 1: the version (1 byte), flags (1 byte), the status (2 bytes, big endian), the number of headers
//! (1 byte); for each header its place in [`KEPT`] (1 byte), its length (2 bytes) and its value; then the body.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use bytes::{BufMut as _, Bytes, BytesMut};

pub(crate) const VERSION: u8 = 1;

/// Nobody may keep the answer, those who asked for it included.
const NO_STORE: u8 = 1;

const FLAGS: u8 = NO_STORE;

const KEPT_MOST: usize = 6;

/// The headers of an answer that are kept: those which say how its body is to be read. A place in the list is part
/// of the format: new ones go to its end.
static KEPT: [HeaderName; KEPT_MOST] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_DISPOSITION,
    header::LAST_MODIFIED,
    header::LINK,
];

/// The longest value of a header that is kept; a longer one is left out.
const VALUE_MOST: usize = 1024;

/// What is at most around a body.
pub(super) const OVERHEAD_MOST: usize = 5 + KEPT_MOST * (3 + VALUE_MOST);

/// An answer, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) status: StatusCode,
    pub(super) no_store: bool,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// These bytes are of another version than this node knows, or damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kept answer cannot be read: it is damaged, or a newer version of Consort wrote it")]
pub(super) struct Unreadable;

/// Packs an answer with those of its headers that are kept.
pub(super) fn pack(status: StatusCode, no_store: bool, headers: &HeaderMap, body: &[u8]) -> Bytes {
    let kept = || {
        KEPT.iter().zip(0u8..).filter_map(|(name, place)| {
            let value = headers.get(name)?;
            (value.len() <= VALUE_MOST).then_some((place, value))
        })
    };
    let mut out = BytesMut::with_capacity(64 + body.len());
    out.put_u8(VERSION);
    out.put_u8(if no_store { NO_STORE } else { 0 });
    out.put_u16(status.as_u16());
    out.put_u8(u8::try_from(kept().count()).unwrap_or(u8::MAX));
    for (place, value) in kept() {
        out.put_u8(place);
        // Not above `VALUE_MOST`.
        out.put_u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
        out.put_slice(value.as_bytes());
    }
    out.put_slice(body);
    out.freeze()
}

impl Envelope {
    /// Unpacks without copying.
    pub(super) fn unpack(packed: &Bytes) -> Result<Envelope, Unreadable> {
        let [VERSION, flags, high, low, count, ..] = packed[..] else { return Err(Unreadable) };
        if flags & !FLAGS != 0 {
            return Err(Unreadable);
        }
        let status = StatusCode::from_u16(u16::from_be_bytes([high, low]));
        let status = status.map_err(|_| Unreadable)?;
        let mut headers = Vec::with_capacity(count.into());
        let mut at = 5;
        for _ in 0..count {
            let [place, high, low, ..] = packed[at..] else { return Err(Unreadable) };
            let name = KEPT.get(usize::from(place)).ok_or(Unreadable)?;
            let (start, length) = (at + 3, usize::from(u16::from_be_bytes([high, low])));
            if packed.len() < start + length {
                return Err(Unreadable);
            }
            let value = HeaderValue::from_maybe_shared(packed.slice(start..start + length));
            headers.push((name.clone(), value.map_err(|_| Unreadable)?));
            at = start + length;
        }
        Ok(Envelope { status, no_store: flags & NO_STORE != 0, headers, body: packed.slice(at..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 200, JSON in German, `[1]`.
    const FIXTURE: &[u8] = b"\x01\x00\x00\xc8\x02\x00\x00\x10application/json\x02\x00\x02de[1]";

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("content-language", HeaderValue::from_static("de"));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("set-cookie", HeaderValue::from_static("s3cret=1"));
        headers.insert("link", HeaderValue::try_from("x".repeat(VALUE_MOST + 1)).unwrap());
        headers
    }

    #[test]
    fn version_1_is_read_and_written_as_it_was() {
        let packed = pack(StatusCode::OK, false, &headers(), b"[1]");
        assert_eq!(packed, FIXTURE);
        let envelope = Envelope::unpack(&Bytes::from_static(FIXTURE)).unwrap();
        assert_eq!(envelope.status, StatusCode::OK);
        assert!(!envelope.no_store);
        let expected = [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (header::CONTENT_LANGUAGE, HeaderValue::from_static("de")),
        ];
        assert_eq!(envelope.headers, expected);
        assert_eq!(envelope.body, "[1]");
    }

    #[test]
    fn an_empty_answer_that_nobody_may_keep_is_one_too() {
        let packed = pack(StatusCode::NOT_FOUND, true, &HeaderMap::new(), b"");
        assert_eq!(&packed[..], b"\x01\x01\x01\x94\x00");
        let envelope = Envelope::unpack(&packed).unwrap();
        assert_eq!((envelope.status.as_u16(), envelope.no_store), (404, true));
        assert!(envelope.headers.is_empty() && envelope.body.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_told_and_never_guessed() {
        // The body begins where the last header ends: cut off before it, nothing is right.
        for length in 0..FIXTURE.len() - 3 {
            let cut = Bytes::copy_from_slice(&FIXTURE[..length]);
            assert_eq!(Envelope::unpack(&cut), Err(Unreadable), "{length}");
        }
        for (at, byte) in [(0, 2), (1, 2), (2, 0xff), (5, 99), (8, b'\n')] {
            let mut damaged = FIXTURE.to_vec();
            damaged[at] = byte;
            assert_eq!(Envelope::unpack(&damaged.into()), Err(Unreadable), "{at}");
        }
    }
}
