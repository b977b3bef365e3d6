//! Publishing to exchanges of others, on a real RabbitMQ.

use std::time::Duration;

use consort_engines::open_publisher;
use consort_kernel::Outgoing;
use consort_testbed::{RabbitOptions, RabbitServer, eventually};
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};

const PATIENCE: Duration = Duration::from_secs(60);

fn message(id: u32) -> Outgoing {
    let body = format!("{{\"n\":{id}}}").into();
    Outgoing { body, content_type: "application/json", id: format!("id-{id}") }
}

async fn channel(url: &str) -> (Connection, Channel) {
    let connection =
        Connection::connect(url, ConnectionProperties::default()).await.expect("the broker");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

async fn declare(channel: &Channel, queue: &str) {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declaring = channel.queue_declare(queue.into(), options, FieldTable::default());
    declaring.await.expect("the queue is declared");
}

/// All messages of the queue, which is emptied: id and body.
async fn drain(channel: &Channel, queue: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let options = BasicGetOptions { no_ack: true };
    while let Some(got) = channel.basic_get(queue.into(), options).await.expect("a queue") {
        let properties = &got.delivery.properties;
        assert_eq!(*properties.delivery_mode(), Some(2), "it is persistent");
        let id = properties.message_id().as_ref().expect("an id").to_string();
        all.push((id, String::from_utf8(got.delivery.data.clone()).expect("text")));
    }
    all
}

#[tokio::test]
async fn messages_come_to_the_queue_in_order_and_a_missing_queue_is_told() {
    let server = RabbitServer::shared().await;
    let (_connection, owner) = channel(&server.url()).await;
    let queue = format!("outgo-{:016x}", rand::random::<u64>());
    let publisher = open_publisher(&server.url(), "", &queue, None).await.expect("a publisher");
    let missing = publisher.publish(&[message(1)]).await.expect_err("no queue takes it");
    assert!(missing.to_string().contains("no queue takes it"), "{missing}");
    assert!(!missing.to_string().contains("guest:guest"), "{missing}");
    declare(&owner, &queue).await;
    publisher.publish(&[message(1), message(2)]).await.expect("they are confirmed");
    publisher.publish(&[message(3)]).await.expect("it is confirmed");
    let expected = [1, 2, 3].map(|n| (format!("id-{n}"), format!("{{\"n\":{n}}}")));
    assert_eq!(drain(&owner, &queue).await, expected);
}

#[tokio::test]
async fn an_exchange_that_is_not_there_is_told_and_taken_once_it_is() {
    let server = RabbitServer::shared().await;
    let (_connection, owner) = channel(&server.url()).await;
    let name = format!("outgo-{:016x}", rand::random::<u64>());
    let publisher = open_publisher(&server.url(), &name, "key", None).await.expect("a publisher");
    let missing = publisher.publish(&[message(1)]).await.expect_err("no exchange takes it");
    assert!(missing.to_string().contains("no exchange"), "{missing}");
    let declaring = owner.exchange_declare(
        name.as_str().into(),
        ExchangeKind::Direct,
        ExchangeDeclareOptions::default(),
        FieldTable::default(),
    );
    declaring.await.expect("the exchange is declared");
    declare(&owner, &name).await;
    let binding = owner.queue_bind(
        name.as_str().into(),
        name.as_str().into(),
        "key".into(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    binding.await.expect("the queue is bound");
    publisher.publish(&[message(1)]).await.expect("it is confirmed");
    assert_eq!(drain(&owner, &name).await.len(), 1);
}

#[tokio::test]
async fn a_broker_that_was_killed_is_published_to_again() {
    let mut server = RabbitServer::start(RabbitOptions::new()).await;
    let (connection, owner) = channel(&server.url()).await;
    declare(&owner, "rows").await;
    drop((connection, owner));
    // A broker that is killed right after a queue was declared forgets it: it writes its tables down from
    // time to time, and when it is stopped.
    server.stop().await;
    server.restart().await;
    let publisher = open_publisher(&server.url(), "", "rows", None).await.expect("a publisher");
    publisher.publish(&[message(1)]).await.expect("it is confirmed");
    server.kill().await;
    assert!(publisher.publish(&[message(2)]).await.expect_err("it is dead").retryable());
    server.restart().await;
    let publish = || async { publisher.publish(&[message(2)]).await.is_ok() };
    eventually("it is published", PATIENCE, publish).await;
    let (_connection, owner) = channel(&server.url()).await;
    let mut ids: Vec<String> = drain(&owner, "rows").await.into_iter().map(|(id, _)| id).collect();
    ids.dedup();
    assert_eq!(ids, ["id-1", "id-2"]);
}

#[tokio::test]
async fn what_is_no_broker_is_refused_at_once() {
    let refused = open_publisher("http://u:s3cret@h", "", "q", None).await.expect_err("no broker");
    assert!(!refused.to_string().contains("s3cret"), "{refused}");
    let long = "x".repeat(256);
    let refused = open_publisher("amqp://h", "", &long, None).await.expect_err("too long");
    assert!(refused.to_string().contains("a routing key has at most 255"), "{refused}");
}
