//! Streams: the state between two requests of one client, and the batons that name them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_db::read::snapshot::ReadSnapshot;
use consort_db::write::transaction::ClientTransaction;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::errors::StreamError;
use super::request::StoredTexts;

/// Streams that a node holds open between two requests. Most requests close theirs.
const STREAMS: usize = 1_024;
/// How long a stream is held for its next request, as in sqld.
const STREAM_IDLE: Duration = Duration::from_secs(10);
/// Texts that a stream stores, as in sqld, and their bytes together.
const TEXTS: usize = 150;
const TEXT_BYTES: usize = 1024 * 1024;

/// The state of one stream.
#[derive(Debug, Default)]
pub(super) struct HranaStream {
    stored: StoredTexts,
    pub(super) transaction: StreamTransaction,
    /// Its place among those that the node holds.
    _seat: Option<OwnedSemaphorePermit>,
}

/// The transaction that a stream is in.
#[derive(Debug, Default)]
pub(super) enum StreamTransaction {
    #[default]
    None,
    /// It has the writer.
    Write(ClientTransaction),
    /// It reads a snapshot, until then.
    Read(Box<ReadSnapshot>, Instant),
    /// It was taken back, and its client does not know yet.
    Lost,
}

/// The streams that this node holds between requests. All clones are of the same ones.
#[derive(Clone)]
pub(in crate::db) struct Streams(Arc<Held>);

struct Held {
    streams: Mutex<HashMap<u128, HeldStream>>,
    seats: Arc<Semaphore>,
}

struct HeldStream {
    database: String,
    stream: HranaStream,
}

/// A baton as clients send it: drawn at random, used once, and with the node that holds the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Baton {
    id: u128,
    pub(super) node: String,
}

impl HranaStream {
    /// A new stream, if there is room for one that stays open.
    pub(super) fn new(streams: &Streams, stays_open: bool) -> Option<Self> {
        let seat = match stays_open {
            true => Some(Arc::clone(&streams.0.seats).try_acquire_owned().ok()?),
            false => None,
        };
        Some(HranaStream { _seat: seat, ..HranaStream::default() })
    }

    /// The texts that it has stored.
    pub(super) fn stored(&self) -> &StoredTexts {
        &self.stored
    }

    /// Takes over the texts of another stream.
    pub(super) fn set_stored(&mut self, stored: StoredTexts) {
        self.stored = stored;
    }

    /// Stores a text.
    pub(super) fn store(&mut self, id: i32, sql: &str) -> Result<(), StreamError> {
        let bytes: usize = self.stored.values().map(String::len).sum();
        let is_new = !self.stored.contains_key(&id);
        if !is_new || self.stored.len() >= TEXTS || bytes + sql.len() > TEXT_BYTES {
            let message = format!(
                "a stream stores at most {TEXTS} texts with {TEXT_BYTES} bytes, each under another number"
            );
            return Err(StreamError::new("SQL_STORE_TOO_LARGE", message));
        }
        self.stored.insert(id, sql.to_owned());
        Ok(())
    }

    /// Forgets a text.
    pub(super) fn forget(&mut self, id: i32) {
        self.stored.remove(&id);
    }

    /// Whether it is bound to this node.
    pub(super) fn has_transaction(&self) -> bool {
        !matches!(self.transaction, StreamTransaction::None)
    }

    /// Until when it is held: a snapshot that stays open would keep the WAL of its file from being reset.
    fn hold_until(&self, now: Instant) -> Instant {
        match &self.transaction {
            StreamTransaction::Read(_, until) => (now + STREAM_IDLE).min(*until),
            _ => now + STREAM_IDLE,
        }
    }
}

impl Default for Streams {
    fn default() -> Self {
        let seats = Arc::new(Semaphore::new(STREAMS));
        Streams(Arc::new(Held { streams: Mutex::default(), seats }))
    }
}

impl Streams {
    /// Holds a stream until its next request comes, or its time is over. `draw` gives random numbers.
    pub(super) fn hold(
        &self,
        database: &str,
        stream: HranaStream,
        node: &str,
        draw: impl Fn() -> u64,
    ) -> Baton {
        let id = u128::from(draw()) << 64 | u128::from(draw());
        let until = stream.hold_until(Instant::now());
        let held = HeldStream { database: database.to_owned(), stream };
        self.0.streams.lock().insert(id, held);
        let streams = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            // Taken out of the map first: closing a file takes a moment.
            let over = streams.0.streams.lock().remove(&id);
            drop(over);
        });
        Baton { id, node: node.to_owned() }
    }

    /// The stream of a baton, which is over with that.
    pub(super) fn take(&self, database: &str, baton: &Baton) -> Option<HranaStream> {
        let mut streams = self.0.streams.lock();
        if streams.get(&baton.id)?.database != database {
            return None;
        }
        streams.remove(&baton.id).map(|held| held.stream)
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("held", &self.0.streams.lock().len()).finish()
    }
}

impl Baton {
    /// The baton in this text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (id, node) = text.split_once('.')?;
        let id = u128::from_str_radix(id, 16).ok().filter(|_| id.len() == 32)?;
        (!node.is_empty()).then(|| Baton { id, node: node.to_owned() })
    }
}

impl fmt::Display for Baton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}.{}", self.id, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baton_is_a_number_and_a_node() {
        let baton = Baton { id: 7, node: "a.b".into() };
        assert_eq!(Baton::parse(&baton.to_string()), Some(baton));
        for bad in [
            "",
            "7.a",
            "xx",
            ".a",
            "00000000000000000000000000000007.",
            "00000000000000000000000000000007",
        ] {
            assert_eq!(Baton::parse(bad), None, "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_baton_is_used_once_within_its_time_and_for_its_database() {
        let streams = Streams::default();
        let hold = || {
            let mut stream = HranaStream::new(&streams, true).unwrap();
            stream.store(1, "SELECT 1").unwrap();
            streams.hold("notes", stream, "a", || 3)
        };
        let baton = hold();
        assert!(streams.take("other", &baton).is_none());
        assert!(streams.take("notes", &baton).is_some_and(|stream| stream.stored().len() == 1));
        assert!(streams.take("notes", &baton).is_none());
        let baton = hold();
        tokio::time::sleep(STREAM_IDLE * 2).await;
        assert!(streams.take("notes", &baton).is_none());
        assert_eq!(streams.0.seats.available_permits(), STREAMS);
    }

    #[tokio::test]
    async fn open_streams_and_their_texts_are_bounded() {
        let streams = Streams::default();
        let mut all: Vec<_> =
            (0..STREAMS).map(|_| HranaStream::new(&streams, true).unwrap()).collect();
        assert!(HranaStream::new(&streams, true).is_none());
        assert!(HranaStream::new(&streams, false).is_some());
        let stream = &mut all[0];
        assert!(stream.store(1, &"x".repeat(TEXT_BYTES + 1)).is_err());
        for id in 0..TEXTS as i32 {
            stream.store(id, "SELECT 1").unwrap();
        }
        assert!(stream.store(-1, "SELECT 1").is_err() && stream.store(1, "SELECT 1").is_err());
        stream.forget(1);
        stream.store(1, "SELECT 2").unwrap();
    }
}
