//! A replicated SQL database: SQLite files that follow one feed of changes.
//!
//! The database is a head cell, a feed of entries and two snapshots in one shard of the store. A worker's
//! SQLite file is a cache of it. This crate holds the pure core ([`head`], [`entry`], [`schema`], [`hash`],
//! [`supervise`], [`snapshot`]), the work on one SQLite file ([`sqlite`], [`write`], [`follow`]), and a model
//! that walks every interleaving of claims and writes. It knows no HTTP and no engine.

pub mod entry;
pub mod follow;
pub mod hash;
pub mod head;
pub mod local;
#[cfg(test)]
mod model;
mod position;
pub mod schema;
pub mod snapshot;
pub mod sqlite;
pub mod supervise;
mod wire;
pub mod write;

pub use position::{DbPosition, DbPositionError};
pub use wire::DbFormatError;
