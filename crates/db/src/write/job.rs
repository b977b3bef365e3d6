//! A write request as the writer gets it, and its outcome.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub(crate) const ANSWER_VERSION: u8 = 1;

/// A request: statements that take effect together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteJob {
    /// The statements, in order.
    pub statements: Vec<JobStatement>,
    /// The key of a request that may be repeated.
    pub key: Option<JobKey>,
}

/// The key of a request, and a hash of its statements: the same key with others is refused (H22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobKey {
    /// The key.
    pub key: String,
    /// SHA-256 of the statements.
    pub hash: [u8; 32],
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatement {
    /// Its text: exactly one statement.
    pub sql: String,
    /// Its arguments.
    pub args: JobArgs,
    /// How many rows it must change (H24).
    pub changes: Option<u64>,
}

/// The arguments of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum JobArgs {
    /// By place, from the first.
    Positional(Vec<SqlValue>),
    /// By name, with or without its prefix.
    Named(Vec<(String, SqlValue)>),
}

/// A value of SQLite.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// A text; it need not be UTF-8.
    Text(Bytes),
    /// A blob.
    Blob(Bytes),
}

/// The result of one statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementResult {
    /// How many rows it changed.
    pub changes: u64,
    /// The rowid of the row it inserted last, where rowids are the same on every worker (T5).
    pub last_id: Option<i64>,
    /// The columns of its rows.
    pub columns: Vec<String>,
    /// The declared types of the columns, where they have one. They are not kept for repeats under a key.
    pub types: Vec<Option<String>>,
    /// Its rows: of a query, or of `RETURNING`.
    pub rows: Vec<Vec<SqlValue>>,
}

/// The outcome of a job, to be told when its group is settled.
pub type JobOutcome = Result<JobAnswer, JobError>;

/// The answer of a job that took effect.
#[derive(Clone, Debug, PartialEq)]
pub enum JobAnswer {
    /// In this group.
    New(Vec<StatementResult>),
    /// Before, under the same key; without results if they were too large to keep.
    Known {
        /// The first index of the group it took effect in.
        index: u64,
        /// The results.
        results: Option<Vec<StatementResult>>,
    },
}

/// Why a job took no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JobError {
    /// The kind of error.
    pub kind: JobErrorKind,
    /// The statement at fault, from 0.
    pub statement: Option<usize>,
    /// SQLite's extended code.
    pub code: Option<i32>,
    /// What happened, and what to do.
    pub message: String,
}

/// The kinds of errors that a client tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobErrorKind {
    /// An error in the request or its SQL.
    Request,
    /// A constraint forbids the change.
    Constraint,
    /// A statement changed another number of rows than it must.
    Expectation,
    /// The changes or a value are too large.
    TooLarge,
    /// A table that cannot be replicated.
    Schema,
    /// The key was used with other statements.
    KeyReused,
    /// The statements took too long.
    TimeLimit,
    /// The answer is too large.
    AnswerTooLarge,
    /// The database or the disk is full.
    Full,
}

/// The bounds of one job.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// For all statements of a job together.
    pub write_time: Duration,
    /// The same for a job with DDL.
    pub ddl_time: Duration,
    /// Most rows of an answer.
    pub max_rows: usize,
    /// Most bytes of an answer.
    pub max_answer: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        JobLimits {
            write_time: Duration::from_secs(1),
            ddl_time: Duration::from_secs(60),
            max_rows: 10_000,
            max_answer: 8 * 1024 * 1024,
        }
    }
}

impl JobError {
    /// An error of the job as a whole.
    pub fn new(kind: JobErrorKind, message: impl Into<String>) -> Self {
        JobError { kind, statement: None, code: None, message: message.into() }
    }

    pub(crate) fn at(self, statement: usize) -> Self {
        JobError { statement: Some(statement), ..self }
    }
}

