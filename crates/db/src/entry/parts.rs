//! The parts of a group, and their stored form.

use bytes::Bytes;

use crate::wire::{DbFormatError, FieldReader, FieldWriter};

const WHAT: &str = "a part of an entry";
const ROWS: u8 = 1;
const DDL: u8 = 2;
const SET: u8 = 3;

/// One step of a group. The steps of a group are applied in order, in one local transaction (C7).
#[derive(Clone, Debug, PartialEq)]
pub enum EntryPart {
    /// A changeset of SQLite's session extension.
    Rows(Bytes),
    /// One statement, executed as it stands.
    Ddl(String),
    /// Values that no changeset carries (T4, T13).
    Set(SetValues),
}

/// Values that are set after the rows before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetValues {
    /// Rows of `sqlite_sequence`: a table's name, and its counter; `None` deletes the row.
    pub sequences: Vec<(String, Option<i64>)>,
    /// `PRAGMA user_version`.
    pub user_version: Option<i64>,
}

impl SetValues {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty() && self.user_version.is_none()
    }
}

pub(super) fn encode(parts: &[EntryPart]) -> Vec<u8> {
    let mut to = FieldWriter::unversioned();
    for part in parts {
        match part {
            EntryPart::Rows(changeset) => to.u8(ROWS).bytes(changeset),
            EntryPart::Ddl(text) => to.u8(DDL).bytes(text.as_bytes()),
            EntryPart::Set(values) => to.u8(SET).bytes(&encode_set(values)),
        };
    }
    to.finish()
}

pub(super) fn decode(bytes: &Bytes) -> Result<Vec<EntryPart>, DbFormatError> {
    let mut from = FieldReader::unversioned(WHAT, bytes);
    let mut parts = Vec::new();
    while !from.is_empty() {
        parts.push(match from.u8()? {
            ROWS => EntryPart::Rows(bytes.slice_ref(from.bytes()?)),
            DDL => EntryPart::Ddl(from.text()?.to_owned()),
            SET => EntryPart::Set(decode_set(from.bytes()?)?),
            _ => return Err(from.malformed("its kind is none of three")),
        });
    }
    Ok(parts)
}

fn encode_set(values: &SetValues) -> Vec<u8> {
    let mut to = FieldWriter::unversioned();
    to.u32(values.sequences.len() as u32);
    for (table, counter) in &values.sequences {
        put_number(to.bytes(table.as_bytes()), *counter);
    }
    put_number(&mut to, values.user_version);
    to.finish()
}

fn decode_set(bytes: &[u8]) -> Result<SetValues, DbFormatError> {
    let mut from = FieldReader::unversioned(WHAT, bytes);
    let count = from.u32()?;
    let mut values = SetValues::default();
    for _ in 0..count {
        let table = from.text()?.to_owned();
        values.sequences.push((table, take_number(&mut from)?));
    }
    values.user_version = take_number(&mut from)?;
    from.finish()?;
    Ok(values)
}

fn put_number(to: &mut FieldWriter, number: Option<i64>) {
    match number {
        None => to.u8(0),
        Some(number) => to.u8(1).i64(number),
    };
}

fn take_number(from: &mut FieldReader<'_>) -> Result<Option<i64>, DbFormatError> {
    match from.u8()? {
        0 => Ok(None),
        1 => from.i64().map(Some),
        _ => Err(from.malformed("an optional number is neither there nor absent")),
    }
}
