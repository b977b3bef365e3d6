//! The gate of a stream whose store becomes slow while its log stays fast: posts are refused at the door, and
//! so the queue and the memory of the node stay bounded; nothing acknowledged is lost; and when the store is
//! fast again, all posts are let in again.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use consort_testbed::{
    Port, Process, RabbitOptions, RabbitServer, RedisOptions, RedisServer, eventually,
};
use consort_tests::lifts::compare::{Views, metrics};
use consort_tests::lifts::count::Count;
use consort_tests::lifts::nodes::{LIFTS, serve};
use consort_tests::lifts::rides::Ride;
use consort_tests::lifts::servers::Engine;
use consort_tests::seed::seed;
use futures::future::join_all;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Connections that post single rides without a pause, and such that post lists of them: the single ones are
/// refused at once, and the lists make the load.
const SINGLE: usize = 48;
const LISTS: usize = 12;

/// So many that updates of one skier hardly ever merge.
const SKIERS: std::ops::Range<u32> = 1..2_000;

/// Rides in a list.
const LIST: usize = 100;

/// How long the store is fast before, and then slow. Slow for so long that a door without a gate would let
/// in far more than may wait.
const FAST_FOR: Duration = Duration::from_secs(5);
const SLOW_FOR: Duration = Duration::from_secs(20);

/// A slow store works for the second of these in turn with standing still for the first: a twentieth of its
/// speed. Each pause is far shorter than what a node takes for a failure, and appends, which ask the store
/// for the time, can bear it.
const STANDS_FOR: Duration = Duration::from_millis(40);
const WORKS_FOR: Duration = Duration::from_millis(2);

/// At most so many seconds of what is accepted while the store is fast may wait while it is slow. The gate
/// aims at a lag of two; but while the store stands still, the machine has nothing else to do than to
/// take in posts, up to three times as many as before. It swings around that, since a batch takes seconds of a slow
/// store, and the larger it is, the more of its updates merge: three seconds of it were seen. The rest is for a
/// busy machine. Without a gate it was 13.
const QUEUE_SECONDS: u64 = 7;

/// By how much the memory of the node may grow while its store is slow.
const GROWTH_MOST_KIB: u64 = 300 * 1024;

/// A node holds a post for ten seconds at most; the rest is for a busy machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Between two looks at the node's figures.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long the store may take to catch up when it is fast again. It bounds a hang.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

/// How many seconds of load there are at most until half as much is accepted as before: the gate must see the
/// end of the lag first.
const SECONDS: usize = 60;

