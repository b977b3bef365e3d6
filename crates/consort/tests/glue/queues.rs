//! A collection that is filled by queues of RabbitMQ.

use consort_client::Method;
use consort_testbed::{RabbitServer, eventually};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::bed::{Editor, GlueNode, PATIENCE, json};
use crate::example::Bed;

/// One broker for all tests here: starting one is slow. It ends with this process.
static BROKER: OnceCell<RabbitServer> = OnceCell::const_new();

/// A queue, and the application that fills it.
struct Queue {
    url: String,
    name: String,
    _connection: Connection,
    channel: Channel,
}

impl Queue {
    async fn new() -> Queue {
        let url = BROKER.get_or_init(RabbitServer::shared).await.url();
        let name = format!("glue-{:016x}", rand::random::<u64>());
        let connection =
            Connection::connect(&url, ConnectionProperties::default()).await.expect("the broker");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declaring = channel.queue_declare(name.as_str().into(), options, FieldTable::default());
        declaring.await.expect("the queue is declared");
        Queue { url, name, _connection: connection, channel }
    }

    /// The entry of the queue in `amqp` of a collection.
    fn entry(&self, tenant: &str) -> String {
        let Queue { url, name, .. } = self;
        format!("{{ url = '{url}', queue = '{name}', tenant = '{tenant}' }}")
    }

    /// Publishes messages with their ids, confirmed.
    async fn publish(&self, messages: impl IntoIterator<Item = (Option<String>, String)>) {
        let mut confirms = Vec::new();
        for (id, body) in messages {
            let mut properties = BasicProperties::default().with_delivery_mode(2);
            if let Some(id) = id {
                properties = properties.with_message_id(id.into());
            }
            let (queue, options) = (self.name.as_str().into(), BasicPublishOptions::default());
            let body = body.as_bytes();
            let sending = self.channel.basic_publish("".into(), queue, options, body, properties);
            confirms.push(sending.await.expect("it is sent"));
        }
        for confirm in confirms {
            assert!(confirm.await.expect("a confirm").is_ack());
        }
    }

    /// Messages that are ready, and consumers.
    async fn look(&self) -> (u32, u32) {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let name = self.name.as_str().into();
        let queue = self.channel.queue_declare(name, options, FieldTable::default()).await;
        let queue = queue.expect("the queue");
        (queue.message_count(), queue.consumer_count())
    }
}

fn collection(entries: &[String], more: &str) -> String {
    let entries = entries.join(", ");
    format!("[glue.content]\nformat = 'json'\npartitions = 2\n{more}\namqp = [{entries}]\n")
}

/// A piece that puts a number at the end of the list of document `id`.
fn push(id: &str, number: u64) -> String {
    let piece = json!([{"op": "add", "path": "/n/-", "value": number}]);
    json!({"id": id, "form": "json-patch", "piece": piece}).to_string()
}

/// Waits for counters of the collection; promise 7 holds whenever they are read.
async fn counted(mut editor: Editor, applied: u64, repeats: u64) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let counters = editor.counters("content").await;
        if (&counters["applied"], &counters["repeats"]) == (&json!(applied), &json!(repeats)) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{counters}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn messages_are_pieces_and_their_ids_are_keys_and_malformed_ones_are_listed() {
    let queue = Queue::new().await;
    let id = |id: &str| Some(id.to_owned());
    queue
        .publish([
            (None, json!({"id": "d", "form": "whole", "piece": {"n": []}}).to_string()),
            (id("m1"), push("d", 1)),
            (id("m1"), push("d", 1)),
            // The line's own key is before the id of its message.
            (
                id("m1"),
                json!({"id": "d", "form": "merge-patch", "piece": {"a": 1}, "key": "own"})
                    .to_string(),
            ),
            (None, "no JSON \u{1}".to_owned()),
            (id("m2"), json!({"id": "d", "form": "xml-patch", "piece": "<d/>"}).to_string()),
            (None, json!({"id": "d", "form": "delete", "tenant": "other"}).to_string()),
        ])
        .await;
    let node = GlueNode::start_with(&collection(&[queue.entry("a")], "")).await;
    counted(node.editor(), 3, 1).await;
    let tenant = [("consort-tenant", "a")];
    let mut editor = node.editor();
    // A redelivery, much later.
    queue.publish([(id("m1"), push("d", 1)), (id("m3"), push("d", 3))]).await;
    counted(node.editor(), 4, 2).await;
    let read = editor.get_with("/glue/content/d", &tenant).await;
    assert_eq!(json(&read), json!({"a": 1, "n": [1, 3]}));

    let listed = eventually("the malformed messages are listed", PATIENCE, || async {
        let mut editor = node.editor();
        let listed = json(&editor.get_with("/glue/content/rejects", &tenant).await);
        (listed["refused"].as_array().map_or(0, Vec::len) == 3).then_some(listed)
    })
    .await;
    let refused = listed["refused"].as_array().expect("a list");
    let said = |one: &Value, name: &str| one[name].as_str().expect("a text").to_owned();
    let reasons: Vec<String> = refused.iter().map(|one| said(one, "reason")).collect();
    for (reason, words) in reasons.iter().zip(["'id', 'form'", "xml-patch", "another tenant"]) {
        assert!(reason.contains(words), "{reason}");
    }
    assert_eq!(said(&refused[0], "message"), "no JSON \u{1}");
    assert_eq!((&listed["rejects"], said(&refused[0], "tenant")), (&json!([]), "a".to_owned()));
    // Another tenant sees nothing of it.
    let other = json(&editor.get_with("/glue/content/rejects", &[("consort-tenant", "b")]).await);
    assert_eq!(other.get("refused"), None);
    eventually("the queue is empty", PATIENCE, || async { queue.look().await.0 == 0 }).await;
}

