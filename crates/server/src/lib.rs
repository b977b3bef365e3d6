//! Consort's network side: an HTTP accept loop in which everything is bounded, the answers every node gives
//! (`/healthz`, `/readyz`, `/metrics`, `/cluster`, problems), and datagrams ([`udp`]).
//!
//! This is the only crate that serves HTTP, and so the only one that knows axum, and hyper as a server
//! does. It knows the parts and serves each of them in a module of its own ([`streams`], [`views`],
//! [`feeds`], [`glue`], [`once`]). All parts that take input do so by [`ingress`]. It knows no engine: it reaches
//! logs and stores by their contracts alone.
//!
//! The accept loop and the door know no part, with one exception: [`Options`] hands them the [`Probe`]s for
//! `/readyz`, one [`Router`](axum::Router) with all routes, those with [`LongBodies`], those that are open to
//! tenants ([`TenantRoutes`]), and the [`Metrics`] to show. The exception is [`Express`], the short way for single
//! events, which knows the [`streams`].
//!
//! A server is [`Options`], [`Server::bind`], [`Server::run`] with a shutdown future, and a
//! cloneable [`Handle`].

mod body;
mod cluster;
mod connection;
pub mod db;
mod door;
mod express;
pub mod feeds;
mod formats;
mod framing;
mod gate;
pub mod glue;
mod health;
pub mod home;
pub mod ingress;
mod limits;
mod long_bodies;
mod memory;
mod metrics;
pub mod once;
mod peers;
mod problem;
pub mod problems;
mod routes;
mod serve;
mod socket;
pub mod streams;
mod tenants;
mod tokens;
pub mod udp;
pub mod views;
mod web;
#[cfg(test)]
mod yields;

pub use axum;
pub use prometheus_client;

pub use cluster::{Cluster, Resolved, Resolver, Resolvers, Resolving};
pub use express::Express;
pub use formats::FORMATS;
pub use gate::{Admission, Gate, GateKind, GateMetrics, Reason, Refused, Standing, UnknownGate};
pub use health::{PROBE_WITHIN, Probe};
pub use ingress::{Ingress, IngressOptions, IngressSpec, Ingresses, POST_WITHIN};
pub use limits::{KEEP_ALIVE_IDLE, Limits, MAX_HEADER_BYTES, STOP_WITHIN, WRITE_STALL};
pub use long_bodies::{LongBodies, TakesPieces};
pub use metrics::{HttpMetrics, Metrics};
pub use peers::{FORWARDED, PeerError, Peers, RoleOwner};
pub use problem::Problem;
pub use problems::ProblemKind;
pub use serve::{BindError, Drained, Handle, Options, Server};
pub use tenants::{BadTenantName, Caller, TENANT, TenantName, TenantRoutes, TenantScope};
pub use tokens::{BadToken, Tokens};
pub use web::{BadHostName, BadOrigin, HostName, Origin, WebPolicy};
