//! The Redis engine while its server is restarted, stopped, cut off, full or unsafe.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use consort_engines::redis::{self as engine, RedisLog, RedisStore};
use consort_engines::{OpenError, Options};
use consort_kernel::{
    AppendError, Cell, Commit, CommitError, Cursor, Expect, Fault, Frame, FrameKind, Key, Kind,
    Log, Most, Name, Note, Operation, Partition, Producer, ReadError, Shard, Store, Timestamp,
    Value,
};
use consort_testbed::{
    Direction, Fsync, Proxy, RedisCluster, RedisOptions, RedisServer, Tls, eventually,
};
use futures::future::join_all;

const NAMESPACE: &str = "faults";
const SHARD: Shard = Shard(0);
const PATIENCE: Duration = Duration::from_secs(60);

async fn open(url: &str) -> (RedisLog, RedisStore) {
    let (log, store, _) = try_open(url, None).await.expect("redis opens");
    (log, store)
}

async fn try_open(
    url: &str,
    tls_ca: Option<&Path>,
) -> Result<(RedisLog, RedisStore, Vec<String>), OpenError> {
    engine::open(url, NAMESPACE, 2, false, tls_ca).await
}

fn partition() -> Partition {
    Partition::new(Name::new("orders").expect("a name"), 0)
}

fn frame(sequence: u64) -> Frame {
    Frame {
        kind: FrameKind::Events,
        producer: Producer(1),
        sequence,
        time: Timestamp(1),
        records: vec![Bytes::from(sequence.to_string())].into(),
    }
}

fn key() -> Key {
    Key::from(["number"])
}

/// A commit that moves the number on by one and notes it in a feed: all or nothing.
fn step(from: u64) -> Commit {
    let text = |n: u64| Bytes::from(n.to_string());
    let feed = Name::new("steps").expect("a name");
    Commit::of([
        Operation::Put { key: key(), value: text(from + 1) },
        Operation::Append(Note { feed, entry: text(from + 1) }),
        Operation::Add { key: key(), by: 1, on_overflow: None },
    ])
    .expecting(Expect::Bytes(key(), (from > 0).then(|| text(from))))
}