/// Posts of a burst, and how many bursts are tried until one of them is accepted whole.
const BURST: usize = 64;
const BURSTS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_store_is_met_at_the_door() {
    let mut random = StdRng::seed_from_u64(seed("gate"));
    let node = Node::start().await;
    let posters = Posters::start(&node.address, &mut random);

    let fast = node.look_for(FAST_FOR).await;
    let each_second = fast.accepted / FAST_FOR.as_secs();
    let refused_before = posters.refused();
    node.slow.send_replace(true);
    let slow = node.look_for(SLOW_FOR / 2).await;
    let then = node.look_for(SLOW_FOR / 2).await;
    let refused = posters.refused() - refused_before;
    node.slow.send_replace(false);
    eprintln!("fast: {fast:?}\nslow: {slow:?}, then {then:?}, {refused} refused");
    assert!(refused > 0, "the gate let everything in: the store was not slow enough");
    assert!(slow.accepted > 0 && then.accepted > 0, "the gate let nothing in");
    let waited = slow.queue.max(then.queue);
    assert!(
        waited <= QUEUE_SECONDS * each_second,
        "{waited} waited, {each_second} came each second"
    );
    let growth = slow.resident_kib.max(then.resident_kib).saturating_sub(fast.resident_kib);
    assert!(growth <= GROWTH_MOST_KIB, "the node grew by {growth} KiB");

    let seconds = posters.recovered(each_second / 2).await;
    let ledger = posters.stop().await;
    let tries = bursts(&node.address, &mut random, &ledger).await;
    eprintln!("as before after {seconds} seconds of load; burst {tries} was accepted whole");
    let rides = ledger.acknowledged.lock().clone();
    let expected = Views::of(&Count::of(&rides));
    let applied = || async { node.figures().await.applied == rides.len() as u64 };
    eventually("all that was acknowledged is applied", SETTLED_WITHIN, applied).await;
    let differences = expected.differences(&Views::asked(&node.address).await);
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Posts bursts until one is accepted whole, every post of it at its first try; says which.
async fn bursts(address: &str, random: &mut StdRng, ledger: &Arc<Ledger>) -> usize {
    for number in 1..=BURSTS {
        let posts = (0..BURST).map(|_| {
            let mut poster = Poster::new(address, random, ledger);
            async move { poster.single().await }
        });
        if join_all(posts).await.into_iter().all(|accepted| accepted) {
            return number;
        }
        sleep(LOOK_EVERY).await;
    }
    panic!("{BURSTS} bursts of {BURST} posts were not accepted although the store is fast");
}

/// What was seen during some time.
#[derive(Debug)]
struct Seen {
    /// How many events were accepted.
    accepted: u64,
    /// The most that were accepted and not applied.
    queue: u64,
    /// The most memory that the node had.
    resident_kib: u64,
}

/// The node's figures at one moment.
struct Figures {
    accepted: u64,
    applied: u64,
}

/// One node, its log on RabbitMQ and its store on a Redis that can be slow.
struct Node {
    address: String,
    process: Process,
    slow: watch::Sender<bool>,
    slowing: JoinHandle<()>,
    _rabbit: RabbitServer,
    _folder: TempDir,
}

impl Node {
    async fn start() -> Node {
        let redis = RedisServer::start(RedisOptions::new());
        let rabbit = RabbitServer::start(RabbitOptions::new());
        let (redis, rabbit) = tokio::join!(redis, rabbit);
        let engine = Engine { url: redis.url(), broker: Some(rabbit.url()) };
        let (port, folder) = (Port::claim(), tempfile::tempdir().expect("a folder"));
        let program = env!("CARGO_BIN_EXE_consort-under-test");
        let command = serve(program, LIFTS, "a", &port, &engine);
        let mut process = Process::start(&command, &folder.path().join("log"));
        eventually("the node has joined", SETTLED_WITHIN, || {
            assert!(process.is_running(), "the node ended at its start:\n{}", process.output());
            let joined = process.output().contains("listens on http://");
            async move { joined }
        })
        .await;
        let address = format!("http://127.0.0.1:{}", port.number());
        let (slow, told) = watch::channel(false);
        let slowing = tokio::spawn(slow_down(redis, told));
        Node { address, process, slow, slowing, _rabbit: rabbit, _folder: folder }
    }

    /// Looks at the node again and again for some time.
    async fn look_for(&self, time: Duration) -> Seen {
        let (began, before) = (Instant::now(), self.figures().await);
        let mut seen = Seen { accepted: 0, queue: 0, resident_kib: 0 };
        while began.elapsed() < time {
            let now = self.figures().await;
            seen.accepted = now.accepted - before.accepted;
            seen.queue = seen.queue.max(now.accepted.saturating_sub(now.applied));
            seen.resident_kib = seen.resident_kib.max(self.resident_kib());
            sleep(LOOK_EVERY).await;
        }
        seen
    }

    async fn figures(&self) -> Figures {
        let metrics = metrics(&self.address).await;
        let read = |name: &str| metrics.get(name).copied().unwrap_or_default() as u64;
        Figures {
            accepted: read("consort_stream_accepted_total{stream=\"lift_rides\"}"),
            applied: read("consort_stream_events{stream=\"lift_rides\",outcome=\"applied\"}"),
        }
    }

    fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = fs::read_to_string(path).expect("the node runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.expect("the kernel tells the memory of a process")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.slowing.abort();
        if std::thread::panicking() {
            eprintln!("the node said:\n{}", self.process.output());
        }
    }
}

/// Lets the store work only a small part of the time, while it is to be slow.
async fn slow_down(mut redis: RedisServer, mut slow: watch::Receiver<bool>) {
    while slow.wait_for(|slow| *slow).await.is_ok() {
        redis.pause();
        sleep(STANDS_FOR).await;
        redis.resume();
        sleep(WORKS_FOR).await;
    }
}

/// What the posters were told.
#[derive(Default)]
struct Ledger {
    acknowledged: Mutex<Vec<Ride>>,
    refused: AtomicUsize,
}

struct Posters {
    ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Posters {
    fn start(address: &str, random: &mut StdRng) -> Posters {
        let (ledger, stop) = (Arc::new(Ledger::default()), Arc::new(AtomicBool::new(false)));
        let tasks = (0..SINGLE + LISTS).map(|number| {
            let (mut poster, stop) = (Poster::new(address, random, &ledger), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match number < SINGLE {
                        true => drop(poster.single().await),
                        false => poster.list().await,
                    }
                }
            })
        });
        let tasks = tasks.collect();
        Posters { ledger, stop, tasks }
    }

    fn refused(&self) -> usize {
        self.ledger.refused.load(Ordering::Relaxed)
    }

    /// Waits until as much is accepted within a second as `wanted`; says how many seconds were seen.
    async fn recovered(&self, wanted: u64) -> usize {
        let accepted = || self.ledger.acknowledged.lock().len() as u64;
        for second in 1..=SECONDS {
            let before = accepted();
            sleep(Duration::from_secs(1)).await;
            if accepted() - before >= wanted {
                return second;
            }
        }
        panic!("fewer than {wanted} rides a second are accepted although the store is fast");
    }

    async fn stop(self) -> Arc<Ledger> {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("a poster gets an answer to each post, in time");
        }
        self.ledger
    }
}

