//! What the connections of one proxy share, and how one of them carries bytes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::proxy::Direction;

/// Bytes taken from a socket at once.
const CHUNK: usize = 16 * 1024;

/// Chunks under way in one direction of one connection. Past it the sender is not read, as if the
/// network were full.
const CHUNKS_UNDER_WAY: usize = 1024;

/// What one direction suffers from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fault {
    pub(crate) delay: Duration,
    pub(crate) swallow: bool,
}

/// The settings and counters of a proxy.
#[derive(Debug)]
pub(crate) struct Link {
    halves: [Half; 2],
    /// Counts the cuts: a connection ends when it changes.
    cuts: watch::Sender<u64>,
    refuse: AtomicBool,
    open: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Half {
    fault: watch::Sender<Fault>,
    /// The bytes that may pass before the cut.
    budget: Mutex<Option<u64>>,
    passed: AtomicU64,
}

/// A connection's hold on its link: it sees the cuts that come after it was made, and counts as
/// open while it lives.
#[derive(Debug)]
pub(crate) struct Attachment {
    cuts: watch::Receiver<u64>,
    open: Arc<AtomicUsize>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Link {
    pub(crate) fn new() -> Link {
        Link {
            halves: [Half::default(), Half::default()],
            cuts: watch::Sender::new(0),
            refuse: AtomicBool::new(false),
            open: Arc::new(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn set_fault(&self, direction: Direction, change: impl FnOnce(&mut Fault)) {
        self.half(direction).fault.send_modify(change);
    }

    pub(crate) fn set_budget(&self, direction: Direction, bytes: Option<u64>) {
        *self.half(direction).budget.lock().expect("no holder of this lock panics") = bytes;
    }

    pub(crate) fn passed(&self, direction: Direction) -> u64 {
        self.half(direction).passed.load(Ordering::SeqCst)
    }

    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(crate) fn refuse(&self, refuse: bool) {
        self.refuse.store(refuse, Ordering::SeqCst);
    }

    pub(crate) fn refuses(&self) -> bool {
        self.refuse.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub(crate) fn attach(&self) -> Attachment {
        self.open.fetch_add(1, Ordering::SeqCst);
        Attachment { cuts: self.cuts.subscribe(), open: self.open.clone() }
    }

    fn half(&self, direction: Direction) -> &Half {
        match direction {
            Direction::ToServer => &self.halves[0],
            Direction::ToClient => &self.halves[1],
        }
    }
}

/// Carries both directions until both have ended, one has failed, or the connection is cut.
pub(crate) async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    link: &Link,
    mut attachment: Attachment,
) {
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            tokio::try_join!(
                pump(link, Direction::ToServer, from_client, to_server),
                pump(link, Direction::ToClient, from_server, to_client),
            )
        };
        tokio::select! {
            biased;
            _ = attachment.cuts.changed() => false,
            ended = both => ended.is_ok(),
        }
    };
    if !ended {
        // Closing a socket that lingers for no time sends RST.
        let _ = client.set_zero_linger();
        let _ = server.set_zero_linger();
    }
    // The sockets are closed before the connection ceases to count as open.
    drop((client, server, attachment));
}

/// Carries one direction to its end. An error is a broken socket, or a connection that must be cut.
async fn pump(
    link: &Link,
    direction: Direction,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let half = link.half(direction);
    let (send, receive) = mpsc::channel(CHUNKS_UNDER_WAY);
    tokio::try_join!(take(half, from, send), hand_over(link, half, to, receive))?;
    Ok(())
}

/// Reads chunks and gives each the time at which it is to arrive. While bytes are swallowed, so is
/// the end of the stream.
async fn take(
    half: &Half,
    mut from: impl AsyncRead + Unpin,
    send: mpsc::Sender<(Instant, Vec<u8>)>,
) -> io::Result<()> {
    let mut faults = half.fault.subscribe();
    let mut lost = false;
    let mut ended = false;
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = tokio::select! {
            biased;
            _ = faults.changed() => None,
            read = from.read(&mut chunk), if !ended => Some(read),
        };
        let fault = *faults.borrow();
        match read {
            None if lost && !fault.swallow => return Err(io::ErrorKind::ConnectionReset.into()),
            None => {}
            Some(read) if fault.swallow => {
                lost = true;
                ended = !matches!(read, Ok(1..));
            }
            Some(Ok(0)) => return Ok(()),
            Some(Err(error)) => return Err(error),
            Some(Ok(size)) => {
                let under_way = (Instant::now() + fault.delay, chunk[..size].to_vec());
                send.send(under_way).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
            }
        }
    }
}

/// Writes each chunk when its time has come, within the budget of the direction, and passes the end
/// of the stream on.
async fn hand_over(
    link: &Link,
    half: &Half,
    mut to: impl AsyncWrite + Unpin,
    mut receive: mpsc::Receiver<(Instant, Vec<u8>)>,
) -> io::Result<()> {
    while let Some((arrival, chunk)) = receive.recv().await {
        tokio::time::sleep_until(arrival).await;
        let (size, cut) = half.spend(chunk.len());
        to.write_all(&chunk[..size]).await?;
        half.passed.fetch_add(size as u64, Ordering::SeqCst);
        if cut {
            link.cut();
            return Err(io::ErrorKind::ConnectionReset.into());
        }
    }
    to.shutdown().await
}

impl Half {
    /// How many of these bytes may pass, and whether the connections are to be cut after them.
    fn spend(&self, wanted: usize) -> (usize, bool) {
        let mut budget = self.budget.lock().expect("no holder of this lock panics");
        let Some(left) = *budget else { return (wanted, false) };
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(wanted);
        let rest = left - size as u64;
        *budget = (rest > 0).then_some(rest);
        (size, rest == 0)
    }
}
