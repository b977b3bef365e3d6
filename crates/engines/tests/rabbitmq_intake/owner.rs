//! The owner of a queue, who fills it and sees what is left, and how the tests take from it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use consort_engines::open_inlet;
use consort_kernel::{Fault, Inlet, Message, Tag};
use consort_testbed::{Proxy, RabbitServer, eventually};
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use tokio::time::timeout;

/// Bounds a hang; the inlet's own time-outs are far shorter.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// For the last message that there is: the queue has nothing more if this passes.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
pub(crate) const PERSISTENT: u8 = 2;

/// The queue's owner: declares and fills it, and sees what is left.
pub(crate) struct Owner {
    _connection: Connection,
    pub(crate) channel: Channel,
    pub(crate) queue: String,
}

impl Owner {
    /// With the queue not declared yet.
    pub(crate) async fn new(url: &str) -> Owner {
        let queue = format!("intake-{:016x}", rand::random::<u64>());
        Owner::of(url, queue).await
    }

    pub(crate) async fn of(url: &str, queue: String) -> Owner {
        let connection =
            Connection::connect(url, ConnectionProperties::default()).await.expect("the broker");
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        Owner { _connection: connection, channel, queue }
    }

    pub(crate) async fn with_queue(url: &str) -> Owner {
        let owner = Owner::new(url).await;
        owner.declare("classic").await;
        owner
    }

    pub(crate) async fn declare(&self, kind: &str) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        let declaring = self.channel.queue_declare(self.queue.as_str().into(), options, arguments);
        declaring.await.expect("the queue is declared");
    }

    pub(crate) async fn delete(&self) {
        let deleting =
            self.channel.queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default());
        deleting.await.expect("the queue is deleted");
    }

    /// Confirmed, with the text as id and body.
    pub(crate) async fn publish(&self, ids: impl IntoIterator<Item = u32>) {
        let mut confirms = Vec::new();
        for id in ids {
            let properties = BasicProperties::default().with_message_id(format!("id-{id}").into());
            confirms.push(self.send(id.to_string().as_bytes(), properties).await);
        }
        for confirm in confirms {
            assert!(confirm.await.expect("a confirm").is_ack());
        }
    }

    pub(crate) async fn send(
        &self,
        body: &[u8],
        properties: BasicProperties,
    ) -> impl Future<Output = lapin::Result<Confirmation>> + use<> {
        let properties = properties.with_delivery_mode(PERSISTENT);
        let (queue, options) = (self.queue.as_str().into(), BasicPublishOptions::default());
        let sending = self.channel.basic_publish("".into(), queue, options, body, properties);
        sending.await.expect("it is sent")
    }

    pub(crate) async fn consumers(&self) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.queue.as_str().into();
        let looking = self.channel.queue_declare(queue, options, FieldTable::default());
        looking.await.expect("the queue").consumer_count()
    }

    /// Once the inlet is gone, everything that is left, in order; it is taken out.
    pub(crate) async fn left(&self) -> Vec<u32> {
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

    pub(crate) async fn inlet(&self, url: &str) -> Arc<dyn Inlet> {
        open_inlet(url, &self.queue, None).await.expect("an address")
    }
}

/// A way to the broker through a proxy, with heartbeats of a second.
pub(crate) async fn proxied(server: &RabbitServer) -> (String, Proxy) {
    let mut url = url::Url::parse(&server.url()).expect("the broker's address");
    let port = url.port().expect("the broker's port");
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], port))).await;
    url.set_port(Some(proxy.address().port())).expect("a port");
    url.set_query(Some("heartbeat=1"));
    (url.to_string(), proxy)
}

pub(crate) fn number(body: &[u8]) -> u32 {
    std::str::from_utf8(body).expect("text").parse().expect("a number")
}

pub(crate) fn numbers(messages: &[Message]) -> Vec<u32> {
    messages.iter().map(|message| number(&message.body)).collect()
}

pub(crate) fn tags(messages: &[Message]) -> Vec<Tag> {
    messages.iter().map(|message| message.tag).collect()
}

/// A take that must end; faults are passing.
pub(crate) async fn take(
    inlet: &Arc<dyn Inlet>,
    most: usize,
    wait: Duration,
) -> Option<Vec<Message>> {
    match timeout(PATIENCE, inlet.take(most, wait)).await.expect("a take ends") {
        Ok(messages) => Some(messages),
        Err(Fault::Retryable(_)) => None,
        Err(fatal) => panic!("not passing: {fatal}"),
    }
}

/// Takes until there are so many, through passing faults.
pub(crate) async fn take_all(inlet: &Arc<dyn Inlet>, count: usize) -> Vec<Message> {
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
pub(crate) async fn fault(inlet: &Arc<dyn Inlet>) -> Fault {
    eventually("a take fails", PATIENCE, || async { inlet.take(1, QUIET).await.err() }).await
}
