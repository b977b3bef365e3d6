//! The config of the streams part: `[stream.NAME]` and `[view.NAME]`.

mod expressions;
mod fields;
mod stream;
mod stream_spec;
mod summary;
mod udp;
mod uses;
mod view;
mod view_spec;
mod windows;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use consort_server::udp::IpNet;
use consort_views::Definitions;

use super::Config;
use super::part::{PartConfig, insert_defaults};
use super::redact::SecretUrl;

pub(crate) static PART: PartConfig = PartConfig {
    declarations: &[stream_spec::STREAM, view_spec::VIEW],
    reserved: &["streams", "views", "write", "query", "ping", "api"],
    insert: insert_defaults::<StreamsConfig>,
    summary: summary::summary,
    ..PartConfig::new("streams")
};

/// The streams and views of a config.
#[derive(Debug, Clone, Default)]
pub struct StreamsConfig {
    /// What all nodes must agree on.
    pub definitions: Definitions,
    /// Of each stream, by its name, the settings that are this node's own matter.
    pub streams: BTreeMap<String, StreamSettings>,
}

/// The settings of a stream that its definition does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamSettings {
    pub gate: Gate,
    /// The queue that the stream reads, beside posts.
    pub amqp: Option<AmqpSource>,
    /// Where it takes datagrams.
    pub udp: Option<UdpSource>,
}

/// A socket to receive datagrams of lines on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpSource {
    pub listen: SocketAddr,
    /// The networks that may send; if it is empty, every machine that reaches the socket.
    pub allow: Vec<IpNet>,
    /// The kernel's buffer for it, in bytes.
    pub buffer: u64,
}

/// How a stream meets overload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gate {
    /// As many at a time as appends stay quick with.
    #[default]
    Adaptive,
    /// Delays posts above a fixed rate.
    Breaker,
    /// Takes everything.
    Off,
}

/// A RabbitMQ queue to read events from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmqpSource {
    pub url: SecretUrl,
    pub queue: String,
}

impl Config {
    /// The streams and views.
    pub fn definitions(&self) -> &Definitions {
        &self.part::<StreamsConfig>().definitions
    }

    /// Of each stream, by its name, the settings that are this node's own matter.
    pub fn streams(&self) -> &BTreeMap<String, StreamSettings> {
        &self.part::<StreamsConfig>().streams
    }
}
