//! A worker: the tenure of one slot, with a SQLite file that follows the feed and may lead.

pub mod cell;
pub mod shared;
