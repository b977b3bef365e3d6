//! Taking messages out of a queue of RabbitMQ, in peace and while connection and broker fail.
//!
//! What is left in a queue is counted by a connection of the test's own, once the inlet is gone: what
//! it held unsettled is back then.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use consort_engines::{OpenError, open_inlet};
use consort_kernel::{Fault, Inlet, Message, Tag, limits};
use consort_testbed::{Direction, Proxy, RabbitOptions, RabbitServer, eventually};
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use tokio::time::timeout;

/// Bounds a hang; the inlet's own time-outs are far shorter.
const PATIENCE: Duration = Duration::from_secs(60);
/// For the last message that there is: the queue has nothing more if this passes.
const QUIET: Duration = Duration::from_millis(300);
const PERSISTENT: u8 = 2;

/// The queue's owner: declares and fills it, and sees what is left.
struct Owner {
    _connection: Connection,
    channel: Channel,
    queue: String,
}

impl Owner {
    /// With the queue not declared yet.
    async fn new(url: &str) -> Owner {
        let queue = format!("intake-{:016x}", rand::random::<u64>());
        Owner::of(url, queue).await
    }

    async fn of(url: &str, queue: String) -> Owner {
        let connection =
            Connection::connect(url, ConnectionProperties::default()).await.expect("the broker");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        Owner { _connection: connection, channel, queue }
    }

    async fn with_queue(url: &str) -> Owner {
        let owner = Owner::new(url).await;
        owner.declare("classic").await;
        owner
    }

    async fn declare(&self, kind: &str) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        let declaring = self.channel.queue_declare(self.queue.as_str().into(), options, arguments);
        declaring.await.expect("the queue is declared");
    }

    async fn delete(&self) {
        let deleting =
            self.channel.queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default());
        deleting.await.expect("the queue is deleted");
    }

    /// Confirmed, with the text as id and body.
    async fn publish(&self, ids: impl IntoIterator<Item = u32>) {
        let mut confirms = Vec::new();
        for id in ids {
            let properties = BasicProperties::default().with_message_id(format!("id-{id}").into());
            confirms.push(self.send(id.to_string().as_bytes(), properties).await);
        }
        for confirm in confirms {
            assert!(confirm.await.expect("a confirm").is_ack());
        }
    }

    async fn send(
        &self,
        body: &[u8],
        properties: BasicProperties,
    ) -> impl Future<Output = lapin::Result<Confirmation>> + use<> {
        let properties = properties.with_delivery_mode(PERSISTENT);
        let (queue, options) = (self.queue.as_str().into(), BasicPublishOptions::default());
        let sending = self.channel.basic_publish("".into(), queue, options, body, properties);
        sending.await.expect("it is sent")
    }

    async fn consumers(&self) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.queue.as_str().into();
        let looking = self.channel.queue_declare(queue, options, FieldTable::default());
        looking.await.expect("the queue").consumer_count()
    }

    /// Once the inlet is gone, everything that is left, in order; it is taken out.
    async fn left(&self) -> Vec<u32> {
        eventually("the inlet is gone", PATIENCE, || async { self.consumers().await == 0 }).await;
        let mut left = Vec::new();
        loop {
            let queue = self.queue.as_str().into();
            let got = self.channel.basic_get(queue, BasicGetOptions::default()).await.expect("get");
            let Some(got) = got else { return left };
            got.ack(BasicAckOptions::default()).await.expect("ack");
            left.push(number(&got.delivery.data));
        }
    }

    async fn inlet(&self, url: &str) -> Arc<dyn Inlet> {
        open_inlet(url, &self.queue, None).await.expect("an address")
    }
}

/// A way to the broker through a proxy, with heartbeats of a second.
async fn proxied(server: &RabbitServer) -> (String, Proxy) {
    let mut url = url::Url::parse(&server.url()).expect("the broker's address");
    let port = url.port().expect("the broker's port");
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], port))).await;
    url.set_port(Some(proxy.address().port())).expect("a port");
    url.set_query(Some("heartbeat=1"));
    (url.to_string(), proxy)
}

