//! The RabbitMQ engine under the contract suite.
//!
//! The broker loses nothing by itself, so the harness takes a queue's messages out, deletes it, and puts
//! back what is to be left: the offsets begin at 0 again. The engine is opened anew for it, as a broker
//! that lost something has been restarted.

use std::sync::Arc;

use async_trait::async_trait;
use consort_engines::rabbitmq::RabbitLog;
use consort_kernel::contract::LogHarness;
use consort_kernel::{Log, Partition};
use consort_testbed::RabbitServer;
use futures::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use parking_lot::Mutex;

struct Rabbit {
    server: RabbitServer,
    namespace: String,
    log: Mutex<RabbitLog>,
}

async fn open() -> Rabbit {
    let server = RabbitServer::shared().await;
    let namespace = format!("contract-{:016x}", rand::random::<u64>());
    let log = Mutex::new(open_at(&server, &namespace).await);
    Rabbit { server, namespace, log }
}

async fn open_at(server: &RabbitServer, namespace: &str) -> RabbitLog {
    RabbitLog::open(&server.url(), namespace, None).await.expect("the broker")
}

impl Rabbit {
    fn queue(&self, at: &Partition) -> String {
        format!("consort.{}.{}.{}", self.namespace, at.stream, at.index)
    }

    /// Replaces what is in a queue by what `keep` makes of it.
    async fn rewrite(&self, at: &Partition, keep: impl Fn(u64, Vec<u8>) -> Option<Vec<u8>>) {
        let queue = self.queue(at);
        let (url, properties) = (self.server.url(), ConnectionProperties::default());
        let connection = Connection::connect(&url, properties).await.expect("a connection");
        let channel = connection.create_channel().await.expect("a channel");
        let confirms = channel.confirm_select(ConfirmSelectOptions::default());
        confirms.await.expect("confirms");
        let bodies = take_out(&channel, &queue).await;
        let deleted = channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default());
        deleted.await.expect("the queue is deleted");
        declare(&channel, &queue).await;
        for (number, body) in bodies.into_iter().enumerate() {
            if let Some(body) = keep(number as u64, body) {
                publish(&channel, &queue, &body).await;
            }
        }
        let opened = open_at(&self.server, &self.namespace).await;
        *self.log.lock() = opened;
    }
}

async fn declare(channel: &Channel, queue: &str) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("stream".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), options, arguments).await.expect("the queue");
}

async fn publish(channel: &Channel, queue: &str, body: &[u8]) {
    let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
    let sent = channel.basic_publish("".into(), queue.into(), options, body, properties).await;
    assert!(sent.expect("sent").await.expect("an answer").is_ack());
}

/// Everything in the queue, in order, up to a marker that is put there to end it.
async fn take_out(channel: &Channel, queue: &str) -> Vec<Vec<u8>> {
    const MARKER: &[u8] = b"the harness's end";
    publish(channel, queue, MARKER).await;
    channel.basic_qos(10, BasicQosOptions::default()).await.expect("a prefetch");
    let mut arguments = FieldTable::default();
    arguments.insert("x-stream-offset".into(), AMQPValue::LongString("first".into()));
    let options = BasicConsumeOptions::default();
    let consumer = channel.basic_consume(queue.into(), "".into(), options, arguments).await;
    let mut consumer = consumer.expect("a consumer");
    let mut bodies = Vec::new();
    while let Some(delivery) = consumer.next().await {
        let delivery: Delivery = delivery.expect("a delivery");
        delivery.ack(BasicAckOptions::default()).await.expect("an ack");
        if delivery.data == MARKER {
            return bodies;
        }
        bodies.push(delivery.data);
    }
    panic!("the consumer ended before the marker")
}

#[async_trait]
impl LogHarness for Rabbit {
    fn log(&self) -> Arc<dyn Log> {
        Arc::new(self.log.lock().clone())
    }

    async fn lose_tail(&self, at: &Partition, from: u64) {
        self.rewrite(at, |number, body| (number < from).then_some(body)).await;
    }

    async fn corrupt(&self, at: &Partition, offset: u64) {
        self.rewrite(at, |number, mut body| {
            if number == offset {
                *body.last_mut().expect("a byte") ^= 1;
            }
            Some(body)
        })
        .await;
    }
}

mod rabbitmq {
    use super::*;
    consort_kernel::log_suite!(open().await);
}
