//! Reading the entries of a partition or feed: a Redis stream with the ids 0-1, 0-2, ….

use bytes::Bytes;
use consort_kernel::limits::READ_ENTRIES;
use consort_kernel::{Cursor, Digest, Fault, Most, ReadError};
use redis::Value;

use super::link::Link;
use super::scripts::Scripts;

/// Entries that one call lets go of: what bounds its work.
const TRIM_ENTRIES: &str = "1000";

/// An entry as stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) number: u64,
    /// The digest that stands beside it.
    pub(super) digest: Bytes,
    pub(super) contents: Bytes,
}

/// The entries of the stream at `key` behind a cursor, up to `most`. The cursor is checked every time:
/// the script looks at the vouched entry where it lies, and only its digest travels.
pub(super) async fn read(
    link: &Link,
    scripts: &Scripts,
    key: &str,
    after: &Cursor,
    most: Most,
) -> Result<Vec<Stored>, ReadError> {
    let from = sequence(after.next);
    let vouched = after.last.map_or(String::new(), |(number, _)| sequence(number));
    let entries = most.entries.clamp(1, READ_ENTRIES).to_string();
    let bytes = most.bytes.max(1).to_string();
    let arguments = [from.as_bytes(), vouched.as_bytes(), entries.as_bytes(), bytes.as_bytes()];
    let answer = link.script(&scripts.entries, key.as_bytes(), &arguments).await;
    let answer = answer.map_err(|error| ReadError::Engine(error.fault()))?;
    let (first, found, stored) = parse(answer).ok_or_else(|| unexpected(key))?;
    after.verify(first, found)?;
    Ok(stored)
}

/// The oldest number of the stream at `key`; 0 if it has none.
pub(super) async fn first(link: &Link, scripts: &Scripts, key: &str) -> Result<u64, Fault> {
    // The last sequence there can be: nothing is read, but the first is told.
    let none = u64::MAX.to_string();
    let arguments = [none.as_bytes(), b"", b"1", b"1"];
    let answer = link.script(&scripts.entries, key.as_bytes(), &arguments).await;
    let answer = answer.map_err(super::link::CallError::fault)?;
    let (first, _, _) = parse(answer).ok_or_else(|| unexpected(key))?;
    Ok(first)
}

/// Lets go of the entries below `before`, in bounded steps.
pub(super) async fn trim(
    link: &Link,
    scripts: &Scripts,
    key: &str,
    before: u64,
) -> Result<(), Fault> {
    let bound = sequence(before);
    loop {
        let arguments = [bound.as_bytes(), TRIM_ENTRIES.as_bytes()];
        let answer = link.script(&scripts.trim, key.as_bytes(), &arguments).await;
        match answer.map_err(super::link::CallError::fault)? {
            Value::Int(1) => {}
            _ => return Ok(()),
        }
    }
}

/// A number's id has the sequence one higher: 0-0 is no id.
fn sequence(number: u64) -> String {
    number.saturating_add(1).to_string()
}

fn unexpected(key: &str) -> Fault {
    Fault::Fatal(format!("redis holds something else than Consort's entries under {key}"))
}

type Parsed = (u64, Option<Digest>, Vec<Stored>);

fn parse(answer: Value) -> Option<Parsed> {
    let Value::Array(parts) = answer else { return None };
    let mut parts = parts.into_iter();
    let first = number(&parts.next()?)?;
    let found = match parts.next()? {
        Value::BulkString(digest) => Some(Digest::from_slice(&digest)?),
        _ => None,
    };
    let mut stored = Vec::with_capacity(parts.len() / 3);
    while let Some(part) = parts.next() {
        stored.push(Stored {
            number: number(&part)?,
            digest: bytes(parts.next()?)?,
            contents: bytes(parts.next()?)?,
        });
    }
    Some((first, found, stored))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(text) => {
            std::str::from_utf8(text).ok()?.parse::<u64>().ok()?.checked_sub(1)
        }
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        _ => None,
    }
}
