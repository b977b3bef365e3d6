//! Pieces from a queue of RabbitMQ: a message is a line as bulk requests have them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_cluster::queue_consumer::{MessageJudge, RefusedMessage};
use consort_kernel::{
    Commit, CommitError, Cursor, Fault, FeedEntry, Message, Most, Name, Note, Operation, ReadError,
    Shard,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bulk_line::{self, LineTenant};
use super::open::OpenCollection;
use crate::tenants::{Caller, TenantName};

/// How much of a message is kept beside the reason why it was refused.
const SHOWN_BYTES: usize = 2_000;

/// How many refused messages a collection keeps, at least. The list is trimmed when it has twice as many.
const KEPT: u64 = 1_000;

/// All refused messages of a collection are in one list.
const SHARD: Shard = Shard(0);

/// Judges the messages of one queue, which has the pieces of one tenant.
pub struct PieceJudge {
    collection: Arc<OpenCollection>,
    tenant: TenantName,
}

/// A refused message as the list keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct RefusedEntry {
    tenant: String,
    reason: String,
    message: String,
}

impl PieceJudge {
    pub(super) fn new(collection: Arc<OpenCollection>, tenant: TenantName) -> PieceJudge {
        PieceJudge { collection, tenant }
    }
}

#[async_trait]
impl MessageJudge for PieceJudge {
    fn judge(&self, message: &Message) -> Result<(u32, Bytes), String> {
        let caller = Caller::Tenant(self.tenant.clone());
        let of = LineTenant { caller, tenant: self.tenant.clone() };
        // A key that is none, such as an id with blanks, would refuse a message that says nothing wrong itself.
        let key =
            message.id.as_deref().filter(|id| consort_glue::check_idempotency_key(id).is_ok());
        let piece = bulk_line::read(&self.collection, &message.body, &of, key);
        let piece = piece.map_err(|refused| refused.to_string())?;
        Ok((piece.partition, piece.record.into()))
    }

    async fn note(&self, refused: &[RefusedMessage]) -> Result<(), Fault> {
        let feed = refused_feed(&self.collection)?;
        let note = |refused: &RefusedMessage| {
            let entry = RefusedEntry {
                tenant: self.tenant.to_string(),
                reason: refused.reason.clone(),
                message: shown(&refused.message.body),
            };
            let entry = Bytes::from(json!(entry).to_string());
            Operation::Append(Note { feed: feed.clone(), entry })
        };
        let commit = Commit::of(refused.iter().map(note));
        match self.collection.store.commit(SHARD, commit).await {
            Ok(_) => {}
            Err(CommitError::Engine(fault) | CommitError::Unknown(fault)) => return Err(fault),
            Err(other) => return Err(Fault::Retryable(other.to_string())),
        }
        trim(&self.collection, &feed).await
    }
}

impl fmt::Debug for PieceJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PieceJudge").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// The newest refused messages of these tenants, up to `most`, oldest first.
pub(super) async fn newest_refused(
    collection: &OpenCollection,
    is_shown: impl Fn(&str) -> bool,
    most: usize,
) -> Result<Vec<Value>, ReadError> {
    let Ok(feed) = refused_feed(collection) else { return Ok(Vec::new()) };
    let mut shown = Vec::new();
    let mut cursor = Cursor::START;
    loop {
        let entries = match page(collection, &feed, &cursor).await {
            Err(ReadError::Trimmed { first, .. }) => {
                cursor = Cursor::at(first);
                continue;
            }
            read => read?,
        };
        let Some(last) = entries.last() else { break };
        cursor = last.cursor();
        let refused = entries
            .iter()
            .filter_map(|entry| serde_json::from_slice::<RefusedEntry>(&entry.entry).ok());
        shown.extend(refused.filter(|entry| is_shown(&entry.tenant)).map(|entry| json!(entry)));
        let beyond = shown.len().saturating_sub(most);
        shown.drain(..beyond);
    }
    Ok(shown)
}

async fn page(
    collection: &OpenCollection,
    feed: &Name,
    cursor: &Cursor,
) -> Result<Vec<FeedEntry>, ReadError> {
    collection.store.feed(SHARD, feed, cursor, Most::default(), Duration::ZERO).await
}

/// Lets go of the oldest messages of a list that has become long.
async fn trim(collection: &OpenCollection, feed: &Name) -> Result<(), Fault> {
    let mut cursor = Cursor::START;
    let (mut first, mut end) = (None, 0);
    loop {
        match page(collection, feed, &cursor).await {
            Ok(entries) => {
                let Some(last) = entries.last() else { break };
                first.get_or_insert(entries[0].number);
                (end, cursor) = (last.number + 1, last.cursor());
            }
            Err(ReadError::Trimmed { first, .. }) => cursor = Cursor::at(first),
            // What cannot be read now is trimmed with the next message.
            Err(_) => return Ok(()),
        }
    }
    if end - first.unwrap_or(end) > 2 * KEPT {
        let trimmed = collection.store.trim_feed(SHARD, feed, end - KEPT).await;
        return trimmed.map_err(|error| Fault::Retryable(error.to_string()));
    }
    Ok(())
}

fn refused_feed(collection: &OpenCollection) -> Result<Name, Fault> {
    let name = format!("{}.refused", collection.reader.cells().stream());
    Name::new(&name).map_err(|error| Fault::Fatal(error.to_string()))
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match text.len() > SHOWN_BYTES {
        true => format!("{}…", &text[..text.floor_char_boundary(SHOWN_BYTES)]),
        false => text.into_owned(),
    }
}
