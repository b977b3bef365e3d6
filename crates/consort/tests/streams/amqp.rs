//! A stream that is filled by a queue of RabbitMQ.

use consort_testbed::{RabbitServer, eventually};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::bed::{Apart, PATIENCE};
use crate::caller::{Caller, text};

/// One broker for all tests here: starting one is slow. It ends with this process.
static BROKER: OnceCell<RabbitServer> = OnceCell::const_new();

/// The queue's owner, who fills it.
struct Owner {
    url: String,
    queue: String,
    _connection: Connection,
    channel: Channel,
}

impl Owner {
    async fn new() -> Owner {
        let url = BROKER.get_or_init(RabbitServer::shared).await.url();
        let queue = format!("streams-{:016x}", rand::random::<u64>());
        let connection =
            Connection::connect(&url, ConnectionProperties::default()).await.expect("the broker");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declaring =
            channel.queue_declare(queue.as_str().into(), options, FieldTable::default());
        declaring.await.expect("the queue is declared");
        Owner { url, queue, _connection: connection, channel }
    }

    /// A stream that reads the queue.
    fn declarations(&self) -> String {
        let Owner { url, queue, .. } = self;
        format!(
            "[stream.rides]\nkey = \"skier\"\npartitions = 4\nfields = {{ skier = \"int 1..100\", note = \"text? 0..9000000\" }}\n\
             amqp = {{ url = \"{url}\", queue = \"{queue}\" }}\n\
             [view.rides_of]\nfrom = \"rides\"\nby = [\"skier\"]\ncount = true\n\
             [view.all]\nfrom = \"rides\"\ncount = true\n"
        )
    }

    /// Publishes messages with their ids, confirmed.
    async fn publish(&self, messages: impl IntoIterator<Item = (Option<String>, Vec<u8>)>) {
        let mut confirms = Vec::new();
        for (id, body) in messages {
            let mut properties = BasicProperties::default().with_delivery_mode(2);
            if let Some(id) = id {
                properties = properties.with_message_id(id.into());
            }
            let (queue, options) = (self.queue.as_str().into(), BasicPublishOptions::default());
            let sending = self.channel.basic_publish("".into(), queue, options, &body, properties);
            confirms.push(sending.await.expect("it is sent"));
        }
        for confirm in confirms {
            assert!(confirm.await.expect("a confirm").is_ack());
        }
    }

    /// Ends the node, and gives how many messages are in the queue then: those that nobody settled.
    async fn left(&self, mut node: Apart) -> u32 {
        node.process.terminate(PATIENCE).await;
        eventually("the node's consumer is gone", PATIENCE, || async { self.look().await.1 == 0 })
            .await;
        let (messages, _) = self.look().await;
        let deleting =
            self.channel.queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default());
        deleting.await.expect("the queue is deleted");
        messages
    }

    /// The queue's messages that are ready, and its consumers.
    async fn look(&self) -> (u32, u32) {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.queue.as_str().into();
        let queue = self.channel.queue_declare(queue, options, FieldTable::default()).await;
        let queue = queue.expect("the queue");
        (queue.message_count(), queue.consumer_count())
    }
}

/// The figure of what became of the stream's events.
async fn outcome(caller: &mut Caller, outcome: &str) -> u64 {
    let metrics = text(&caller.get("/metrics").await);
    let name = format!("consort_stream_events{{stream=\"rides\",outcome=\"{outcome}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{name}is not shown")).parse().expect("a number")
}

