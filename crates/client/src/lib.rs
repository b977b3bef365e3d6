//! A typed client of a node's HTTP interface.
//!
//! It speaks plain HTTP. [`Client`] opens a connection for each call, since its callers are people at a command
//! line, and [`Connection`] keeps one for many requests; both are for tools and tests, not for heavy
//! traffic. Every wait has an end and every answer a largest size. What a node refuses comes back as
//! [`ClientError::Refused`] with the node's own words.

mod answers;
mod client;
mod connection;
mod db_admin;
mod error;
mod exchange;
mod glue;

pub use answers::{Cluster, From, FromError, Resolved};
pub use client::Client;
pub use connection::{Connection, Reply};
pub use db_admin::{DbAdminClient, TransferError, TransferProgress};
pub use error::{AddressError, ClientError};
pub use glue::{GlueClient, PieceAnswer, ReadDocument, SentPiece};
pub use hyper::Method;
