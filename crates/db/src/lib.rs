//! A replicated SQL database: SQLite files that follow one feed of changes.
//!
//! The database is a head cell, a feed of entries and two snapshots in one shard of the store. A worker's
//! SQLite file is a cache of it. This crate holds the pure core ([`head`], [`entry`], [`schema`], [`hash`],
//! [`supervise`], [`snapshot`]), the work on one SQLite file ([`sqlite`], [`write`], [`follow`]), and a model
//! that walks every interleaving of claims and writes. It knows no HTTP and no engine.

pub mod admin;
#[cfg(test)]
mod bed;
pub mod cells;
pub mod db;
pub mod dump;
pub mod entry;
pub mod follow;
mod formats;
pub mod hash;
pub mod head;
pub mod local;
#[cfg(test)]
mod model;
pub mod part;
mod position;
mod probe;
pub mod read;
pub mod rows;
pub mod schema;
pub mod settings;
mod settle;
pub mod snapshot;
pub mod sqlite;
pub mod store;
pub mod supervise;
pub mod view;
mod wire;
pub mod worker;
pub mod write;

pub use formats::FORMATS;
pub use position::{DbPosition, DbPositionError};
pub use wire::DbFormatError;
