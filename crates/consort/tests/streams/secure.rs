//! Sinks over TLS: rows go to those whose certificate the system trusts, and to no others.

use std::sync::Arc;

use consort_testbed::{RabbitOptions, RabbitServer, Tls, eventually};
use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::bed::{Apart, PATIENCE};

const QUEUE: &str = "rows";

/// A stream, and a view whose windows close a second after their first event.
const VIEW: &str = r#"
[stream.events]
partitions = 1
time = "at"
fields = { at = "int" }

[view.seen]
from = "events"
window = "1s"
grace = "1s"
count = true
sink = ["hook", "broker"]
"#;

/// An event of long ago.
const EVENT: &str = r#"{"at": 1480876707352348928}"#;

/// Notes the bodies of what is posted to it over TLS.
struct Ear {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Ear {
    async fn open(tls: &Tls) -> Ear {
        let (acceptor, heard) = (tls.acceptor(), Arc::new(Mutex::new(Vec::new())));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let notes = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust us ends the handshake.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let (mut text, mut piece) = (String::new(), [0; 4096]);
                while !text.contains("\"revision\"") {
                    match stream.read(&mut piece).await {
                        Ok(read) if read > 0 => {
                            text.push_str(&String::from_utf8_lossy(&piece[..read]));
                        }
                        _ => break,
                    }
                }
                notes.lock().push(text);
                let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        });
        Ear { port, heard }
    }
}

/// The broker with an empty queue, and a channel to look into that.
async fn broker(tls: &Tls) -> (RabbitServer, Channel) {
    let broker = RabbitServer::start(RabbitOptions::new().tls(tls)).await;
    let connection = Connection::connect(&broker.url(), ConnectionProperties::default()).await;
    let channel = connection.expect("the broker").create_channel().await.expect("a channel");
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(QUEUE.into(), options, FieldTable::default()).await;
    declared.expect("the queue is declared");
    (broker, channel)
}

async fn published(channel: &Channel) -> Option<String> {
    let got = channel.basic_get(QUEUE.into(), BasicGetOptions { no_ack: true }).await;
    let got = got.expect("the queue")?;
    Some(String::from_utf8_lossy(&got.delivery.data).into_owned())
}

#[tokio::test]
async fn rows_go_over_tls_to_whom_the_system_trusts() {
    let tls = Tls::new();
    let (ear, (broker, channel)) = (Ear::open(&tls).await, broker(&tls).await);
    let sinks = format!(
        "[sink.hook]\nkind = 'webhook'\nurl = 'https://localhost:{}/rows'\nallow_private = true\n\
         secret = 'sixteen characters'\n\
         [sink.broker]\nkind = 'amqp'\nurl = '{}'\nrouting_key = '{QUEUE}'\n{VIEW}",
        ear.port,
        broker.tls_url(),
    );

    let wary = Apart::start(&sinks).await;
    wary.caller().accept("/streams/events", EVENT).await;
    let distrusts = || async {
        let told = wary.caller().json("/cluster").await.to_string();
        let told: Vec<bool> = ["deliver:hook/", "deliver:broker/"]
            .iter()
            .map(|role| told.split("{").any(|one| one.contains(role) && one.contains("ertificate")))
            .collect();
        told == [true, true]
    };
    eventually("both sinks are told to be distrusted", PATIENCE, distrusts).await;
    assert!(ear.heard.lock().is_empty(), "nothing was sent to it");
    assert_eq!(published(&channel).await, None);

    let trusting = Apart::begin_with(&sinks, &[("SSL_CERT_FILE", &tls.ca())]);
    trusting.listens().await;
    trusting.caller().accept("/streams/events", EVENT).await;
    let heard = || async { ear.heard.lock().first().cloned() };
    let heard = eventually("the row is posted", PATIENCE, heard).await;
    assert!(heard.contains("consort-signature: sha256="), "{heard}");
    assert!(heard.contains("\"value\":1"), "{heard}");
    let row = eventually("the row is published", PATIENCE, || published(&channel)).await;
    assert!(row.contains("\"value\":1"), "{row}");
}
