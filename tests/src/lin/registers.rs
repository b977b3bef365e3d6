//! Registers: rows with one value each that clients write, swap and read. One record of a call gives the form that
//! each checker wants.
//!
//! The value that a call writes is its stamp, so no two calls write the same value. The history table has the
//! register as its note.

use std::collections::BTreeMap;

use super::feed::FeedRows;
use super::history::{
    CallAction, CallSpan, ClientCall, ClientRead, ClientWrite, ReadLevel, Row, RowCell, ToldOutcome,
};
use super::search::{RegisterCall, RegisterStep};

/// The table of the registers: a key, and the value.
pub const REGISTERS: &str = "registers";

/// The history table of the registers: an id, the stamp, and the register.
pub const REGISTER_HISTORY: &str = "history";

/// One call of one client on one register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRecord {
    /// The client.
    pub client: u32,
    /// When.
    pub span: CallSpan,
    /// The register.
    pub register: i64,
    /// The request and its answer.
    pub access: RegisterAccess,
}

/// A request on a register, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterAccess {
    /// Sets the register to the stamp.
    Write {
        /// The new value.
        stamp: i64,
        /// The answer.
        outcome: ToldOutcome,
    },
    /// Sets the register to the stamp if it has another value now.
    Swap {
        /// The value that it must have.
        from: i64,
        /// The new value.
        stamp: i64,
        /// The answer.
        outcome: ToldOutcome,
    },
    /// Reads the register.
    Read {
        /// The value; `None` if there is no such row.
        value: Option<i64>,
        /// The index that the answer names.
        index: u64,
        /// How fresh it must be.
        level: ReadLevel,
    },
}

impl RegisterRecord {
    /// The call as the witness judges it.
    pub fn client_call(&self) -> ClientCall {
        let action = match self.access {
            RegisterAccess::Write { stamp, outcome }
            | RegisterAccess::Swap { stamp, outcome, .. } => {
                let note = vec![RowCell::Integer(self.register)];
                CallAction::Write(ClientWrite { stamp, note, outcome })
            }
            RegisterAccess::Read { value, index, level } => {
                let rows = value.map(|value| register_row(self.register, value));
                let (key, rows) = (Some(self.register), rows.into_iter().collect());
                CallAction::Read(ClientRead { table: REGISTERS, key, rows, index, level })
            }
        };
        ClientCall { client: self.client, span: self.span, action }
    }

    /// The call as the search judges it; `None` if it observed and changed nothing, or promises no order.
    pub fn register_call(&self) -> Option<RegisterCall> {
        let step = match self.access {
            RegisterAccess::Write {
                outcome: ToldOutcome::NotStored | ToldOutcome::Unmet, ..
            }
            | RegisterAccess::Swap { outcome: ToldOutcome::NotStored, .. } => return None,
            RegisterAccess::Read { level: ReadLevel::After(_) | ReadLevel::Any, .. } => {
                return None;
            }
            RegisterAccess::Write { stamp, .. } => RegisterStep::Write(stamp),
            RegisterAccess::Swap { from, outcome: ToldOutcome::Unmet, .. } => {
                RegisterStep::FailedSwap { from }
            }
            RegisterAccess::Swap { from, stamp, .. } => RegisterStep::Swap { from, to: stamp },
            RegisterAccess::Read { value, .. } => RegisterStep::Read(value),
        };
        Some(RegisterCall { client: self.client, span: self.span, step })
    }
}

/// The row of a register.
pub fn register_row(register: i64, value: i64) -> Row {
    vec![RowCell::Integer(register), RowCell::Integer(value)]
}

/// The calls by register, as the search judges them.
pub fn by_register(records: &[RegisterRecord]) -> BTreeMap<i64, Vec<RegisterCall>> {
    let mut registers: BTreeMap<i64, Vec<RegisterCall>> = BTreeMap::new();
    for record in records {
        if let Some(call) = record.register_call() {
            registers.entry(record.register).or_default().push(call);
        }
    }
    registers
}

/// Looks whether each register always has the last value that the history table says was written to it.
pub fn check_values(feed: &FeedRows) -> Result<(), String> {
    let mut values = BTreeMap::new();
    let mut written = feed.added(REGISTER_HISTORY).into_iter().peekable();
    let (changes, history) = (feed.changes(REGISTERS), feed.changes(REGISTER_HISTORY));
    if changes != history {
        return Err("registers and their history did not change at the same indexes".to_owned());
    }
    for index in history {
        while let Some((_, row)) = written.next_if(|(at, _)| *at == index) {
            let [_, RowCell::Integer(stamp), RowCell::Integer(register)] = row[..] else {
                return Err(format!("index {index}: {row:?} is no row of the history"));
            };
            values.insert(register, stamp);
        }
        let expected = values.iter().map(|(register, value)| register_row(*register, *value));
        let found = feed.rows(REGISTERS, None, index);
        if !expected.clone().eq(found.iter().copied().cloned()) {
            let expected: Vec<Row> = expected.collect();
            return Err(format!("index {index}: written {expected:?}, and there is {found:?}"));
        }
    }
    Ok(())
}