/// Appends and commits until told to stop, settling what ends unknown as the contract says. Answers the
/// last sequence and the last number that were acknowledged.
async fn work(log: RedisLog, store: RedisStore, stop: Arc<AtomicBool>) -> (u64, u64) {
    let (mut sequence, mut number) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        // Retried until it is acknowledged: a repeat is harmless.
        match log.append(&partition(), &frame(sequence + 1)).await {
            Ok(()) => sequence += 1,
            Err(AppendError::Unknown(fault) | AppendError::Engine(fault)) => {
                assert!(fault.retryable(), "{fault}");
            }
            Err(error) => panic!("{error}"),
        }
        match store.commit(SHARD, step(number)).await {
            Ok(_) => number += 1,
            // It was applied, although the answer was lost.
            Err(CommitError::Stale(present)) => {
                let applied = Value::Bytes((number + 1).to_string().into());
                assert_eq!(present, [Some(applied)], "the number moved by itself");
                number += 1;
            }
            Err(CommitError::Unknown(fault) | CommitError::Engine(fault)) => {
                assert!(fault.retryable(), "{fault}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    (sequence, number)
}

/// Every acknowledged append and commit is there, in order, none half applied, none twice.
async fn verify(log: &RedisLog, store: &RedisStore, sequence: u64, number: u64) {
    let mut cursor = Cursor::START;
    let mut sequences = Vec::new();
    loop {
        let page = log.read(&partition(), &cursor, Most::default(), Duration::ZERO).await;
        let page = page.expect("read");
        let Some(last) = page.last() else { break };
        cursor = last.cursor();
        sequences.extend(page.iter().map(|entry| entry.frame.sequence));
    }
    assert!(sequences.is_sorted(), "a repeat may stand beside its first, and nothing else");
    sequences.dedup();
    assert!(sequences.starts_with(&(1..=sequence).collect::<Vec<_>>()), "acknowledged frames");

    let cells = [Cell::new(Kind::Bytes, key()), Cell::new(Kind::Counter, key())];
    let held = store.get(SHARD, &cells).await.expect("get");
    let [Some(Value::Bytes(text)), Some(Value::Counter(count))] = &held[..] else {
        panic!("{held:?}");
    };
    let reached: u64 = std::str::from_utf8(text).expect("text").parse().expect("a number");
    assert!(reached == number || reached == number + 1, "{reached} of {number}");
    assert_eq!(*count, reached as i64, "a commit was half applied or applied twice");
    let feed = Name::new("steps").expect("a name");
    let mut cursor = Cursor::START;
    loop {
        let page = store.feed(SHARD, &feed, &cursor, Most::default(), Duration::ZERO).await;
        let page = page.expect("feed");
        let Some(last) = page.last() else { break };
        cursor = last.cursor();
        for entry in page {
            assert_eq!(entry.entry, (entry.number + 1).to_string());
        }
    }
    assert_eq!(cursor.next, reached, "the feed has one entry for each commit");
}

async fn progress(store: &RedisStore) -> i64 {
    match store.get(SHARD, &[Cell::new(Kind::Counter, key())]).await.as_deref() {
        Ok([Some(Value::Counter(count))]) => *count,
        _ => -1,
    }
}

/// Waits until the worker has done some more.
async fn moves_on(store: &RedisStore) {
    let before = eventually("an answer", PATIENCE, || async {
        let now = progress(store).await;
        (now >= 0).then_some(now)
    })
    .await;
    eventually("work goes on", PATIENCE, || async { progress(store).await > before + 20 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_missing_after_restarts() {
    let mut server = RedisServer::start(RedisOptions::new().fsync(Fsync::Always)).await;
    let (log, store) = open(&server.url()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let worker = tokio::spawn(work(log.clone(), store.clone(), stop.clone()));
    for round in 0..6 {
        moves_on(&store).await;
        if round % 2 == 0 {
            server.kill().await;
        }
        server.restart().await;
    }
    moves_on(&store).await;
    stop.store(true, Ordering::Relaxed);
    let (sequence, number) = worker.await.expect("the worker");
    verify(&log, &store, sequence, number).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_missing_after_cuts_and_silence() {
    let server = RedisServer::start(RedisOptions::new()).await;
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).await;
    let (log, store) = open(&format!("redis://{}", proxy.address())).await;
    let stop = Arc::new(AtomicBool::new(false));
    let worker = tokio::spawn(work(log.clone(), store.clone(), stop.clone()));
    for round in 0..8u64 {
        moves_on(&store).await;
        match round % 4 {
            0 => proxy.cut(),
            1 => proxy.cut_after(Direction::ToServer, 100 + round),
            2 => proxy.cut_after(Direction::ToClient, 10 + round),
            // Answers vanish: calls must end by their time-out, and the connection be given up.
            _ => {
                proxy.swallow(Direction::ToClient);
                let end = store.commit(Shard(1), Commit::of([])).await;
                assert!(matches!(end, Err(CommitError::Unknown(Fault::Retryable(_)))), "{end:?}");
                proxy.heal();
            }
        }
    }
    moves_on(&store).await;
    stop.store(true, Ordering::Relaxed);
    let (sequence, number) = worker.await.expect("the worker");
    verify(&log, &store, sequence, number).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_is_waited_out() {
    let mut server = RedisServer::start(RedisOptions::new()).await;
    let (log, store) = open(&server.url()).await;
    log.append(&partition(), &frame(1)).await.expect("append");
    server.pause();
    let end = log.append(&partition(), &frame(2)).await;
    assert!(matches!(end, Err(AppendError::Unknown(Fault::Retryable(_)))), "{end:?}");
    assert!(store.ping().await.is_err());
    server.resume();
    eventually("it answers", PATIENCE, || async { store.ping().await.is_ok() }).await;
    log.append(&partition(), &frame(2)).await.expect("the repeat");
}

#[tokio::test]
async fn leases_and_the_clock_do_not_stand_in_line_behind_bulk_commits() {
    const BULK: usize = 500;
    let mut server = RedisServer::start(RedisOptions::new()).await;
    let (_, store) = open(&server.url()).await;
    let done = AtomicUsize::new(0);
    let bulk = (0..BULK).map(async |_| {
        let add = Operation::Add { key: key(), by: 1, on_overflow: None };
        store.commit(SHARD, Commit::of([add])).await.expect("commits");
        done.fetch_add(1, Ordering::Relaxed);
    });
    let urgent = async {
        let put = Operation::Put { key: key(), value: Bytes::new() };
        store.commit(SHARD, Commit::of([put]).urgent()).await.expect("commits");
        store.now().await.expect("tells the time");
        done.load(Ordering::Relaxed)
    };
    // All are asked for while the server stands still, the bulk first.
    server.pause();
    let (_, before, ()) = tokio::join!(join_all(bulk), urgent, async { server.resume() });
    assert!(before < BULK / 2, "{before} bulk commits came before the urgent one");
    assert_eq!(done.into_inner(), BULK);
}

#[tokio::test]
async fn leases_do_not_stand_in_line_behind_appends() {
    const APPENDS: usize = 300;
    let mut server = RedisServer::start(RedisOptions::new()).await;
    let (log, store) = open(&server.url()).await;
    let leases = store.for_leases();
    leases.now().await.expect("connects");
    let done = AtomicUsize::new(0);
    let large = Frame { records: vec![Bytes::from(vec![7; 256 * 1024])].into(), ..frame(1) };
    let appends = (0..APPENDS).map(async |_| {
        log.append(&partition(), &large).await.expect("appends");
        done.fetch_add(1, Ordering::Relaxed);
    });
    let renewal = async {
        let put = Operation::Put { key: key(), value: Bytes::new() };
        let renew = async || {
            leases.now().await.is_ok()
                && leases.commit(SHARD, Commit::of([put.clone()]).urgent()).await.is_ok()
        };
        // A server that stands still for long loses its connection, and gets another one.
        while !renew().await {}
        done.load(Ordering::Relaxed)
    };
    // All are asked for while the server stands still, the appends first.
    server.pause();
    let (_, before, ()) = tokio::join!(join_all(appends), renewal, async { server.resume() });
    assert!(before < APPENDS / 2, "{before} appends came before the lease");
    assert_eq!(done.into_inner(), APPENDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_given_up_sooner_if_it_is_the_one_of_leases() {
    let server = RedisServer::start(RedisOptions::new()).await;
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).await;
    let (_, store) = open(&format!("redis://{}", proxy.address())).await;
    let leases = store.for_leases();
    leases.now().await.expect("connects");
    proxy.swallow(Direction::ToClient);
    // A node's loop waits for no call longer than its leases last, and a call that it lets go of gives nothing up.
    tokio::select! {
        biased;
        answer = leases.now() => assert!(matches!(answer, Err(Fault::Retryable(_))), "{answer:?}"),
        answer = store.now() => panic!("the other connection comes first: {answer:?}"),
    }
    proxy.heal();
    eventually("it connects anew", PATIENCE, || async { leases.now().await.is_ok() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_out_of_reach_is_a_retryable_failure() {
    let mut server = RedisServer::start(RedisOptions::new()).await;
    let (log, store) = open(&server.url()).await;
    server.kill().await;
    eventually("the loss is noticed", PATIENCE, || async {
        let append = log.append(&partition(), &frame(1)).await;
        matches!(append, Err(AppendError::Engine(Fault::Retryable(_))))
    })
    .await;
    let commit = store.commit(SHARD, Commit::of([])).await;
    assert!(matches!(commit, Err(CommitError::Engine(Fault::Retryable(_)))), "{commit:?}");
    let text = format!("{commit:?}");
    assert!(text.contains("redis at redis://127.0.0.1"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_data_is_noticed_by_every_cursor() {
    let mut server = RedisServer::start(RedisOptions::new()).await;
    let (log, store) = open(&server.url()).await;
    for n in 1..4 {
        log.append(&partition(), &frame(n)).await.expect("append");
        store.commit(SHARD, step(n - 1)).await.expect("commit");
    }
    let read = log.read(&partition(), &Cursor::START, Most::default(), Duration::ZERO).await;
    let log_cursor = read.expect("read")[2].cursor();
    let feed = Name::new("steps").expect("a name");
    let read = store.feed(SHARD, &feed, &Cursor::START, Most::default(), Duration::ZERO).await;
    let feed_cursor = read.expect("feed")[2].cursor();

    server.restart_empty().await;
    eventually("it answers", PATIENCE, || async { log.ping().await.is_ok() }).await;
    let lost = log.read(&partition(), &log_cursor, Most::default(), Duration::ZERO).await;
    assert!(matches!(lost, Err(ReadError::Lost { number: 2, .. })), "{lost:?}");
    let lost = store.feed(SHARD, &feed, &feed_cursor, Most::default(), Duration::ZERO).await;
    assert!(matches!(lost, Err(ReadError::Lost { number: 2, .. })), "{lost:?}");
    for n in 1..9 {
        log.append(&partition(), &frame(100 + n)).await.expect("append");
    }
    let lost = log.read(&partition(), &log_cursor, Most::default(), Duration::ZERO).await;
    assert!(matches!(lost, Err(ReadError::Lost { found: Some(_), .. })), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_whole_commits_and_takes_them_when_there_is_room() {
    let options = RedisOptions::new().maxmemory("24mb").maxmemory_policy("noeviction");
    let server = RedisServer::start(options).await;
    let (log, store) = open(&server.url()).await;
    let filler = |n: u64| Operation::Put {
        key: Key::from(["filler"]).with(n),
        value: Bytes::from(vec![n as u8; 500_000]),
    };
    let mut held = 0;
    let refused = loop {
        let add = Operation::Add { key: key(), by: 1, on_overflow: None };
        match store.commit(SHARD, Commit::of([add, filler(held)])).await {
            Ok(_) => held += 1,
            Err(error) => break error,
        }
        assert!(held < 1_000, "the server is never full");
    };
    let CommitError::Engine(Fault::Retryable(reason)) = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("raise maxmemory"), "{reason}");
    let mut large = frame(1);
    large.records = vec![Bytes::from(vec![7; 100_000])].into();
    let full = loop {
        if let Err(error) = log.append(&partition(), &large).await {
            break error;
        }
        large.sequence += 1;
        assert!(large.sequence < 1_000, "the server is never full");
    };
    assert!(matches!(full, AppendError::Engine(Fault::Retryable(_))), "{full:?}");
    assert_eq!(progress(&store).await, held as i64, "reads go on, and nothing is half applied");

    let reply = server.call(&["CONFIG", "SET", "maxmemory", "64mb"]).await.expect("CONFIG SET");
    assert_eq!(reply.text(), Some("OK"));
    store.commit(SHARD, Commit::of([filler(held)])).await.expect("there is room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsafe_server_is_refused_unless_allowed() {
    let volatile = RedisServer::start(RedisOptions::new().volatile()).await;
    let evicting = RedisServer::start(RedisOptions::new().maxmemory_policy("allkeys-lru")).await;
    for (server, fix) in [(&volatile, "appendonly to 'yes'"), (&evicting, "'noeviction'")] {
        let mut options = options(&server.url());
        let error = consort_engines::open(&options).await.expect_err("unsafe").to_string();
        assert!(error.contains(fix) && error.contains("allow_volatile = true"), "{error}");
        options.allow_volatile = true;
        let engine = consort_engines::open(&options).await.expect("allowed");
        assert!(engine.report[0].contains("ALLOWED ALTHOUGH UNSAFE"), "{:?}", engine.report);
    }
    for (fsync, says) in
        [(Fsync::Always, "every acknowledged write"), (Fsync::Everysec, "a second")]
    {
        let server = RedisServer::start(RedisOptions::new().fsync(fsync)).await;
        let engine = consort_engines::open(&options(&server.url())).await.expect("safe");
        assert!(engine.report[0].contains(says), "{:?}", engine.report);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_may_not_be_read_are_said_to_be_unchecked() {
    let server = RedisServer::start(RedisOptions::new().volatile()).await;
    let user = ["ACL", "SETUSER", "app", "on", ">hush-hush", "~*", "&*", "+@all", "-config"];
    assert_eq!(server.call(&user).await.expect("ACL").text(), Some("OK"));
    let url = server.url().replace("redis://", "redis://app:hush-hush@");
    let engine = consort_engines::open(&options(&url)).await.expect("it opens");
    assert!(engine.report[0].contains("was not checked"), "{:?}", engine.report);
    assert!(!format!("{engine:?} {:?}", options(&url)).contains("hush-hush"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_open_and_are_never_printed() {
    let server = RedisServer::start(RedisOptions::new().password("hush-hush")).await;
    let (log, store) = open(&server.url()).await;
    log.append(&partition(), &frame(1)).await.expect("append");
    assert!(!format!("{log:?} {store:?}").contains("hush-hush"));
    let wrong = server.url().replace("hush-hush", "wrong-one");
    let error = try_open(&wrong, None).await.expect_err("a wrong password").to_string();
    assert!(error.contains("password") && !error.contains("wrong-one"), "{error}");
    let none = format!("redis://127.0.0.1:{}", server.port());
    let error = try_open(&none, None).await.expect_err("no password").to_string();
    assert!(error.contains("NOAUTH") || error.contains("password"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_needs_an_authority_that_vouches_for_the_server() {
    let (tls, other) = (Tls::new(), Tls::new());
    let server = RedisServer::start(RedisOptions::new().tls(&tls)).await;
    let url = server.url();
    assert!(url.starts_with("rediss://"), "{url}");
    let (log, store, _) = try_open(&url, Some(&tls.ca())).await.expect("a known authority");
    log.append(&partition(), &frame(1)).await.expect("append");
    let read = log.read(&partition(), &Cursor::START, Most::default(), PATIENCE).await;
    assert_eq!(read.map(|page| page.len()), Ok(1));
    store.ping().await.expect("ping");
    let error = try_open(&url, Some(&other.ca())).await.expect_err("another authority").to_string();
    assert!(error.contains("certificate"), "{error}");
    let missing = Path::new("/no/such/file.pem");
    let error = try_open(&url, Some(missing)).await.expect_err("no file").to_string();
    assert!(error.contains("/no/such/file.pem"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_survives_a_moved_slot_and_a_restarted_master() {
    let mut cluster = RedisCluster::start(RedisOptions::new().fsync(Fsync::Always)).await;
    let (log, store) = open(&cluster.url()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let worker = tokio::spawn(work(log.clone(), store.clone(), stop.clone()));
    let root = format!("consort:{{{NAMESPACE}:shard:0}}");
    let slot = cluster.nodes()[0].call(&["CLUSTER", "KEYSLOT", &root]).await.expect("a slot");
    let slot = u16::try_from(slot.integer().expect("a number")).expect("a slot");
    for _ in 0..2 {
        moves_on(&store).await;
        let to = (cluster.owner(slot).await + 1) % 3;
        cluster.move_slot(slot, to).await;
        moves_on(&store).await;
        let owner = cluster.owner(slot).await;
        cluster.node(owner).kill().await;
        cluster.node(owner).restart().await;
        cluster.settled().await;
    }
    moves_on(&store).await;
    stop.store(true, Ordering::Relaxed);
    let (sequence, number) = worker.await.expect("the worker");
    verify(&log, &store, sequence, number).await;
}

fn options(url: &str) -> Options {
    Options {
        url: url.to_string(),
        broker: None,
        namespace: NAMESPACE.to_string(),
        shards: 2,
        durability: Default::default(),
        allow_volatile: false,
        tls_ca: None,
    }
}
