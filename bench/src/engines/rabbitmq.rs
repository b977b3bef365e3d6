//! The RabbitMQ log beside bare confirmed publishing to stream queues, on the same broker.

use std::future::Future;

use anyhow::{Result, ensure};
use consort_engines::rabbitmq::RabbitLog;
use consort_kernel::Log;
use consort_testbed::{RabbitOptions, RabbitServer};
use futures::future::try_join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

use super::{Contents, frame, partition};
use crate::measure::{Pace, compare, rate};
use crate::report::Report;

/// Queues with one frame in flight each.
const PARTITIONS: u32 = 32;
/// With its header a frame of 16 KiB.
const RECORD: usize = 16 * 1024 - 44;

pub(super) async fn run(pace: Pace, report: &mut Report) -> Result<()> {
    let server = RabbitServer::start(RabbitOptions::new()).await;
    let url = server.url();
    let log = RabbitLog::open(&url, "bench", None).await?;
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let mut channels = Vec::new();
    for n in 0..PARTITIONS {
        channels.push(channel(&connection).await?);
        declare(&channels[n as usize], n).await?;
    }
    let shared = vec![channel(&connection).await?; PARTITIONS as usize];
    let frame = frame(1, RECORD, Contents::Random);
    let bytes = frame.encode()?;
    let bare = |channels: &[Channel]| {
        let (channels, bytes) = (channels.to_vec(), bytes.clone());
        everywhere(move |n| {
            let (channel, bytes, queue) = (channels[n as usize].clone(), bytes.clone(), queue(n));
            async move { rate(pace, || publish(&channel, &queue, &bytes)).await }
        })
    };
    let consort = || {
        everywhere(|n| {
            let (log, frame) = (log.clone(), frame.clone());
            async move {
                rate(pace, || async {
                    log.append(&partition(n), &frame).await?;
                    Ok(1)
                })
                .await
            }
        })
    };
    let name = format!("append, frames of 16 KiB, {PARTITIONS} partitions at once");
    let compared = compare(pace, &name, || bare(&channels), consort).await?;
    let name = format!("rabbitmq: {name}, confirmed");
    report.add(&name, "frames", "bare publishing, a channel each", compared, Some(0.8));
    // What most clients do. RabbitMQ 3.10 loses confirmed messages that way when it is restarted (see
    // crates/engines/src/rabbitmq/publishers.rs), so it is no way that Consort could take.
    let compared = compare(pace, "the same on one channel", || bare(&shared), consort).await?;
    let name = "rabbitmq: the same beside the one channel that loses messages";
    report.add(name, "frames", "bare publishing, one channel", compared, Some(0.8));
    Ok(())
}

async fn channel(connection: &Connection) -> Result<Channel> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

/// The sum of what every partition's producer reaches.
async fn everywhere<F, Fut>(producer: F) -> Result<f64>
where
    F: Fn(u32) -> Fut,
    Fut: Future<Output = Result<f64>>,
{
    Ok(try_join_all((0..PARTITIONS).map(producer)).await?.into_iter().sum())
}

fn queue(n: u32) -> String {
    format!("bare.{n}")
}

async fn declare(channel: &Channel, n: u32) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("stream".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue(n).into(), options, arguments).await?;
    Ok(())
}

async fn publish(channel: &Channel, queue: &str, bytes: &[u8]) -> Result<u64> {
    let options = BasicPublishOptions::default();
    let properties = BasicProperties::default().with_delivery_mode(2);
    let published =
        channel.basic_publish("".into(), queue.into(), options, bytes, properties).await?;
    ensure!(matches!(published.await?, Confirmation::Ack(_)), "the broker took no responsibility");
    Ok(1)
}