fn number(body: &[u8]) -> u32 {
    std::str::from_utf8(body).expect("text").parse().expect("a number")
}

fn numbers(messages: &[Message]) -> Vec<u32> {
    messages.iter().map(|message| number(&message.body)).collect()
}

fn tags(messages: &[Message]) -> Vec<Tag> {
    messages.iter().map(|message| message.tag).collect()
}

/// A take that must end; faults are passing.
async fn take(inlet: &Arc<dyn Inlet>, most: usize, wait: Duration) -> Option<Vec<Message>> {
    match timeout(PATIENCE, inlet.take(most, wait)).await.expect("a take ends") {
        Ok(messages) => Some(messages),
        Err(Fault::Retryable(_)) => None,
        Err(fatal) => panic!("not passing: {fatal}"),
    }
}

/// Takes until there are so many, through passing faults.
async fn take_all(inlet: &Arc<dyn Inlet>, count: usize) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let taking = async {
        while messages.len() < count {
            let most = count - messages.len();
            messages.extend(take(inlet, most, PATIENCE).await.unwrap_or_default());
        }
    };
    timeout(PATIENCE, taking).await.expect("the messages come");
    messages
}

/// The fault of a take, once there is one.
async fn fault(inlet: &Arc<dyn Inlet>) -> Fault {
    eventually("a take fails", PATIENCE, || async { inlet.take(1, QUIET).await.err() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_taken_and_settled_is_gone() {
    let server = RabbitServer::shared().await;
    for kind in ["classic", "quorum"] {
        let owner = Owner::new(&server.url()).await;
        owner.declare(kind).await;
        // More than the broker sends ahead.
        owner.publish(0..2_500).await;
        let inlet = owner.inlet(&server.url()).await;
        let mut taken = Vec::new();
        while taken.len() < 2_500 {
            let messages = take(&inlet, 300, PATIENCE).await.expect("no fault");
            assert!(messages.len() <= 300);
            // The later half first, one by one and again, then the rest.
            let tags = tags(&messages);
            let (front, back) = tags.split_at(tags.len() / 2);
            for tags in [back, back, &tags, front, &[]] {
                inlet.settle(tags).await.expect("settled");
            }
            taken.extend(messages);
        }
        assert_eq!(numbers(&taken), (0..2_500).collect::<Vec<_>>());
        for message in &taken {
            assert_eq!(message.id, Some(format!("id-{}", number(&message.body))));
            assert!(!message.redelivered);
        }
        assert_eq!(take(&inlet, 300, QUIET).await, Some(vec![]));
        drop(inlet);
        assert_eq!(owner.left().await, [0_u32; 0], "of the {kind} queue");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_settled_comes_again() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..10).await;
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 10).await;
    inlet.settle(&[taken[3].tag, taken[0].tag, taken[7].tag]).await.expect("settled");
    drop(inlet);

    let inlet = owner.inlet(&server.url()).await;
    let again = take_all(&inlet, 7).await;
    assert_eq!(numbers(&again), [1, 2, 4, 5, 6, 8, 9]);
    assert!(again.iter().all(|message| message.redelivered));
    assert_eq!(again[0].id, Some("id-1".into()));

    // The tags of the first inlet name the same numbers on other channels.
    inlet.settle(&tags(&taken)).await.expect("passed over");
    inlet.settle(&[again[1].tag]).await.expect("settled");
    drop(inlet);
    assert_eq!(owner.left().await, [1, 4, 5, 6, 8, 9]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_than_a_bound_is_out_at_once() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..1_200).await;
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 1_000).await;
    assert_eq!(take(&inlet, 1_000, QUIET).await, Some(vec![]));
    inlet.settle(&[taken[500].tag]).await.expect("settled");
    assert_eq!(numbers(&take_all(&inlet, 1).await), [1_000]);
    assert_eq!(take(&inlet, 1_000, QUIET).await, Some(vec![]));
    inlet.settle(&tags(&taken)).await.expect("settled");
    let rest = take_all(&inlet, 199).await;
    assert_eq!(numbers(&rest), (1_001..1_200).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_every_size_are_handed_over() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    let sizes = [0, limits::RECORD_BYTES + 1, limits::PAGE_BYTES, 1, limits::PAGE_BYTES + 1, 2];
    for size in sizes {
        let confirm = owner.send(&vec![b'x'; size], BasicProperties::default()).await;
        assert!(confirm.await.expect("a confirm").is_ack());
    }
    let inlet = owner.inlet(&server.url()).await;
    let mut taken = Vec::new();
    while taken.len() < sizes.len() {
        let messages = take(&inlet, 100, PATIENCE).await.expect("no fault");
        let before_last = messages.iter().rev().skip(1).map(|message| message.body.len());
        assert!(before_last.sum::<usize>() < limits::PAGE_BYTES);
        taken.extend(messages);
    }
    assert_eq!(taken.iter().map(|message| message.body.len()).collect::<Vec<_>>(), sizes);
    assert!(taken.iter().all(|message| message.id.is_none()));
    inlet.settle(&tags(&taken)).await.expect("settled");
    drop(inlet);
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_take_is_woken_by_a_message() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    let inlet = owner.inlet(&server.url()).await;
    assert_eq!(take(&inlet, 10, QUIET).await, Some(vec![]));
    owner.publish([1]).await;
    let first = take_all(&inlet, 1).await;
    let waiting = tokio::spawn({
        let inlet = inlet.clone();
        async move { inlet.take(10, 2 * PATIENCE).await }
    });
    // Settling does not wait for the take.
    inlet.settle(&tags(&first)).await.expect("settled");
    owner.publish([2]).await;
    let woken = timeout(PATIENCE, waiting).await.expect("it wakes").expect("the take");
    assert_eq!(numbers(&woken.expect("a message")), [2]);
    drop(inlet);
    assert_eq!(owner.left().await, [2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_is_dropped_takes_nothing() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    let inlet = owner.inlet(&server.url()).await;
    let publishing = async {
        for id in 0..300 {
            owner.publish([id]).await;
        }
    };
    let taking = async {
        let mut taken: Vec<Message> = Vec::new();
        let mut dropped = 0;
        while taken.len() < 300 {
            // Dropped at some point of its way, the connecting included.
            let patience = Duration::from_micros(rand::random_range(0..20_000));
            match timeout(patience, inlet.take(7, PATIENCE)).await {
                Ok(messages) => taken.extend(messages.expect("no fault")),
                Err(_) => dropped += 1,
            }
        }
        assert!(dropped > 0);
        taken
    };
    let (_, taken) =
        timeout(PATIENCE, async { tokio::join!(publishing, taking) }).await.expect("all");
    // Each once: nothing was left behind in a dropped call to come again.
    assert_eq!(numbers(&taken), (0..300).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_of_a_lost_connection_acknowledge_nothing() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..10).await;
    let (url, proxy) = proxied(&server).await;
    let inlet = owner.inlet(&url).await;
    let old = take_all(&inlet, 10).await;
    proxy.cut();
    eventually("it is cut", PATIENCE, || async { proxy.connections() == 0 }).await;
    // Whether the inlet has noticed or not: those come again.
    let _ = inlet.settle(&tags(&old[..5])).await;
    let again = take_all(&inlet, 10).await;
    assert_eq!(numbers(&again), (0..10).collect::<Vec<_>>());
    assert!(again.iter().all(|message| message.redelivered));

    // They have the numbers of others now.
    inlet.settle(&tags(&old)).await.expect("passed over");
    inlet.settle(&tags(&again[..3])).await.expect("settled");
    inlet.settle(&tags(&old)).await.expect("passed over");
    drop(inlet);
    assert_eq!(owner.left().await, (3..10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_at_any_byte_lose_nothing_and_settle_nothing_else() {
    const MESSAGES: u32 = 2_000;
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..MESSAGES).await;
    let (url, proxy) = proxied(&server).await;
    let inlet = owner.inlet(&url).await;
    // Every seventh message is never settled, and so must stay in the queue whatever happens.
    let keep = |message: &Message| number(&message.body).is_multiple_of(7);
    let (mut seen, mut sessions) = (BTreeSet::new(), BTreeSet::new());
    let taking = async {
        while seen.len() < MESSAGES as usize || sessions.len() < 6 {
            let messages = take(&inlet, 100, Duration::from_millis(300)).await.unwrap_or_default();
            let fresh = messages.first().is_some_and(|first| sessions.insert(first.tag.session()));
            // Each of the first sessions is cut once, among deliveries or among acknowledgements; or
            // when it is quiet.
            match fresh && sessions.len() < 6 {
                true if rand::random() => {
                    proxy.cut_after(Direction::ToServer, rand::random_range(0..200));
                }
                true => proxy.cut_after(Direction::ToClient, rand::random_range(0..40_000)),
                false if messages.is_empty() && sessions.len() < 6 => proxy.cut(),
                false => {}
            }
            let mut settled = Vec::new();
            for message in &messages {
                seen.insert(number(&message.body));
                if !keep(message) {
                    settled.push(message.tag);
                }
            }
            // In two calls at once, interleaved.
            let (even, odd): (Vec<Tag>, Vec<Tag>) =
                settled.into_iter().partition(|tag| tag.number().is_multiple_of(2));
            let _ = tokio::join!(inlet.settle(&even), inlet.settle(&odd));
        }
    };
    timeout(PATIENCE, taking).await.expect("every message comes");
    drop(inlet);
    let left: BTreeSet<u32> = owner.left().await.into_iter().collect();
    let kept: BTreeSet<u32> = (0..MESSAGES).filter(|id| id.is_multiple_of(7)).collect();
    assert!(left.is_superset(&kept), "gone: {:?}", kept.difference(&left));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_swallows_everything_is_left() {
    let server = RabbitServer::shared().await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish([1, 2]).await;
    let (url, proxy) = proxied(&server).await;
    let inlet = owner.inlet(&url).await;
    let taken = take_all(&inlet, 2).await;
    proxy.swallow(Direction::ToServer);
    proxy.swallow(Direction::ToClient);
    // They seem to be settled, and the broker never hears of it.
    let _ = timeout(PATIENCE, inlet.settle(&tags(&taken))).await.expect("settling ends");
    assert_eq!(take(&inlet, 10, PATIENCE).await, None, "the silence is noticed");
    proxy.heal();
    let again = take_all(&inlet, 2).await;
    assert_eq!(numbers(&again), [1, 2]);
    inlet.settle(&tags(&again)).await.expect("settled");
    drop(inlet);
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_goes_on_after_the_broker_was_killed() {
    let mut server = RabbitServer::start(RabbitOptions::new()).await;
    let owner = Owner::with_queue(&server.url()).await;
    owner.publish(0..500).await;
    // An end in good order writes down that there is a queue; see the faults of the log.
    server.stop().await;
    server.restart().await;
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 300).await;
    inlet.settle(&tags(&taken[..100])).await.expect("settled");
    server.kill().await;
    assert!(fault(&inlet).await.retryable());
    inlet.settle(&tags(&taken[100..200])).await.expect("passed over");
    server.restart().await;

    // The broker may not have written down the settling of the first hundred, but nothing else.
    let mut seen = BTreeSet::new();
    let taking = async {
        while !(100..500).all(|id| seen.contains(&id)) {
            let messages = take(&inlet, 100, PATIENCE).await.unwrap_or_default();
            inlet.settle(&tags(&messages)).await.expect("settled");
            seen.extend(numbers(&messages));
        }
    };
    timeout(PATIENCE, taking).await.expect("all that was not settled comes again");
    drop(inlet);
    let owner = Owner::of(&server.url(), owner.queue).await;
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_queue_is_told_and_found_once_it_is_there() {
    let server = RabbitServer::shared().await;
    let owner = Owner::new(&server.url()).await;
    let inlet = owner.inlet(&server.url()).await;
    for _ in 0..2 {
        let Fault::Retryable(said) = fault(&inlet).await else { panic!("not passing") };
        assert!(said.contains(&owner.queue) && said.contains("no such queue"), "{said}");
        assert!(said.contains("***@127.0.0.1") && !said.contains("guest:"), "{said}");
    }
    owner.declare("classic").await;
    owner.publish([1]).await;
    assert_eq!(numbers(&take_all(&inlet, 1).await), [1]);

    // Deleted under a take that waits, with a message that was not settled.
    let deleted = async {
        let fault = fault(&inlet).await;
        assert!(fault.retryable(), "{fault}");
    };
    tokio::join!(deleted, owner.delete());
    let Fault::Retryable(said) = fault(&inlet).await else { panic!("not passing") };
    assert!(said.contains("queue"), "{said}");
    owner.declare("classic").await;
    owner.publish([2]).await;
    assert_eq!(numbers(&take_all(&inlet, 1).await), [2]);
    assert!(!format!("{inlet:?}").contains("guest:"), "{inlet:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_refused_and_what_came_out_of_one_is_not() {
    let server = RabbitServer::shared().await;
    let owner = Owner::new(&server.url()).await;
    owner.declare("stream").await;
    let inlet = owner.inlet(&server.url()).await;
    // It delivers only what comes after the inlet.
    let refused = eventually("the stream is noticed", PATIENCE, || async {
        owner.publish([1]).await;
        inlet.take(1, QUIET).await.err()
    })
    .await;
    assert!(
        matches!(&refused, Fault::Fatal(said) if said.contains("stream") && said.contains(&owner.queue)),
        "{refused}"
    );

    let owner = Owner::with_queue(&server.url()).await;
    let mut headers = FieldTable::default();
    headers.insert("x-stream-offset".into(), AMQPValue::LongLongInt(5));
    for id in ["1", "2"] {
        let properties = BasicProperties::default().with_headers(headers.clone());
        assert!(owner.send(id.as_bytes(), properties).await.await.expect("a confirm").is_ack());
    }
    let inlet = owner.inlet(&server.url()).await;
    let taken = take_all(&inlet, 2).await;
    inlet.settle(&tags(&taken)).await.expect("settled");
    drop(inlet);
    assert_eq!(numbers(&taken), [1, 2]);
    assert_eq!(owner.left().await, [0_u32; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_and_names_are_looked_at_before_anything_is_taken() {
    let long = "q".repeat(256);
    for (url, queue) in [
        ("redis://user:sesame@127.0.0.1/", "queue"),
        ("user:sesame@127.0.0.1", "queue"),
        ("amqp://user:sesame@127.0.0.1:x/", "queue"),
        ("amqp://user:sesame@127.0.0.1/%2f", ""),
        ("amqp://user:sesame@127.0.0.1/%2f", &long),
    ] {
        let refused = open_inlet(url, queue, None).await.expect_err("unusable");
        assert!(matches!(refused, OpenError::Unusable { .. }), "{refused:?}");
        let said = format!("{refused} {refused:?}");
        assert!(said.contains("127.0.0.1") && !said.contains("sesame"), "{said}");
    }
    // Nobody is there: told by taking, and told again.
    let inlet =
        open_inlet("amqp://user:sesame@127.0.0.1:1/%2f", "queue", None).await.expect("open");
    for _ in 0..2 {
        let fault = fault(&inlet).await;
        assert!(fault.retryable() && !fault.to_string().contains("sesame"), "{fault}");
    }
}
