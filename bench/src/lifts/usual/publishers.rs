//! The pool of channels that posts are published on.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

use super::Queue;

/// Connections to publish on. A broker slows down connections that publish too much, so consumers have
/// others.
const CONNECTIONS: usize = 2;
/// Channels in the pool. Every channel is a process of the broker's: some of them keep both of its
/// schedulers busy, and each still gathers several confirms into one.
const CHANNELS: usize = 16;

const PERSISTENT: u8 = 2;

/// Channels in turn.
#[derive(Debug)]
pub(super) struct Publishers {
    channels: Vec<Channel>,
    next: AtomicUsize,
    /// Kept: a connection whose last handle is gone is closed.
    _connections: Vec<Connection>,
}

impl Publishers {
    pub(super) async fn open(amqp: &str) -> Result<Self> {
        let mut connections = Vec::new();
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::connect(amqp, ConnectionProperties::default()).await?);
        }
        for n in 0..CHANNELS {
            let channel = connections[n % CONNECTIONS].create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            channels.push(channel);
        }
        Ok(Publishers { channels, next: AtomicUsize::new(0), _connections: connections })
    }

    /// Returns when the broker has confirmed it.
    pub(super) async fn publish(&self, queue: Queue, message: &[u8]) -> Result<()> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let channel = &self.channels[turn % self.channels.len()];
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let name = queue.name().into();
        let published =
            channel.basic_publish("".into(), name, options, message, properties).await?;
        let confirmed = matches!(published.await?, Confirmation::Ack(_));
        ensure!(confirmed, "the broker took no responsibility for a message");
        Ok(())
    }
}
