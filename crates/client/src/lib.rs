//! A typed client of a node's HTTP interface.
//!
//! It speaks plain HTTP, one connection a call: its callers are people at a command line and tests, not
//! traffic. Every wait has an end and every answer a largest size. What a node refuses comes back as
//! [`ClientError::Refused`] with the node's own words.

mod answers;
mod client;
mod connection;
mod error;
mod exchange;

pub use answers::{Cluster, From, FromError, Resolved};
pub use client::Client;
pub use connection::{Connection, Reply};
pub use error::{AddressError, ClientError};
pub use hyper::Method;