#[tokio::test]
async fn messages_are_counted_and_malformed_ones_listed() {
    let owner = Owner::new().await;
    let ride = |skier: u32| format!("{{\"skier\":{skier}}}").into_bytes();
    owner.publish([(None, ride(1)), (None, ride(1)), (Some("a".into()), ride(2))]).await;
    let node = Apart::start(&owner.declarations()).await;
    let mut caller = node.caller();
    caller.comes_to("/views/all", &json!(3)).await;
    // Some came before the node, and some after; of those with the same id one counts.
    owner
        .publish([
            (Some("a".into()), ride(2)),
            (None, b"no JSON \xff".to_vec()),
            (Some("b".into()), ride(101)),
            (Some("c".into()), ride(3)),
            (None, Vec::new()),
        ])
        .await;
    caller.comes_to("/views/all", &json!(4)).await;
    eventually("the repeat is taken", PATIENCE, || {
        let mut caller = node.caller();
        async move { outcome(&mut caller, "duplicate").await == 1 }
    })
    .await;
    assert_eq!(caller.value("/views/rides_of?skier=2").await, json!(1));

    let listed = caller.json("/streams/rides/rejects").await;
    assert_eq!(listed["stream"], json!("rides"));
    let shown = |one: &Value| {
        let reason = one["reason"].as_str().unwrap_or_default();
        let reason = reason.split(':').next().unwrap_or_default().to_owned();
        (one["id"].clone(), one["body"].clone(), one["bytes"].clone(), reason)
    };
    let rejects: Vec<_> = listed["rejects"].as_array().expect("a list").iter().map(shown).collect();
    let not_json = String::from("not a JSON object");
    let wrong = String::from("field 'skier' must be a whole number from 1 to 100");
    let expected = [
        (json!(null), json!("no JSON \u{fffd}"), json!(9), not_json.clone()),
        (json!("b"), json!("{\"skier\":101}"), json!(13), wrong),
        (json!(null), json!(""), json!(0), not_json),
    ];
    assert_eq!(rejects, expected);
    assert!(listed["rejects"][0]["time"].as_u64().is_some_and(|time| time > 1_600_000_000_000));

    // Over HTTP the stream takes events all the same.
    caller.accept("/streams/rides", r#"{"skier":4}"#).await;
    caller.comes_to("/views/all", &json!(5)).await;
    assert_eq!(owner.left(node).await, 0, "malformed messages are gone from the queue");
}

#[tokio::test]
async fn a_node_killed_in_the_middle_of_messages_counts_each_once() {
    const MESSAGES: u64 = 2_000;
    let owner = Owner::new().await;
    let message = |n: u64| (Some(format!("m{n}")), format!("{{\"skier\":{}}}", n % 10 + 1).into());
    owner.publish((0..MESSAGES / 2).map(message)).await;
    let mut node = Apart::start(&owner.declarations()).await;
    // Killed as soon as anything was taken, so that much of it is taken and not settled.
    eventually("some messages are counted", PATIENCE, || {
        let mut caller = node.caller();
        async move { caller.value("/views/all").await != json!(0) }
    })
    .await;
    let (published, ()) =
        tokio::join!(owner.publish((MESSAGES / 2..MESSAGES).map(message)), async {
            for _ in 0..2 {
                node.crash().await;
            }
        });
    let () = published;
    let mut caller = node.caller();
    caller.comes_to("/views/all", &json!(MESSAGES)).await;
    for skier in 1..=10 {
        let path = format!("/views/rides_of?skier={skier}");
        assert_eq!(caller.value(&path).await, json!(MESSAGES / 10), "skier {skier}");
    }
    assert_eq!(outcome(&mut caller, "applied").await, MESSAGES);
    assert_eq!(caller.json("/streams/rides/rejects").await["rejects"], json!([]));
    assert_eq!(owner.left(node).await, 0);
}

#[tokio::test]
async fn large_messages_are_all_counted_though_no_frame_holds_them_together() {
    const MESSAGES: u64 = 400;
    let owner = Owner::new().await;
    // All of one partition, and together more than a frame takes.
    let ride = |bytes| json!({"skier": 1, "note": "n".repeat(bytes)}).to_string().into_bytes();
    let half = (0..MESSAGES / 2).map(|n| (Some(format!("m{n}")), ride(60_000)));
    owner.publish(half).await;
    // Some clients send an empty id for none; one message is more than any record holds.
    let half = (0..MESSAGES / 2).map(|_| (Some(String::new()), ride(60_000)));
    owner.publish(half.chain([(Some("large".into()), ride(3 << 20))])).await;
    let node = Apart::start(&owner.declarations()).await;
    let mut caller = node.caller();
    caller.comes_to("/views/all", &json!(MESSAGES)).await;
    let large = "the message that no record holds is listed";
    let listed = eventually(large, PATIENCE, || {
        let mut caller = node.caller();
        async move {
            let listed = caller.json("/streams/rides/rejects").await["rejects"].take();
            Some(listed).filter(|listed| listed != &json!([]))
        }
    })
    .await;
    assert_eq!(listed[0]["id"], json!("large"));
    assert_eq!(listed[0]["reason"], json!("the event is larger than 2097152 bytes"));
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(caller.value("/views/all").await, json!(MESSAGES));
    assert_eq!(owner.left(node).await, 0);
}
