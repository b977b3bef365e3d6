//! Changes that a sink refused for good: kept in a list of the sink's own, with the reason. Users call them rows.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::format;
use consort_kernel::limits::PAGE_BYTES;
use consort_kernel::{Budget, Cursor, Most, Name, ReadError, Shard, Store};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{feed, names};

/// How much of a reason is kept: sinks answer with pages at times.
const REASON_MOST: usize = 1_000;

/// How much of a change is kept. Longer ones are left out, and the feed's number tells which it was.
const ROW_MOST: usize = 100_000;

/// One parked change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parked {
    /// The feed that it stands in.
    pub feed: String,
    /// Its number there.
    pub number: u64,
    /// Why the sink refused it.
    pub reason: String,
    /// The change as subscribers see it; none if it could not be read, or is too long to be kept twice.
    pub row: Option<Box<RawValue>>,
}

/// An entry of a sink's list.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Line {
    /// A change.
    Parked(Parked),
    /// What this release cannot read.
    Unreadable {
        /// Why.
        unreadable: String,
    },
}

impl Parked {
    pub(crate) fn new(feed: &Name, number: u64, reason: &str, row: Option<String>) -> Parked {
        let row = row.filter(|row| row.len() <= ROW_MOST);
        Parked {
            feed: feed.to_string(),
            number,
            reason: reason[..reason.floor_char_boundary(REASON_MOST)].to_owned(),
            row: row.and_then(|row| RawValue::from_string(row).ok()),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        format::encode(self)
    }
}

/// The newest parked changes of a sink, up to `most` of each shard, each shard's oldest first. All together have
/// at most [`PAGE_BYTES`], of which each shard has an equal share.
pub async fn newest(store: &dyn Store, sink: &Name, most: usize) -> Result<Vec<Line>, ReadError> {
    let (mut lines, mut budget) = (Vec::new(), Budget::default());
    let Ok(list) = names::parked(sink) else { return Ok(lines) };
    let share = PAGE_BYTES / usize::from(store.shards()).max(1);
    for shard in (0..store.shards()).map(Shard) {
        let first = feed::first(store, shard, &list).await?;
        let end = feed::end(store, shard, &list, first).await?;
        let mut cursor = Cursor::at(first.max(end.saturating_sub(most as u64)));
        let (mut newest, mut bytes) = (VecDeque::new(), 0);
        loop {
            let most = Most { entries: most, bytes: share };
            let page = store.feed(shard, &list, &cursor, most, Duration::ZERO).await?;
            let Some(last) = page.last() else { break };
            cursor = last.cursor();
            for entry in page {
                bytes += entry.entry.len();
                newest.push_back(entry.entry);
                while bytes > share {
                    bytes -= newest.pop_front().map_or(bytes, |oldest| oldest.len());
                }
            }
        }
        for entry in newest {
            lines.push(match format::decode(&entry) {
                Ok(parked) => Line::Parked(parked),
                Err(error) => Line::Unreadable { unreadable: error.to_string() },
            });
            budget.spend(entry.len()).await;
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::memory::MemoryStore;
    use consort_kernel::{Commit, Note, Operation, SystemClock, memory};
    use futures::poll;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Poll;

    /// A store of two shards, with parked changes of the greatest length in the second.
    async fn parked(sink: &Name, many: u64) -> MemoryStore {
        let (_, store) = memory::open(2, Arc::new(SystemClock::default()));
        let feed = Name::new("rows.v").unwrap();
        let row = format!("\"{}\"", "x".repeat(ROW_MOST - 2));
        for number in 0..many {
            let entry = Parked::new(&feed, number, "no", Some(row.clone())).encode();
            let note = Note { feed: names::parked(sink).unwrap(), entry };
            store.commit(Shard(1), Commit::of([Operation::Append(note)])).await.unwrap();
        }
        store
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let feed = Name::new("rows.v").unwrap();
        let parked = Parked::new(&feed, 7, "no", Some("{\"view\":\"v\"}".into()));
        let stored =
            "\x01{\"feed\":\"rows.v\",\"number\":7,\"reason\":\"no\",\"row\":{\"view\":\"v\"}}";
        assert_eq!(parked.encode(), stored);
        let read: Parked = format::decode(stored.as_bytes()).unwrap();
        assert_eq!((read.feed.as_str(), read.number, read.row.is_some()), ("rows.v", 7, true));
    }

    #[tokio::test]
    async fn a_list_is_bounded_in_bytes_and_shows_the_newest() {
        let sink = Name::new("s").unwrap();
        let store = parked(&sink, 100).await;
        let shown = newest(&store, &sink, 100).await.unwrap();
        let numbers: Vec<u64> = shown
            .iter()
            .map(|line| match line {
                Line::Parked(parked) => parked.number,
                Line::Unreadable { unreadable } => panic!("{unreadable}"),
            })
            .collect();
        let half = PAGE_BYTES as u64 / 2 / ROW_MOST as u64;
        assert_eq!(numbers, Vec::from_iter(100 - half..100), "a half is the share of a shard");
    }

    #[tokio::test]
    async fn a_long_list_is_decoded_in_steps() {
        let sink = Name::new("s").unwrap();
        let store = parked(&sink, 20).await;
        let (mut reading, mut yields) = (pin!(newest(&store, &sink, 100)), 0);
        let lines = loop {
            match poll!(&mut reading) {
                Poll::Ready(lines) => break lines.unwrap(),
                Poll::Pending => yields += 1,
            }
        };
        assert_eq!((lines.len(), yields), (20, 20), "each change is larger than a step");
    }

    #[test]
    fn what_is_kept_of_a_refusal_is_bounded() {
        let feed = Name::new("rows.v").unwrap();
        let long = format!("\"{}\"", "x".repeat(ROW_MOST));
        let parked = Parked::new(&feed, 7, &"é".repeat(REASON_MOST), Some(long));
        assert_eq!((parked.reason.len(), parked.row.is_none()), (REASON_MOST, true));
    }
}
