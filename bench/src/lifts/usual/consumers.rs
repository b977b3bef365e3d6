//! The consumers: they apply one message after the other, and acknowledge each.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use futures::StreamExt as _;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::updates::update;
use super::{Counts, QUEUES, Queue};
use crate::lifts::ride::Ride;

/// Consumers of each queue, each with a channel of its own and one message at a time.
const CONSUMERS: usize = 16;
/// Messages that a consumer has at hand: enough that it never waits for the broker.
const PREFETCH: u16 = 128;
/// Connections to Redis. Consumers share them: the commands of several are written at once.
const REDIS_CONNECTIONS: usize = 2;

/// Starts the consumers of both queues. One that ends has failed.
pub(super) async fn start(
    redis: &str,
    amqp: &str,
    counts: &Arc<Counts>,
) -> Result<JoinSet<Result<()>>> {
    let client = redis::Client::open(redis)?;
    let mut stores = Vec::new();
    for _ in 0..REDIS_CONNECTIONS {
        // A Redis that is busy is waited for: this design has nowhere else to go.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        stores.push(client.get_multiplexed_async_connection_with_config(&config).await?);
    }
    let mut consumers = JoinSet::new();
    for queue in QUEUES {
        let connection =
            Arc::new(Connection::connect(amqp, ConnectionProperties::default()).await?);
        for n in 0..CONSUMERS {
            let channel = connection.create_channel().await?;
            channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
            let (store, counts) = (stores[n % REDIS_CONNECTIONS].clone(), counts.clone());
            let connection = connection.clone();
            consumers.spawn(async move {
                // Kept: a connection whose last handle is gone is closed.
                let _connection = connection;
                consume(queue, channel, store, &counts).await
            });
        }
    }
    Ok(consumers)
}

async fn consume(
    queue: Queue,
    channel: Channel,
    mut store: MultiplexedConnection,
    counts: &Counts,
) -> Result<()> {
    let options = BasicConsumeOptions::default();
    let arguments = FieldTable::default();
    let mut messages =
        channel.basic_consume(queue.name().into(), "".into(), options, arguments).await?;
    while let Some(message) = messages.next().await {
        let message = message?;
        let ride: Ride = serde_json::from_slice(&message.data)?;
        for command in update(queue, &ride) {
            let _: i64 = command.query_async(&mut store).await?;
        }
        channel.basic_ack(message.delivery_tag, BasicAckOptions::default()).await?;
        counts.applied[queue as usize].fetch_add(1, Ordering::Relaxed);
    }
    bail!("the broker ended the consuming of {}", queue.name())
}
