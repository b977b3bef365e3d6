//! Rows posted to a small server of the test's own, which shows what it heard.

use std::sync::Arc;

use consort_feeds::{FeedsPart, Secret, SendMode, SinkConfig, SinkKind, WebhookConfig};
use consort_testbed::eventually;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::bed::{Bed, Deliverer, PATIENCE, feed, name, row};

/// Answers 204, or what it is told to.
struct Ear {
    url: String,
    heard: Arc<Mutex<Vec<(String, String)>>>,
    answer: Arc<Mutex<&'static str>>,
}

impl Ear {
    async fn open() -> Ear {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?key=s3cret", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let answer = Arc::new(Mutex::new("204 No Content"));
        let (hears, answers) = (Arc::clone(&heard), Arc::clone(&answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = *answers.lock();
                let heard = hear(stream, answer).await;
                hears.lock().push(heard);
            }
        });
        Ear { url, heard, answer }
    }
}

async fn hear(mut stream: TcpStream, answer: &str) -> (String, String) {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "the request breaks off");
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            break (head.to_owned(), length.unwrap().parse::<usize>().unwrap());
        }
    };
    let mut body = bytes.split_off(head.len() + 4);
    let read = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[read..]).await.unwrap();
    let location = "location: http://127.0.0.1:1/elsewhere";
    let said = format!("HTTP/1.1 {answer}\r\n{location}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(said.as_bytes()).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn deliverer(bed: &Bed, url: &str, allow_private: bool) -> Deliverer {
    let secret = Some(Secret::new("0123456789abcdef"));
    let webhook = WebhookConfig { url: url.parse().unwrap(), secret, allow_private };
    let sink =
        SinkConfig { name: name("s"), kind: SinkKind::Webhook(webhook), send: SendMode::Pieces };
    Deliverer::start(FeedsPart::new(vec![feed(&["s"])], &[sink], bed.options()).unwrap(), "s")
}

#[tokio::test]
async fn rows_are_posted_as_signed_cloud_events() {
    let (bed, ear) = (Bed::new(), Ear::open().await);
    *ear.answer.lock() = "302 Found";
    bed.emit([row("a", "1", 1), row("b", "[2]", 7)]).await;
    let deliverer = deliverer(&bed, &ear.url, true);
    let told = || async { deliverer.trouble().filter(|told| told.contains("not followed")) };
    let told = eventually("the redirect is told", PATIENCE, told).await;
    assert!(!told.contains("s3cret"), "{told}");
    *ear.answer.lock() = "200 OK";
    let settled = || async { deliverer.control.gauge().applied == 2 };
    eventually("the rows are taken", PATIENCE, settled).await;
    deliverer.end().await;

    let heard = ear.heard.lock();
    let (head, body) = heard.last().unwrap();
    assert!(head.starts_with("POST /hook?key=s3cret HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/cloudevents-batch+json"), "{head}");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"0123456789abcdef");
    let tag = ring::hmac::sign(&key, body.as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(head.contains(&format!("consort-signature: sha256={hex}")), "{head}");
    let events: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(events[1]["specversion"], "1.0");
    assert_eq!(events[1]["source"], "/consort/views/v");
    assert_eq!(events[1]["data"]["value"][0], 2);
    assert_eq!(events[1]["data"]["revision"], 7);
    assert_ne!(events[0]["id"], events[1]["id"]);
    let (_, before) = &heard[heard.len() - 2];
    assert_eq!(before, body, "a repeat has the same ids");
}

#[tokio::test]
async fn a_webhook_does_not_lead_into_the_private_network() {
    let (bed, ear) = (Bed::new(), Ear::open().await);
    bed.emit([row("a", "1", 1)]).await;
    for url in [ear.url.clone(), ear.url.replace("127.0.0.1", "localhost")] {
        let deliverer = deliverer(&bed, &url, false);
        let told = || async { deliverer.trouble().filter(|told| told.contains("allow_private")) };
        eventually("it is told", PATIENCE, told).await;
        deliverer.end().await;
    }
    assert!(ear.heard.lock().is_empty());
}
