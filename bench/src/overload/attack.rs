//! Sixteen clients that send bodies which cost much more to take than to send, one after another.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use consort_client::{Connection, Method};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::task::JoinSet;

use super::node::Node;

/// Clients of each kind.
const CLIENTS: usize = 8;
/// Line breaks in a body of gzip.
const LINE_BREAKS: usize = 128 << 20;
/// Zeros in a list: 7.8 MB of them, which is as much as a node takes.
const ZEROS: usize = 3_900_000;

/// An attack that goes on as long as this value.
#[derive(Debug)]
pub(super) struct Attack {
    clients: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    refused: AtomicU64,
}

/// How the bodies were answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    /// They were read to the end, or as far as they may be.
    pub(super) taken: u64,
    /// There was no room for them.
    pub(super) refused: u64,
}

impl Attack {
    /// Begins; all bodies are under way when this returns.
    pub(super) async fn begin(node: &Node) -> Result<Attack> {
        let (bomb, zeros) = tokio::task::spawn_blocking(|| (bomb(), zeros())).await?;
        let (bomb, zeros) = (bomb?, zeros);
        ensure!(bomb.len() < 140_000, "the gzip has {} bytes", bomb.len());
        let (counts, mut clients) = (Arc::new(Counts::default()), JoinSet::new());
        for _ in 0..CLIENTS {
            let (bomb, zeros) = (bomb.clone(), zeros.clone());
            let gzip: &[_] = &[("content-encoding", "gzip")];
            clients.spawn(send(node.connection(), "/write?db=lines", gzip, bomb, counts.clone()));
            clients.spawn(send(node.connection(), "/streams/rides", &[], zeros, counts.clone()));
        }
        Ok(Attack { clients, counts })
    }

    /// Ends: all clients leave.
    pub(super) async fn end(mut self) -> Answered {
        self.clients.shutdown().await;
        let Counts { taken, refused } = &*self.counts;
        Answered { taken: taken.load(Ordering::Relaxed), refused: refused.load(Ordering::Relaxed) }
    }
}

async fn send(
    mut connection: Connection,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: Bytes,
    counts: Arc<Counts>,
) {
    loop {
        let Ok(reply) = connection.send(Method::POST, path, headers, body.clone()).await else {
            // A busy node may have closed the connection; the next attempt opens another.
            tokio::task::yield_now().await;
            continue;
        };
        let count = match reply.status.as_u16() {
            503 => &counts.refused,
            _ => &counts.taken,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn bomb() -> Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let breaks = vec![b'\n'; 1 << 20];
    for _ in 0..LINE_BREAKS / breaks.len() {
        encoder.write_all(&breaks)?;
    }
    encoder.finish().map(Bytes::from).context("gzip")
}

fn zeros() -> Bytes {
    format!("[0{}]", ",0".repeat(ZEROS - 1)).into()
}
