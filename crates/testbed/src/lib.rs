//! The test bed: real servers for tests and benchmarks, each private to the test that starts it,
//! and the means to hurt them.
//!
//! Every server listens on a port of its own on 127.0.0.1, keeps its files in a temporary folder,
//! can be killed, paused, resumed and restarted with or without its data, and ends with the test,
//! even if the test's process is killed ([`Process`] says how). [`Proxy`] stands between a client
//! and a server and delays, cuts or swallows what passes; [`Balancer`] stands before several servers that
//! do the same.
//!
//! A server that cannot be started is a broken machine, not an outcome to handle: the test bed
//! panics, and says what to do. Nothing here is part of the product.

mod balancer;
mod eventually;
mod influx;
mod ports;
mod postgres;
mod process;
mod program;
mod proxy;
mod proxy_link;
mod rabbitmq;
mod rabbitmq_home;
mod rabbitmq_options;
mod redis;
mod redis_cluster;
mod redis_options;
mod resp;
mod start;
mod tls;

pub use balancer::Balancer;
pub use eventually::{Condition, eventually};
pub use influx::InfluxServer;
pub use ports::Port;
pub use postgres::PostgresServer;
pub use process::Process;
pub use proxy::{Direction, Proxy};
pub use rabbitmq::{RabbitServer, SHARED_BROKER};
pub use rabbitmq_options::RabbitOptions;
pub use redis::RedisServer;
pub use redis_cluster::{RedisCluster, SHARED_CLUSTER, shared_cluster};
pub use redis_options::{Fsync, RedisOptions};
pub use resp::{Reply, RespConnection};
pub use tls::Tls;
