//! The balancer between real sockets.

use std::net::SocketAddr;

use consort_testbed::{Balancer, Port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers each connection with its name, after it has heard one byte.
async fn backend(name: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if stream.read_u8().await.is_ok() {
                stream.write_u8(name).await.unwrap();
            }
        }
    });
    address
}

async fn ask(balancer: &Balancer) -> Option<u8> {
    let mut stream = TcpStream::connect(balancer.address()).await.unwrap();
    stream.write_u8(0).await.ok()?;
    stream.read_u8().await.ok()
}

#[tokio::test]
async fn connections_take_turns_among_backends_that_accept() {
    let balancer = Balancer::start().await;
    assert_eq!(ask(&balancer).await, None, "there is no backend");
    let (first, second, dead) = (backend(b'a').await, backend(b'b').await, Port::claim());
    balancer.add(first);
    balancer.add(second);
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(ask(&balancer).await.unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, *b"aabb");

    balancer.add(([127, 0, 0, 1], dead.number()).into());
    balancer.remove(first);
    for _ in 0..4 {
        assert_eq!(ask(&balancer).await, Some(b'b'), "the one that accepts");
    }
}
