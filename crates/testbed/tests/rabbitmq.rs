//! A private RabbitMQ broker: its data, its pauses, its listeners.

use std::time::Duration;

use consort_testbed::{RabbitOptions, RabbitServer, Tls};
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

const QUEUE: &str = "kept";

async fn channel(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    connection.create_channel().await.unwrap()
}

async fn declare(channel: &Channel, passive: bool) -> lapin::Result<lapin::Queue> {
    let options = QueueDeclareOptions { durable: true, passive, ..QueueDeclareOptions::default() };
    channel.queue_declare(QUEUE.into(), options, FieldTable::default()).await
}

async fn publish(channel: &Channel, payload: &[u8]) {
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let confirm = channel
        .basic_publish("".into(), QUEUE.into(), BasicPublishOptions::default(), payload, persistent)
        .await;
    assert!(confirm.unwrap().await.unwrap().is_ack());
}

#[tokio::test]
async fn messages_survive_a_restart_and_not_an_empty_one() {
    let mut server = RabbitServer::start(RabbitOptions::new()).await;
    let (url, pid) = (server.url(), server.pid());
    {
        let channel = channel(&url).await;
        declare(&channel, false).await.unwrap();
        publish(&channel, b"payload").await;
    }

    // A broker that is killed may forget a queue that was declared a moment ago: it writes its tables
    // down from time to time.
    server.stop().await;
    server.restart().await;
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    let message = channel(&url)
        .await
        .basic_get(QUEUE.into(), BasicGetOptions { no_ack: true })
        .await
        .unwrap();
    assert_eq!(message.unwrap().delivery.data, b"payload");

    server.restart_empty().await;
    assert_eq!(server.url(), url);
    assert!(
        declare(&channel(&url).await, true).await.is_err(),
        "the queue is unknown to an empty broker"
    );
}

#[tokio::test]
async fn a_paused_broker_answers_once_it_is_resumed_and_a_stopped_one_starts_again() {
    let tls = Tls::new();
    let mut server = RabbitServer::start(RabbitOptions::new().tls(&tls)).await;
    a_client_that_trusts_the_authority_can_use_tls(&server, &tls).await;
    let channel = channel(&server.url()).await;
    server.pause();
    let declared = declare(&channel, false);
    tokio::pin!(declared);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut declared).await;
    assert!(early.is_err(), "a paused broker answered {early:?}");
    server.resume();
    declared.await.unwrap();

    server.stop().await;
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.is_err());
    server.restart().await;
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.is_ok());
}

async fn a_client_that_trusts_the_authority_can_use_tls(server: &RabbitServer, tls: &Tls) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let trust = |tls: &Tls| lapin::tcp::OwnedTLSConfig {
        identity: None,
        cert_chain: Some(std::fs::read_to_string(tls.ca()).unwrap()),
    };
    let url = server.tls_url();
    let connect = async |config| {
        let runtime = lapin::runtime::default_runtime().unwrap();
        Connection::connect_with_config(&url, ConnectionProperties::default(), config, runtime)
            .await
    };
    assert!(connect(trust(tls)).await.unwrap().status().connected());
    assert!(
        connect(trust(&Tls::new())).await.is_err(),
        "a client that trusts another authority does not connect"
    );
}

#[tokio::test]
#[should_panic(expected = "is not killed: use RabbitServer::start for a private one")]
async fn a_shared_broker_is_not_ours_to_kill() {
    RabbitServer::at("amqp://guest:guest@127.0.0.1:1/%2f").kill().await;
}
