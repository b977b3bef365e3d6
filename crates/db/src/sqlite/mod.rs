//! One SQLite file: how it is opened, what users may run on it, and how its changes are recorded and
//! applied. The only place with `unsafe` is [`session`].

pub mod authorizer;
pub mod codes;
pub mod connect;
pub mod deadline;
pub mod scan;
#[allow(unsafe_code, reason = "SQLite's session extension has no safe interface")]
pub mod session;
pub mod shape;