/// One connection.
struct Poster {
    connection: Connection,
    dice: StdRng,
    ledger: Arc<Ledger>,
}

impl Poster {
    fn new(address: &str, random: &mut StdRng, ledger: &Arc<Ledger>) -> Poster {
        let client = Client::new(address, None).expect("an address");
        let connection = Connection::new(client, ANSWER_WITHIN);
        let dice = StdRng::seed_from_u64(random.random());
        Poster { connection, dice, ledger: Arc::clone(ledger) }
    }

    /// Posts one ride; whether it was accepted at its first try. One of which it is not known whether it is
    /// stored is posted again, so that in the end it is.
    async fn single(&mut self) -> bool {
        let ride = Ride::random(&mut self.dice, SKIERS);
        let key = format!("{:032x}", self.dice.random::<u128>());
        let (path, headers) = (ride.path(), [("idempotency-key", key.as_str())]);
        for tries in 0.. {
            let sent = self.connection.send(Method::POST, &path, &headers, ride.body());
            let reply = sent.await.expect("a post is answered within its deadline");
            if reply.status == 201 {
                self.ledger.acknowledged.lock().push(ride);
                return tries == 0;
            }
            self.ledger.refused.fetch_add(1, Ordering::Relaxed);
            if is_refused(&reply) && tries == 0 {
                return false;
            }
        }
        unreachable!("a post is tried until it is settled")
    }

    /// Posts a list of rides. It is let in or refused as a whole.
    async fn list(&mut self) {
        let rides: Vec<Ride> = (0..LIST).map(|_| Ride::random(&mut self.dice, SKIERS)).collect();
        let events: Vec<String> = rides.iter().map(Ride::event).collect();
        let body = format!("[{}]", events.join(","));
        let sent = self.connection.send(Method::POST, "/streams/lift_rides", &[], body);
        let reply = sent.await.expect("a post is answered within its deadline");
        if reply.status == 201 {
            self.ledger.acknowledged.lock().extend(rides);
        } else {
            self.ledger.refused.fetch_add(1, Ordering::Relaxed);
            let said = String::from_utf8_lossy(&reply.body);
            assert!(is_refused(&reply) && said.contains("\"accepted\":0,"), "{said}");
        }
    }
}

/// Whether a post was refused for certain; otherwise it may be stored.
fn is_refused(reply: &Reply) -> bool {
    let said = String::from_utf8_lossy(&reply.body);
    assert_eq!(reply.status, 503, "{said}");
    let after = reply.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(after.is_some(), "no Retry-After with {said}");
    !said.contains("outcome-unknown")
}
