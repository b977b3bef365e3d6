//! RideShare: two services and a gateway that keep all their data in a Consort database.
//!
//! Each process speaks HTTP and keeps no state but a request counter. `users.rs` and `rides.rs` are services that may
//! run in several instances behind `gateway/`. `orchestrator.rs` shows the database itself: its tables and its workers.
//! `up/` starts all of them with a Consort on one machine.
//!
//! Read `users.rs` first: it is the smallest service. `database.rs` shows how a service stands on Consort: strong reads,
//! and writes that carry an idempotency key and are repeated until the outcome is certain.
//!
//! All SQL is in `users.rs`, `rides.rs`, `rides/` and `statements.rs`; no text of a request becomes SQL.

#[cfg(test)]
mod api_tests;
mod area;
mod clear;
mod command;
mod conditions;
mod counter;
mod database;
mod gateway;
mod http;
mod orchestrator;
mod random_key;
mod ride_id;
mod rides;
mod service;
mod shutdown;
mod start_error;
mod statements;
mod table_requests;
#[cfg(test)]
mod testing;
mod timestamp;
mod up;
mod user_list;
mod users;

pub use command::run_command_line;
