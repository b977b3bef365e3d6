//! A history: calls of clients, each with its begin, its end and its answer.

use std::fmt;

/// A value of one column. The workloads use no others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowCell {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
}

/// A row. Its first column is its key, an `INTEGER PRIMARY KEY`.
pub type Row = Vec<RowCell>;

/// When a call ran, in nanoseconds of one monotonic clock that all clients share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSpan {
    /// Before its request was sent.
    pub began: u64,
    /// After its answer arrived; `None` if its outcome is unknown. Then it may take effect at any later time, or
    /// never.
    pub ended: Option<u64>,
}

impl CallSpan {
    /// Whether this call had its answer before the other one began.
    pub fn is_before(self, other: CallSpan) -> bool {
        self.ended.is_some_and(|ended| ended < other.began)
    }
}

/// One call of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCall {
    /// The client.
    pub client: u32,
    /// When.
    pub span: CallSpan,
    /// The request and its answer.
    pub action: CallAction,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAction {
    /// A write, with any outcome.
    Write(ClientWrite),
    /// A read that was answered.
    Read(ClientRead),
}

/// A write. Within its transaction it adds one row to the history table: an id, its stamp, and a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientWrite {
    /// A number that no other write of the history has.
    pub stamp: i64,
    /// The columns behind the stamp.
    pub note: Row,
    /// The outcome, as the client was told.
    pub outcome: ToldOutcome,
}

/// The outcome of a write, as its client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldOutcome {
    /// It is stored, at this index; an error that says `stored` names none.
    Stored {
        /// The index of its group.
        index: Option<u64>,
    },
    /// It may be stored now or later, or never.
    Unknown,
    /// It is not stored and never will be.
    NotStored,
    /// It is not stored because a statement did not change as many rows as it had to.
    Unmet,
}

/// A read that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRead {
    /// The table.
    pub table: &'static str,
    /// The row that was asked for; `None` for the whole table.
    pub key: Option<i64>,
    /// The answer, ordered by key.
    pub rows: Vec<Row>,
    /// The index that the answer names.
    pub index: u64,
    /// How fresh the client asked it to be.
    pub level: ReadLevel,
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLevel {
    /// Linearizable.
    Strong,
    /// `Consort-After`: at this index or behind it.
    After(u64),
    /// The default: any committed prefix that is not too old.
    Any,
}

impl fmt::Display for CallSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |nanos: u64| nanos as f64 / 1e6;
        match self.ended {
            Some(ended) => {
                write!(f, "[{:>12.3} ms .. {:>12.3} ms]", millis(self.began), millis(ended))
            }
            None => write!(f, "[{:>12.3} ms ..              ]", millis(self.began)),
        }
    }
}

impl fmt::Display for ClientCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} client {:>2} ", self.span, self.client)?;
        match &self.action {
            CallAction::Write(ClientWrite { stamp, note, outcome }) => {
                write!(f, "writes {stamp} {note:?}: {outcome:?}")
            }
            CallAction::Read(ClientRead { table, key, rows, index, level }) => {
                let key = key.map_or("all rows".to_owned(), |key| format!("row {key}"));
                write!(f, "reads {key} of {table} ({level:?}): at {index} {rows:?}")
            }
        }
    }
}
