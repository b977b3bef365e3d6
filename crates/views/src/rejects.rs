//! Events that a view could not take, and additions it had to leave out: kept in lists, with the reason.

use std::fmt::Write as _;

use bytes::Bytes;
use consort_cluster::worker::Record;
use consort_kernel::{Cursor, FeedEntry, Most, ReadError, Shard, Store};
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::keys;
use crate::stream::Stream;
use crate::value::push_json_text;
use crate::view::View;

/// How much of an event is kept beside the reason why it was not taken.
const SHOWN_BYTES: usize = 2_000;

/// An event that a view could not take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Where it stands in the log.
    pub partition: u32,
    /// The offset of its frame.
    pub offset: u64,
    /// Its place in the frame.
    pub record: u32,
    /// When it was appended, in milliseconds since the Unix epoch.
    pub time: u64,
    /// Why.
    pub reason: String,
    /// What it was, as JSON, shortened.
    pub event: String,
}

impl Rejected {
    pub(crate) fn of(stream: &Stream, record: &Record<'_>, event: &Event, reason: String) -> Self {
        Rejected {
            partition: record.partition.index,
            offset: record.position.offset,
            record: record.position.record,
            time: record.time.0,
            reason,
            event: shown(stream, event),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        consort_cluster::format::encode(self)
    }
}

/// One line of a view's reject list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// An event that was not taken.
    Rejected(Rejected),
    /// An addition that was left out, since the group's number would not have fitted 64 bits any more.
    Overflow {
        /// The group, as JSON.
        group: String,
    },
    /// An entry that this release cannot read.
    Unreadable(String),
}

/// The newest lines of a view's reject list, up to `most` of each shard and kind.
pub async fn newest(store: &dyn Store, view: &View, most: usize) -> Result<Vec<Line>, ReadError> {
    let mut lines = Vec::new();
    for shard in (0..store.shards()).map(Shard) {
        let entries = tail(store, shard, &keys::rejects(&view.name), most).await?;
        lines.extend(entries.iter().map(rejected));
        for entry in tail(store, shard, &keys::overflows(&view.name), most).await? {
            let values = keys::group_values(view, &keys::overflow_group(&entry.entry));
            lines.push(match values {
                Some(values) => Line::Overflow { group: crate::query::group_json(view, &values) },
                None => Line::Unreadable("an overflow of no group".into()),
            });
        }
    }
    Ok(lines)
}

/// The newest events of a view that came when their window was closed or gone, up to `most` of each shard.
pub async fn newest_late(
    store: &dyn Store,
    view: &View,
    most: usize,
) -> Result<Vec<Line>, ReadError> {
    let mut lines = Vec::new();
    for shard in (0..store.shards()).map(Shard) {
        let entries = tail(store, shard, &keys::late(&view.name), most).await?;
        lines.extend(entries.iter().map(rejected));
    }
    Ok(lines)
}

fn rejected(entry: &FeedEntry) -> Line {
    let read = consort_cluster::format::decode(&entry.entry);
    read.map_or_else(|error| Line::Unreadable(error.to_string()), Line::Rejected)
}

/// The last `most` entries of a feed, which is read through: lists are short, or something is very wrong.
pub(crate) async fn tail(
    store: &dyn Store,
    shard: Shard,
    feed: &consort_kernel::Name,
    most: usize,
) -> Result<Vec<FeedEntry>, ReadError> {
    let mut tail = Vec::new();
    let mut cursor = Cursor::START;
    loop {
        let page =
            store.feed(shard, feed, &cursor, Most::default(), std::time::Duration::ZERO).await;
        let page = match page {
            Err(ReadError::Trimmed { first, .. }) if cursor == Cursor::START => {
                cursor = Cursor { next: first, last: None };
                continue;
            }
            page => page?,
        };
        let Some(last) = page.last() else { return Ok(tail) };
        cursor = last.cursor();
        tail.extend(page);
        let beyond = tail.len().saturating_sub(most);
        tail.drain(..beyond);
    }
}

fn shown(stream: &Stream, event: &Event) -> String {
    let mut text = String::from("{");
    for (field, value) in stream.schema.fields().iter().zip(&event.values) {
        let Some(value) = value else { continue };
        if text.len() > 1 {
            text.push(',');
        }
        push_json_text(&mut text, &field.name);
        text.push(':');
        value.write_json(field.ty.kind, &mut text);
        if text.len() > SHOWN_BYTES {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
            let _ = write!(text, "…");
            return text;
        }
    }
    text.push('}');
    text
}
