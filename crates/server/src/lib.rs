//! Consort's HTTP side: an accept loop in which everything is bounded, and the answers every node
//! gives (`/healthz`, `/readyz`, `/metrics`, `/cluster`, problems).
//!
//! This is the only crate that knows axum and hyper as a server does. It knows no engine and no
//! part: what it must ask is handed in as [`Probe`]s, what it must serve as a
//! [`Router`](axum::Router), and what it must show is registered in [`Metrics`].
//!
//! A server is [`Options`], [`Server::bind`], [`Server::run`] with a shutdown future, and a
//! cloneable [`Handle`].

mod body;
mod cluster;
mod connection;
mod door;
mod express;
pub mod feeds;
mod gate;
mod health;
mod limits;
mod memory;
mod metrics;
pub mod once;
mod problem;
mod routes;
mod serve;
mod socket;
pub mod streams;
mod tokens;
pub mod udp;
pub mod views;

pub use axum;
pub use prometheus_client;

pub use cluster::{Cluster, Resolved, Resolver, Resolvers, Resolving, Wanted};
pub use express::Express;
pub use gate::{Gate, GateKind, GateMetrics, Pass, Reason, Refused, Standing, UnknownGate};
pub use health::{PROBE_WITHIN, Probe};
pub use limits::{KEEP_ALIVE_IDLE, Limits, MAX_HEADER_BYTES, STOP_WITHIN, WRITE_STALL};
pub use metrics::{HttpMetrics, Metrics};
pub use problem::Problem;
pub use serve::{BindError, Drained, Handle, Options, Server};
pub use tokens::{BadToken, Tokens};