#[tokio::test]
async fn a_consumer_killed_in_the_middle_of_messages_applies_each_once_and_in_order() {
    const DOCUMENTS: u64 = 10;
    const PIECES: u64 = 1_000;
    let queue = Queue::new().await;
    let document = |d: u64| json!({"id": format!("d{d}"), "form": "whole", "piece": {"n": []}});
    queue.publish((0..DOCUMENTS).map(|d| (Some(format!("w{d}")), document(d).to_string()))).await;
    let piece = |n: u64| (Some(format!("m{n}")), push(&format!("d{}", n % DOCUMENTS), n));
    queue.publish((0..PIECES / 2).map(piece)).await;
    let quota = "tenant_pieces = 100";
    let engine = "[engine]\nurl = 'embedded:./data'\n";
    let config = format!("{engine}{}", collection(&[queue.entry("default")], quota));
    let mut node = Bed::start_with(&config).await;
    eventually("some pieces are applied", PATIENCE, || async {
        node.editor().counters("content").await["applied"].as_u64() > Some(0)
    })
    .await;
    let ((), ()) = tokio::join!(queue.publish((PIECES / 2..PIECES).map(piece)), async {
        for _ in 0..2 {
            node.crash().await;
        }
    });
    eventually("all pieces are applied", PATIENCE, || async {
        node.editor().counters("content").await["applied"] == json!(DOCUMENTS + PIECES)
    })
    .await;
    let mut editor = node.editor();
    for d in 0..DOCUMENTS {
        let expected: Vec<u64> = (d..PIECES).step_by(DOCUMENTS as usize).collect();
        let document = editor.json(&format!("/glue/content/d{d}")).await;
        assert_eq!(document["n"], json!(expected), "d{d}: in the order of the queue");
    }
    assert_eq!(editor.counters("content").await["rejected"], 0);
    eventually("the queue is empty", PATIENCE, || async { queue.look().await.0 == 0 }).await;
}

#[tokio::test]
async fn a_second_consumer_of_a_queue_waits_until_the_first_is_gone() {
    let queue = Queue::new().await;
    let declarations = collection(&[queue.entry("default")], "");
    let first = GlueNode::start_with(&declarations).await;
    eventually("it is consumed", PATIENCE, || async { queue.look().await.1 == 1 }).await;
    let second = GlueNode::start_with(&declarations).await;
    let whole =
        |n: u64| (None, json!({"id": format!("d{n}"), "form": "whole", "piece": {}}).to_string());
    queue.publish((0..50).map(whole)).await;
    counted(first.editor(), 50, 0).await;
    assert_eq!(second.editor().counters("content").await["received"], 0);
    first.stop().await;
    queue.publish((50..60).map(whole)).await;
    counted(second.editor(), 10, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_from_the_queue_of_one_tenant_leaves_another_tenants_queue_and_requests_alone() {
    const FLOOD: u64 = 20_000;
    let (flooding, quiet) = (Queue::new().await, Queue::new().await);
    let piece =
        |n: u64| json!({"id": format!("d{}", n % 50), "form": "merge-patch", "piece": {"n": n}});
    flooding.publish((0..FLOOD).map(|n| (None, piece(n).to_string()))).await;
    let entries = [flooding.entry("a"), quiet.entry("b")];
    let node = GlueNode::start_with(&collection(&entries, "tenant_pieces = 100")).await;
    let received = async |tenant: &str| {
        let overview = node.editor().json("/glue").await;
        overview["collections"][0]["tenants"][tenant]["received"].as_u64().unwrap_or_default()
    };
    eventually("the flood is under way", PATIENCE, || async { received("a").await > 0 }).await;
    quiet.publish((0..100).map(|n| (Some(format!("q{n}")), piece(n).to_string()))).await;
    let mut editor = node.editor();
    let headers = [("consort-tenant", "c"), ("content-type", "application/json")];
    let put = editor.send(Method::PUT, "/glue/content/c?wait=applied", &headers, "{}").await;
    assert_eq!(put.status, 200, "{put:?}");
    eventually("the quiet queue is applied", PATIENCE, || async { received("b").await == 100 })
        .await;
    let then = received("a").await;
    assert!(then < FLOOD, "the quiet queue did not wait for the flood");
    eventually("the flood is applied", PATIENCE, || async { received("a").await == FLOOD }).await;
    node.editor().counters("content").await;
}
