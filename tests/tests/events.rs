//! The event data service end to end: the five well-known events and a generated hour, into two real
//! InfluxDBs, row for row, while nodes and databases are killed.

use std::time::Duration;

use consort_client::{Client, Connection, Method};
use consort_testbed::{RabbitOptions, RabbitServer, RedisOptions, RedisServer, eventually};
use consort_tests::events::crew::Crew;
use consort_tests::events::databases::Databases;
use consort_tests::events::lines::{Line, expected, well_known};
use consort_tests::lifts::servers::Engine;
use consort_tests::seed::seed;
use futures::FutureExt as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng, SeedableRng};
use tokio::net::UdpSocket;
use tokio::time::sleep;

const PROGRAM: &str = env!("CARGO_BIN_EXE_consort-under-test");

const PATIENCE: Duration = Duration::from_secs(60);

/// The generated hour: minutes, and events in each.
const MINUTES: i64 = 60;
const EACH_MINUTE: usize = 8_400;

/// Where it begins: 2016-12-04T18:00:00Z.
const HOUR: i64 = 1_480_874_400_000_000_000;

/// Lines of one request.
const BATCH: usize = 20_000;

/// How often a node is killed.
const KILLS: usize = 20;

async fn send(to: u16, lines: &[Line]) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    for line in lines {
        let text = line.text();
        socket.send_to(text.as_bytes(), ("127.0.0.1", to)).await.expect("a datagram is sent");
    }
}

fn embedded(crew: &Crew) -> Engine {
    Engine { url: format!("embedded:{}", crew.folder().join("data").display()), broker: None }
}

