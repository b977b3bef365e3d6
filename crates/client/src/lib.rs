//! A typed client of a node's HTTP interface.
//!
//! It speaks plain HTTP. [`Client`] opens a connection for each call, since its callers are people at a command
//! line, and [`Connection`] keeps one for many requests; both are for tools and tests, not for heavy
//! traffic. [`DbClient`] is for services: many tasks share it, and it keeps connections to several nodes.
//!
//! Every wait has an end and every answer a largest size. What a node refuses comes back as
//! [`ClientError::Refused`] or [`DbClientError`] with the node's own words.

mod answers;
mod client;
mod connection;
mod db;
mod db_admin;
mod error;
mod exchange;
mod glue;

pub use answers::{Cluster, From, FromError, Resolved};
pub use client::Client;
pub use connection::{Connection, Reply};
pub use db::{DbClient, DbClientError, DbProblem, DbWriteState, ReadConsistency, SqlStatement};
pub use db::{ReadManyOutcome, ReadOutcome, RowSet, StatementOutcome, WriteOutcome};
pub use db::{WorkerEntry, WorkerList};
pub use db_admin::{DbAdminClient, TransferError, TransferProgress};
pub use error::{AddressError, ClientError};
pub use glue::{GlueClient, PieceAnswer, ReadDocument, SentPiece};
pub use hyper::Method;
