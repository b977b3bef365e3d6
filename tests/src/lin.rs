//! Checkers of histories: they judge what many clients were told at the same time. Pure: no clock, no I/O.
//!
//! [`witness`] compares a history with the feed of the database: every answer names an index, and the feed says
//! which rows that index has. [`search`] uses no index: it looks for an order of the calls that explains all
//! answers, so a wrong index cannot hide. Both judge the same histories ([`registers`]), and [`accounts`] judges
//! transfers. [`shrink`] finds the part of a history that is worth reading.

pub mod accounts;
pub mod feed;
pub mod history;
pub mod registers;
pub mod search;
pub mod shrink;
#[cfg(test)]
mod simulate;
pub mod witness;