impl SqlValue {
    pub(crate) fn from_sqlite(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(number) => SqlValue::Integer(number),
            ValueRef::Real(real) => SqlValue::Real(real),
            ValueRef::Text(text) => SqlValue::Text(Bytes::copy_from_slice(text)),
            ValueRef::Blob(blob) => SqlValue::Blob(Bytes::copy_from_slice(blob)),
        }
    }

    /// The memory of the value, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) => 8,
            SqlValue::Text(bytes) | SqlValue::Blob(bytes) => bytes.len(),
        }
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        SqlValue::Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        SqlValue::Integer(number)
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(number) => ValueRef::Integer(*number),
            SqlValue::Real(real) => ValueRef::Real(*real),
            SqlValue::Text(text) => ValueRef::Text(text),
            SqlValue::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}

/// The stored form of an answer, for repeats under its key.
pub(crate) fn encode_answer(results: &[StatementResult]) -> Vec<u8> {
    let mut to = FieldWriter::new(ANSWER_VERSION);
    to.u32(results.len() as u32);
    for result in results {
        to.u64(result.changes);
        match result.last_id {
            None => to.u8(0),
            Some(id) => to.u8(1).i64(id),
        };
        to.u32(result.columns.len() as u32).u32(result.rows.len() as u32);
        for column in &result.columns {
            to.bytes(column.as_bytes());
        }
        result.rows.iter().flatten().for_each(|value| put_value(&mut to, value));
    }
    to.finish()
}

pub(crate) fn decode_answer(bytes: &[u8]) -> Result<Vec<StatementResult>, DbFormatError> {
    let mut from = FieldReader::new("the answer of a key", bytes, ANSWER_VERSION)?;
    let count = from.u32()?;
    let mut results = Vec::new();
    for _ in 0..count {
        let changes = from.u64()?;
        let last_id = match from.u8()? {
            0 => None,
            _ => Some(from.i64()?),
        };
        let (columns, rows) = (from.u32()?, from.u32()?);
        let columns: Vec<String> =
            (0..columns).map(|_| from.text().map(str::to_owned)).collect::<Result<_, _>>()?;
        let mut row = || -> Result<Vec<SqlValue>, DbFormatError> {
            columns.iter().map(|_| take_value(&mut from)).collect()
        };
        let rows = (0..rows).map(|_| row()).collect::<Result<_, DbFormatError>>()?;
        let types = vec![None; columns.len()];
        results.push(StatementResult { changes, last_id, columns, types, rows });
    }
    from.finish()?;
    Ok(results)
}

fn put_value(to: &mut FieldWriter, value: &SqlValue) {
    match value {
        SqlValue::Null => to.u8(0),
        SqlValue::Integer(number) => to.u8(1).i64(*number),
        SqlValue::Real(real) => to.u8(2).u64(real.to_bits()),
        SqlValue::Text(text) => to.u8(3).bytes(text),
        SqlValue::Blob(blob) => to.u8(4).bytes(blob),
    };
}

fn take_value(from: &mut FieldReader<'_>) -> Result<SqlValue, DbFormatError> {
    Ok(match from.u8()? {
        0 => SqlValue::Null,
        1 => SqlValue::Integer(from.i64()?),
        2 => SqlValue::Real(f64::from_bits(from.u64()?)),
        3 => SqlValue::Text(Bytes::copy_from_slice(from.bytes()?)),
        4 => SqlValue::Blob(Bytes::copy_from_slice(from.bytes()?)),
        _ => return Err(from.malformed("a value has no known type")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_of_an_answer_is_read_in_every_release() {
        let result = StatementResult {
            changes: 2,
            last_id: Some(7),
            columns: vec!["a".into()],
            types: vec![None],
            rows: vec![
                vec![SqlValue::Null],
                vec![SqlValue::Integer(-1)],
                vec![SqlValue::Real(0.5)],
                vec!["x".into()],
                vec![SqlValue::Blob(Bytes::from_static(b"\0"))],
            ],
        };
        let stored = b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\0\x07\0\0\0\x01\0\0\0\x05\
            \0\0\0\x01a\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\x02\x3f\xe0\0\0\0\0\0\0\
            \x03\0\0\0\x01x\x04\0\0\0\x01\0";
        assert_eq!(encode_answer(std::slice::from_ref(&result)), stored);
        assert_eq!(decode_answer(stored), Ok(vec![result]));
        assert!(decode_answer(&stored[..9]).is_err());
    }
}
