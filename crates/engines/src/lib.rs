//! The engines behind [`Log`](consort_kernel::Log) and [`Store`](consort_kernel::Store), and the one
//! place that chooses among them: [`open`]. Queues of others are read by what [`open_inlet`] gives,
//! and exchanges of others published to by what [`open_publisher`] gives.
//!
//! Nothing outside this crate knows fjall, Redis or RabbitMQ.

pub mod address;
pub mod embedded;
mod formats;
mod layout;
mod open;
pub mod rabbitmq;
pub mod redis;

pub use embedded::Durability;
pub use formats::FORMATS;
pub use open::{
    Engine, OpenError, Options, open, open_exclusive_inlet, open_inlet, open_publisher,
};
