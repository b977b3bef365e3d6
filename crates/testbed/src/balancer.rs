//! A plain balancer of TCP connections: round-robin, with no eye for what passes.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// How long a backend may take to accept. One on this machine that lives accepts at once, also while it is
/// paused: the kernel does that for it.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(1);

/// Gives each connection to the next backend that accepts it. A connection that finds none is closed.
/// Dropping it closes everything.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    ring: Arc<Mutex<Ring>>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Ring {
    backends: Vec<SocketAddr>,
    next: usize,
}

impl Balancer {
    /// Listens on a free port of 127.0.0.1, without backends yet.
    pub async fn start() -> Balancer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port of 127.0.0.1 is free");
        let address = listener.local_addr().expect("a listener has an address");
        let ring = Arc::default();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&ring)));
        Balancer { address, ring, accepting }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this backend gets its share of new connections.
    pub fn add(&self, backend: SocketAddr) {
        let mut ring = self.ring.lock().expect("no holder of this lock panics");
        if !ring.backends.contains(&backend) {
            ring.backends.push(backend);
        }
    }

    /// From now on it gets none; those that are open stay.
    pub fn remove(&self, backend: SocketAddr) {
        let mut ring = self.ring.lock().expect("no holder of this lock panics");
        ring.backends.retain(|known| *known != backend);
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Ring {
    /// All backends, beginning with the one whose turn it is.
    fn turn(&mut self) -> Vec<SocketAddr> {
        let mut order = self.backends.clone();
        if !order.is_empty() {
            let first = self.next % order.len();
            order.rotate_left(first);
            self.next = self.next.wrapping_add(1);
        }
        order
    }
}

async fn accept(listener: TcpListener, ring: Arc<Mutex<Ring>>) {
    // Aborting this task drops the set, and with it all connections.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((client, _)) = listener.accept() => {
                let order = ring.lock().expect("no holder of this lock panics").turn();
                connections.spawn(carry(client, order));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection to its end. What breaks it, both sides see for themselves.
async fn carry(mut client: TcpStream, order: Vec<SocketAddr>) {
    for backend in order {
        if let Ok(mut server) = connect(backend).await {
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}

async fn connect(backend: SocketAddr) -> io::Result<TcpStream> {
    tokio::time::timeout(ACCEPTED_WITHIN, TcpStream::connect(backend)).await?
}
