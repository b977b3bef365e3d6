//! A TCP proxy that can be told to be a bad network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::proxy_link::{Fault, Link, carry};

/// One of the two ways through a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// What the client sends.
    ToServer,
    /// What the server sends.
    ToClient,
}

/// Passes connections on to one address, faithfully until told otherwise. Every setting takes
/// effect at once, on connections that are open too. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    link: Arc<Link>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// The port is the kernel's choice and kept for as long as the proxy lives, so no race can be
    /// lost for it.
    pub async fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of 127.0.0.1 is free");
        let address = listener.local_addr().expect("a listener has an address");
        let link = Arc::new(Link::new());
        let accepting = tokio::spawn(accept(listener, target, link.clone()));
        Proxy { address, link, accepting }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets every byte of that direction arrive this much later. It is a longer way, not a narrower
    /// one: nothing waits for the bytes before it, and order is kept. Zero ends it.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.link.set_fault(direction, |fault| fault.delay = delay);
    }

    /// Reads what is sent in that direction and drops it; the connection stays open.
    pub fn swallow(&self, direction: Direction) {
        self.link.set_fault(direction, |fault| fault.swallow = true);
    }

    /// Ends delay, swallowing and a pending `cut_after` of that direction.
    ///
    /// A connection that lost bytes is cut: TCP never shows its user a gap, and neither does this
    /// proxy.
    pub fn pass(&self, direction: Direction) {
        self.link.set_budget(direction, None);
        self.link.set_fault(direction, |fault| *fault = Fault::default());
    }

    /// Passes both directions, and accepts connections again.
    pub fn heal(&self) {
        self.refuse(false);
        self.pass(Direction::ToServer);
        self.pass(Direction::ToClient);
    }

    /// Resets all connections that are open now, on both sides (RST). New ones are accepted.
    pub fn cut(&self) {
        self.link.cut();
    }

    /// Lets exactly this many more bytes through in that direction, over all connections together,
    /// and then cuts as [`cut`](Self::cut) does, once.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.link.set_budget(direction, Some(bytes));
    }

    /// Whether new connections are reset at once. Open ones are left alone.
    pub fn refuse(&self, refuse: bool) {
        self.link.refuse(refuse);
    }

    /// The bytes handed over in that direction so far, over all connections.
    pub fn passed(&self, direction: Direction) -> u64 {
        self.link.passed(direction)
    }

    /// The connections that are open now.
    pub fn connections(&self) -> usize {
        self.link.open()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its connections are tasks of a set that it owns, and end with it.
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, link: Arc<Link>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        if link.refuses() {
            let _ = client.set_zero_linger();
            continue;
        }
        // Counted and subject to cuts from here on, not from when the task first runs.
        let attachment = link.attach();
        let link = link.clone();
        connections.spawn(async move {
            match TcpStream::connect(target).await {
                Ok(server) => carry(client, server, &link, attachment).await,
                Err(_) => drop(client.set_zero_linger()),
            }
        });
    }
}
