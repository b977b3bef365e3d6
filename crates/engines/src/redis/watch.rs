//! Wakes across nodes: scripts publish what they changed, and one connection of its own listens.
//!
//! The channels of a shard or partition are subscribed to when somebody first waits for something in it.
//! Messages are hints: whoever waits also looks again by itself now and then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Topic, Wake, Wakes};
use futures::StreamExt;
use parking_lot::Mutex;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use super::link::Place;

/// How long it waits before it connects again.
const RECONNECT_WAIT: Duration = Duration::from_millis(200);
/// How long connecting or subscribing may take.
const WITHIN: Duration = Duration::from_secs(5);
/// How often a ping is sent, so that a peer that vanished without a word is noticed.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Subscriptions that may wait for the listener; a further one is picked up when it reconnects.
const WAITING: usize = 1_024;

/// The listening side.
#[derive(Debug)]
pub(super) struct Watch {
    wakes: Arc<Wakes>,
    channels: Arc<Mutex<Channels>>,
    requests: mpsc::Sender<(String, Topic)>,
    task: JoinHandle<()>,
}

/// The channels to listen to. They are as many as there are shards and partitions that this node waits
/// on, and are never left.
#[derive(Debug, Default)]
struct Channels {
    wanted: HashSet<String>,
    /// Those whose messages arrive now.
    active: HashSet<String>,
}

impl Watch {
    pub(super) fn start(place: Place) -> Self {
        let (wakes, channels) = (Arc::new(Wakes::default()), Arc::default());
        let (requests, waiting) = mpsc::channel(WAITING);
        let listener =
            Listener { place, wakes: wakes.clone(), channels: Arc::clone(&channels), waiting };
        Watch { wakes, channels, requests, task: tokio::spawn(listener.run()) }
    }

    /// Starts to listen for a topic that is told on a channel.
    pub(super) fn listen(&self, channel: String, topic: Topic) -> Wake {
        let wake = self.wakes.listen(topic);
        let mut channels = self.channels.lock();
        if !channels.active.contains(&channel) {
            channels.wanted.insert(channel.clone());
            drop(channels);
            // Full: the hint is lost, and the waiter's own look finds the change.
            let _ = self.requests.try_send((channel, topic));
        }
        wake
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Listener {
    place: Place,
    wakes: Arc<Wakes>,
    channels: Arc<Mutex<Channels>>,
    waiting: mpsc::Receiver<(String, Topic)>,
}

impl Listener {
    async fn run(mut self) {
        for node in 0.. {
            if let Some((sink, stream)) = self.connect(node).await {
                // What changed while nobody listened was not told.
                self.wakes.wake_all();
                self.listen(sink, stream).await;
            }
            self.channels.lock().active.clear();
            sleep(RECONNECT_WAIT).await;
        }
    }

    /// Connects to one of the nodes — in a cluster messages reach them all — and subscribes anew.
    async fn connect(&self, node: usize) -> Option<(PubSubSink, PubSubStream)> {
        let client = self.place.client(node).ok()?;
        let connection = timeout(WITHIN, client.get_async_pubsub()).await.ok()?.ok()?;
        let (mut sink, stream) = connection.split();
        let wanted: Vec<String> = self.channels.lock().wanted.iter().cloned().collect();
        if !wanted.is_empty() {
            timeout(WITHIN, sink.subscribe(&wanted)).await.ok()?.ok()?;
        }
        self.channels.lock().active.extend(wanted);
        Some((sink, stream))
    }

    /// Passes messages on until the connection fails.
    async fn listen(&mut self, mut sink: PubSubSink, mut stream: PubSubStream) {
        let mut pings = interval(PING_EVERY);
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(message) => self.told(message.get_payload_bytes()),
                    None => return,
                },
                request = self.waiting.recv() => {
                    let Some((channel, topic)) = request else { return };
                    let known = self.channels.lock().active.contains(&channel);
                    if !known {
                        let subscribed = timeout(WITHIN, sink.subscribe(&channel)).await;
                        if !matches!(subscribed, Ok(Ok(()))) {
                            return;
                        }
                        self.channels.lock().active.insert(channel);
                    }
                    // A change between the waiter's look and the subscription was not told:
                    // it looks once more.
                    self.wakes.wake(topic);
                }
                _ = pings.tick() => {
                    let ping = timeout(WITHIN, sink.ping::<redis::Value>()).await;
                    if !matches!(ping, Ok(Ok(_))) {
                        return;
                    }
                }
            }
        }
    }

    fn told(&self, topics: &[u8]) {
        for topic in topics.as_chunks::<8>().0 {
            self.wakes.wake(Topic(u64::from_le_bytes(*topic)));
        }
    }
}
