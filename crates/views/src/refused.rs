//! Messages from a queue, and lines of datagrams, that are no valid events: kept in a list of their stream, with
//! the reason. Nobody waits for an answer to whom it could be told.

use consort_cluster::format;
use consort_kernel::{
    Commit, CommitError, Key, Name, Note, Operation, ReadError, Shard, Store, Timestamp, shard_of,
};
use serde::{Deserialize, Serialize};

use crate::keys;

/// How much of a message is kept.
const SHOWN_BYTES: usize = 2_000;

/// A message that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// When it was refused, in milliseconds since the Unix epoch.
    pub time: u64,
    /// Why.
    pub reason: String,
    /// The id that its sender gave it.
    pub id: Option<String>,
    /// What it was, shortened, with everything replaced that is no text.
    pub body: String,
    /// How many bytes it had.
    pub bytes: usize,
}

/// The list could not be written; nothing was noted for certain.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct NoteError(#[from] pub(crate) CommitError);

impl Refused {
    /// What is kept of a message.
    pub fn new(body: &[u8], id: Option<String>, reason: String, now: Timestamp) -> Self {
        let start = &body[..body.len().min(SHOWN_BYTES)];
        Refused {
            time: now.0,
            reason,
            id,
            body: String::from_utf8_lossy(start).into_owned(),
            bytes: body.len(),
        }
    }
}

/// Adds to a stream's list. Noted twice after an unknown outcome is better than not at all.
pub async fn note(store: &dyn Store, stream: &Name, refused: &[Refused]) -> Result<(), NoteError> {
    if refused.is_empty() {
        return Ok(());
    }
    let feed = keys::refused(stream);
    let note =
        |one: &Refused| Operation::Append(Note { feed: feed.clone(), entry: format::encode(one) });
    store.commit(home(store, stream), Commit::of(refused.iter().map(note))).await?;
    Ok(())
}

/// The newest messages that were refused, up to `most`.
pub async fn newest(
    store: &dyn Store,
    stream: &Name,
    most: usize,
) -> Result<Vec<Refused>, ReadError> {
    let tail =
        crate::rejects::tail(store, home(store, stream), &keys::refused(stream), most).await?;
    Ok(tail.iter().filter_map(|entry| format::decode(&entry.entry).ok()).collect())
}

/// The shard of a stream's list.
pub(crate) fn home(store: &dyn Store, stream: &Name) -> Shard {
    shard_of(&Key::from(["refused", stream.as_str()]), store.shards())
}