/// Three nodes on Redis and RabbitMQ.
async fn three_nodes(databases: &Databases) -> (Crew, (RedisServer, RabbitServer)) {
    let (redis, rabbit) = tokio::join!(
        RedisServer::start(RedisOptions::new()),
        RabbitServer::start(RabbitOptions::new())
    );
    let engine = Engine { url: redis.url(), broker: Some(rabbit.url()) };
    let mut crew = Crew::new(PROGRAM);
    for _ in 0..3 {
        crew.add(&engine, databases.urls()).await;
    }
    (crew, (redis, rabbit))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_comes_to_the_six_rows_whether_lines_come_once_or_twice() {
    let databases = Databases::start().await;
    let mut crew = Crew::new(PROGRAM);
    let engine = embedded(&crew);
    crew.add(&engine, databases.urls()).await;
    let lines = well_known();
    send(crew.udp(0), &lines).await;
    databases.come_to(&expected(&lines)).await;
    // The windows are closed by now: what comes again amends nothing.
    send(crew.udp(0), &lines).await;
    received(&crew, 0, 10).await;
    databases.come_to(&expected(&lines)).await;
    crew.comes_to_balance(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_come_to_the_six_rows_although_two_are_killed() {
    let databases = Databases::start().await;
    let (mut crew, _servers) = three_nodes(&databases).await;
    let relay = crew.relay().await;
    let lines = well_known();
    send(relay, &lines[..3]).await;
    received(&crew, 2, 9).await;
    // In the middle of the minute: what it has not appended dies with it, and the others have it.
    crew.kill(0).await;
    send(relay, &lines[3..]).await;
    received(&crew, 2, 13).await;
    // The first window that is not open any more: closers are at work.
    is_closing(&crew.address(2)).await;
    crew.kill(1).await;
    databases.come_to(&expected(&lines)).await;
    crew.comes_to_balance(2).await;
    for at in [0, 1] {
        crew.restart(at);
    }
    for at in [0, 1] {
        crew.is_ready(at).await;
    }
    send(relay, &lines).await;
    received(&crew, 2, 28).await;
    databases.come_to(&expected(&lines)).await;
    crew.comes_to_balance(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_hour_comes_to_an_independent_count_row_for_row() {
    let databases = Databases::start().await;
    let mut crew = Crew::new(PROGRAM);
    let engine = embedded(&crew);
    crew.add(&engine, databases.urls()).await;
    an_hour_comes_to_its_count(crew, databases, seed("hour")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_hour_on_three_nodes_comes_to_an_independent_count_row_for_row() {
    let databases = Databases::start().await;
    let (crew, _servers) = three_nodes(&databases).await;
    an_hour_comes_to_its_count(crew, databases, seed("hour of three")).await;
}

/// Sends an hour of lines to the nodes, kills those that take them at random moments, and restarts both databases.
async fn an_hour_comes_to_its_count(mut crew: Crew, mut databases: Databases, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let lines = hour(&mut random);
    let sent = disordered(&lines, &mut random);
    let batches: Vec<&[Line]> = sent.chunks(BATCH).collect();
    let mut kills: Vec<usize> = (0..KILLS).map(|_| random.random_range(1..batches.len())).collect();
    kills.sort_unstable();
    let restarts = [batches.len() / 3, batches.len() * 2 / 3];
    let nodes = crew.members.len();
    for (at, batch) in batches.iter().enumerate() {
        let body: Vec<String> = batch.iter().map(Line::text).collect();
        let first = random.random_range(0..nodes);
        let addresses = (0..nodes).map(|next| crew.address((first + next) % nodes)).collect();
        let mut posting = post(addresses, body.join("\n")).boxed();
        for _ in kills.iter().filter(|kill| **kill == at) {
            // In the middle of the request, or of what it began: on the node that takes it, or on another.
            let begun = sleep(Duration::from_millis(random.random_range(0..150)));
            tokio::select! {
                () = &mut posting => posting = std::future::ready(()).boxed(),
                () = begun => {}
            }
            let killed = (first + random.random_range(0..2)) % nodes;
            crew.kill(killed).await;
            crew.restart(killed);
        }
        posting.await;
        if let Some(which) = restarts.iter().position(|restart| *restart == at) {
            databases.0[which].restart().await;
        }
    }
    for node in 0..nodes {
        crew.is_ready(node).await;
    }
    databases.come_to(&expected(&lines)).await;
    for node in 0..nodes {
        crew.comes_to_balance(node).await;
    }
    let counts = crew.counts(0).await;
    eprintln!("{} lines sent, {} batches: {counts:?}", sent.len(), batches.len());
}

/// Posts lines until they are accepted, by one node or the next: after a kill nobody knows whether they were, and a
/// repeat changes nothing.
async fn post(addresses: Vec<String>, body: String) {
    for address in addresses.iter().cycle().take(600) {
        let client = Client::new(address, None).expect("an address");
        let mut connection = Connection::new(client, PATIENCE);
        let sent = connection.send(Method::POST, "/write?db=events", &[], body.clone()).await;
        match sent {
            Ok(reply) if reply.status == 204 => return,
            Ok(reply) if reply.status == 503 => {}
            Ok(reply) => panic!("{}: {}", reply.status, String::from_utf8_lossy(&reply.body)),
            Err(_) => {}
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("lines were not accepted in a minute");
}

/// The events of an hour: users that come back, and some at the very same moments.
fn hour(random: &mut StdRng) -> Vec<Line> {
    let mut lines = Vec::new();
    for minute in 0..MINUTES {
        for _ in 0..EACH_MINUTE {
            lines.push(Line {
                event_type: format!("type-{}", random.random_range(0..4)),
                product: format!("product-{}", random.random_range(0..3)),
                user: format!("user-{}", random.random_range(0..2_000)),
                time: HOUR + minute * 60_000_000_000 + random.random_range(0..60_000_000_000),
            });
        }
    }
    lines
}

/// The same in another order, some of them twice and some of them much later.
fn disordered(lines: &[Line], random: &mut StdRng) -> Vec<Line> {
    let mut placed: Vec<(usize, &Line)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let late = if random.random_range(0..50) == 0 { 10 * EACH_MINUTE } else { EACH_MINUTE / 2 };
        placed.push((at + random.random_range(0..late), line));
        if random.random_range(0..10) == 0 {
            placed.push((at + random.random_range(0..late), line));
        }
    }
    placed.shuffle(random);
    placed.sort_by_key(|(at, _)| *at);
    placed.into_iter().map(|(_, line)| line.clone()).collect()
}

/// Waits until a view has received so many lines, as a node tells.
async fn received(crew: &Crew, at: usize, wanted: i64) {
    eventually("all lines are received", PATIENCE, || async {
        let counts = crew.counts(at).await;
        counts[&("unique_user_event".to_owned(), "received".to_owned())] >= wanted
    })
    .await;
}

/// Waits until a window of a view is not open any more.
async fn is_closing(address: &str) {
    eventually("a window closes", PATIENCE, || async {
        let client = Client::new(address, None).expect("an address");
        let mut connection = Connection::new(client, PATIENCE);
        let reply = connection.send(Method::GET, "/views/unique_user_event", &[], "").await;
        let text = reply.map(|reply| String::from_utf8_lossy(&reply.body).into_owned());
        text.is_ok_and(|text| text.contains("\"clos"))
    })
    .await;
}
