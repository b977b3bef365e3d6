//! The proxy: what clients and servers see of each fault.

use std::io;
use std::time::{Duration, Instant};

use consort_testbed::{Direction, Proxy, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// For what must happen.
const SOON: Duration = Duration::from_secs(10);

/// For what must not happen: long enough to be seen on loopback if it did.
const AWHILE: Duration = Duration::from_millis(150);

/// A client's and a server's end of one connection through the proxy.
struct Pair {
    client: TcpStream,
    server: TcpStream,
}

struct Bed {
    listener: TcpListener,
    proxy: Proxy,
}

impl Bed {
    async fn new() -> Bed {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await;
        Bed { listener, proxy }
    }

    async fn pair(&self) -> Pair {
        let client = TcpStream::connect(self.proxy.address()).await.unwrap();
        let (server, _) =
            tokio::time::timeout(SOON, self.listener.accept()).await.unwrap().unwrap();
        Pair { client, server }
    }
}

async fn passes(from: &mut TcpStream, to: &mut TcpStream, payload: &[u8]) {
    from.write_all(payload).await.unwrap();
    let mut read = vec![0; payload.len()];
    tokio::time::timeout(SOON, to.read_exact(&mut read)).await.unwrap().unwrap();
    assert_eq!(read, payload);
}

async fn is_silent(stream: &mut TcpStream) {
    let read = tokio::time::timeout(AWHILE, stream.read_u8()).await;
    assert!(read.is_err(), "read {read:?} where nothing should come");
}

async fn is_reset(stream: &mut TcpStream) {
    let read = tokio::time::timeout(SOON, stream.read_u8()).await.expect("an end is seen");
    assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn bytes_pass_both_ways_and_are_counted() {
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    passes(&mut pair.client, &mut pair.server, b"question").await;
    passes(&mut pair.server, &mut pair.client, b"long answer").await;
    eventually("the bytes are counted", SOON, || async {
        bed.proxy.passed(Direction::ToServer) == 8 && bed.proxy.passed(Direction::ToClient) == 11
    })
    .await;
    assert_eq!(bed.proxy.connections(), 1);
}

#[tokio::test]
async fn the_end_of_one_direction_is_passed_on_and_the_other_lives() {
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    pair.client.write_all(b"last words").await.unwrap();
    pair.client.shutdown().await.unwrap();
    let mut read = Vec::new();
    tokio::time::timeout(SOON, pair.server.read_to_end(&mut read)).await.unwrap().unwrap();
    assert_eq!(read, b"last words");
    passes(&mut pair.server, &mut pair.client, b"answer").await;
    drop(pair);
    eventually("the connection is closed", SOON, || async { bed.proxy.connections() == 0 }).await;
}

#[tokio::test]
async fn a_delay_is_a_longer_way_not_a_narrower_one() {
    const PIECES: u32 = 100;
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    let delay = Duration::from_millis(200);
    bed.proxy.delay(Direction::ToServer, delay);
    // Were each piece held up in turn, all of them would take as many delays.
    let sent = Instant::now();
    for _ in 0..PIECES {
        pair.client.write_all(b"piece").await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut read = [0; 5 * PIECES as usize];
    tokio::time::timeout(SOON, pair.server.read_exact(&mut read)).await.unwrap().unwrap();
    let took = sent.elapsed();
    assert!(took >= delay, "took {took:?}");
    assert!(took < delay * PIECES, "took {took:?}");

    passes(&mut pair.server, &mut pair.client, b"the other way passes too").await;
    bed.proxy.pass(Direction::ToServer);
    let sent = Instant::now();
    passes(&mut pair.client, &mut pair.server, b"nor is this one any more").await;
    assert!(sent.elapsed() < delay);
}

#[tokio::test]
async fn swallowed_bytes_never_arrive_and_the_connection_stays_open() {
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    bed.proxy.swallow(Direction::ToServer);
    pair.client.write_all(b"lost").await.unwrap();
    is_silent(&mut pair.server).await;
    passes(&mut pair.server, &mut pair.client, b"the other way is open").await;
    assert_eq!(bed.proxy.passed(Direction::ToServer), 0);

    bed.proxy.heal();
    is_reset(&mut pair.client).await;
    is_reset(&mut pair.server).await;
    let mut pair = bed.pair().await;
    passes(&mut pair.client, &mut pair.server, b"arrives").await;
}

#[tokio::test]
async fn the_end_of_a_connection_is_swallowed_too() {
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    bed.proxy.swallow(Direction::ToServer);
    pair.client.shutdown().await.unwrap();
    is_silent(&mut pair.server).await;
    bed.proxy.pass(Direction::ToServer);
    is_reset(&mut pair.server).await;
}

#[tokio::test]
async fn a_connection_that_lost_nothing_survives_the_healing() {
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    bed.proxy.swallow(Direction::ToServer);
    bed.proxy.swallow(Direction::ToClient);
    bed.proxy.heal();
    passes(&mut pair.client, &mut pair.server, b"question").await;
    passes(&mut pair.server, &mut pair.client, b"answer").await;
}

#[tokio::test]
async fn a_cut_resets_what_is_open_and_nothing_later() {
    let bed = Bed::new().await;
    let mut first = bed.pair().await;
    let mut second = bed.pair().await;
    bed.proxy.cut();
    for stream in [&mut first.client, &mut first.server, &mut second.client, &mut second.server] {
        is_reset(stream).await;
    }
    eventually("all are closed", SOON, || async { bed.proxy.connections() == 0 }).await;
    let mut third = bed.pair().await;
    passes(&mut third.client, &mut third.server, b"arrives").await;
}

#[tokio::test]
async fn a_cut_after_some_bytes_lets_exactly_those_through() {
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    passes(&mut pair.client, &mut pair.server, b"before").await;
    bed.proxy.cut_after(Direction::ToServer, 7);
    passes(&mut pair.client, &mut pair.server, b"1234").await;
    pair.client.write_all(b"56789").await.unwrap();
    let mut read = [0; 3];
    tokio::time::timeout(SOON, pair.server.read_exact(&mut read)).await.unwrap().unwrap();
    assert_eq!(&read, b"567");
    is_reset(&mut pair.server).await;
    is_reset(&mut pair.client).await;
    assert_eq!(bed.proxy.passed(Direction::ToServer), 13);

    let mut pair = bed.pair().await;
    passes(&mut pair.client, &mut pair.server, b"the cut comes once").await;
}

#[tokio::test]
async fn refusing_leaves_open_connections_alone() {
    let bed = Bed::new().await;
    let mut pair = bed.pair().await;
    bed.proxy.refuse(true);
    let refused = match TcpStream::connect(bed.proxy.address()).await {
        Ok(mut stream) => {
            tokio::time::timeout(SOON, stream.read_u8()).await.expect("an end is seen").is_err()
        }
        Err(_) => true,
    };
    assert!(refused);
    passes(&mut pair.client, &mut pair.server, b"arrives").await;
    bed.proxy.heal();
    let mut pair = bed.pair().await;
    passes(&mut pair.client, &mut pair.server, b"arrives").await;
}

#[tokio::test]
async fn a_target_that_is_away_is_a_reset() {
    let bed = Bed::new().await;
    drop(bed.listener);
    let mut client = TcpStream::connect(bed.proxy.address()).await.unwrap();
    is_reset(&mut client).await;
}

#[tokio::test]
async fn a_dropped_proxy_closes_everything() {
    let Bed { listener, proxy } = Bed::new().await;
    let address = proxy.address();
    let mut client = TcpStream::connect(address).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    drop(proxy);
    for stream in [&mut client, &mut server] {
        let read = tokio::time::timeout(SOON, stream.read(&mut [0])).await.expect("an end is seen");
        assert!(matches!(read, Ok(0) | Err(_)));
    }
    eventually("new connections are refused", SOON, || async {
        TcpStream::connect(address).await.is_err()
    })
    .await;
}
