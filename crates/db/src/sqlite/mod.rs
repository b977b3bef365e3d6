//! One SQLite file: how it is opened, what users may run on it, and how its changes are recorded and
//! applied. `unsafe` is here alone: in [`session`] and `complete`.

pub mod authorizer;
pub mod codes;
#[allow(unsafe_code, reason = "SQLite's judgement of a statement has no safe interface")]
pub mod complete;
pub mod connect;
pub mod deadline;
pub mod scan;
#[allow(unsafe_code, reason = "SQLite's session extension has no safe interface")]
pub mod session;
pub mod shape;
