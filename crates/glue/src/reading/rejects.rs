//! The reject list: pieces that were rejected, and notes about numbers that never came.
//!
//! Each shard has a list of its own, oldest first. A page reads the shards one after another, so that a list of one
//! document reads one shard.

use std::time::Duration;

use bytes::Bytes;
use consort_kernel::limits::PAGE_BYTES;
use consort_kernel::{Budget, Cursor, Most, ReadError, Shard};

use super::{CollectionReader, PAGE_ITEMS, ReadingError, TenantSelection};
use crate::stored::{PiecePlace, PieceRecord, RejectEntry, RejectedContent};

/// Entries that one page looks at, at most: those of other tenants and documents are passed over.
const LOOKED_AT: usize = 10_000;

/// Pieces of the log that one page reads, at most: each is a read of its own.
const READ_FROM_LOG: usize = 50;

/// A page of the reject list.
#[derive(Clone, Debug)]
pub struct RejectRequest {
    /// Whose pieces.
    pub tenants: TenantSelection,
    /// The pieces of this document alone. It goes with one tenant.
    pub id: Option<String>,
    /// Where the page begins.
    pub after: RejectCursor,
    /// How many pieces.
    pub limit: usize,
}

/// A place in the reject lists of all shards: the number of the next entry in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectCursor(Vec<u64>);

/// A text is no place in a reject list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no 'next' of a reject list: use it as it was given, or leave it out to begin with the oldest piece"
)]
pub struct BadRejectCursor;

/// A rejected piece in a list.
#[derive(Clone, Debug)]
pub struct ListedReject {
    /// What the list has of it.
    pub entry: RejectEntry,
    /// The piece; none if it had no content, or the log no longer has it.
    pub piece: Option<Bytes>,
}

/// A page of rejected pieces.
#[derive(Clone, Debug)]
pub struct RejectPage {
    /// The pieces, oldest first in each shard.
    pub rejects: Vec<ListedReject>,
    /// Where the next page begins; none at the end.
    pub next: Option<RejectCursor>,
}

/// A page that is being filled.
struct Filling<'a> {
    request: &'a RejectRequest,
    limit: usize,
    entries: Vec<RejectEntry>,
    looked_at: usize,
    bytes: usize,
    budget: Budget,
}

impl Filling<'_> {
    fn is_full(&self) -> bool {
        self.entries.len() >= self.limit || self.looked_at >= LOOKED_AT || self.bytes >= PAGE_BYTES
    }

    fn take(&mut self, entry: RejectEntry) {
        let RejectRequest { tenants, id, .. } = self.request;
        if tenants.contains(&entry.tenant) && id.as_ref().is_none_or(|id| *id == entry.id) {
            self.bytes += match &entry.content {
                RejectedContent::None => 0,
                RejectedContent::Inline(piece) => piece.len(),
                RejectedContent::InLog(size) => *size as usize,
            };
            self.entries.push(entry);
        }
    }
}

impl CollectionReader {
    /// A page of rejected pieces.
    pub async fn rejects(&self, request: &RejectRequest) -> Result<RejectPage, ReadingError> {
        let shards: Vec<Shard> = match (&request.id, &request.tenants) {
            (Some(id), TenantSelection::One(tenant)) => vec![self.shard(tenant, id)],
            _ => self.shards().collect(),
        };
        let mut next = request.after.clone();
        next.0.resize(usize::from(self.store.shards()), 0);
        let mut filling = Filling {
            request,
            limit: request.limit.clamp(1, PAGE_ITEMS),
            entries: Vec::new(),
            looked_at: 0,
            bytes: 0,
            budget: Budget::default(),
        };
        let mut is_end = true;
        for shard in shards {
            let at = &mut next.0[usize::from(shard.0)];
            while self.read_rejects(shard, at, &mut filling).await? {
                if filling.is_full() {
                    break;
                }
            }
            if filling.is_full() {
                is_end = false;
                break;
            }
        }
        let rejects = self.with_pieces(filling.entries).await?;
        Ok(RejectPage { rejects, next: (!is_end).then_some(next) })
    }

    /// Reads on in the list of a shard; false at its end.
    async fn read_rejects(
        &self,
        shard: Shard,
        next: &mut u64,
        filling: &mut Filling<'_>,
    ) -> Result<bool, ReadingError> {
        let feed = self.cells().rejects();
        let most = Most::entries(filling.limit.clamp(READ_LEAST, PAGE_ITEMS));
        let read = self.store.feed(shard, feed, &Cursor::at(*next), most, Duration::ZERO).await;
        let entries = match read {
            // The list keeps so many; those before are gone.
            Err(ReadError::Trimmed { first, .. }) => {
                *next = first;
                return Ok(true);
            }
            read => read?,
        };
        if entries.is_empty() {
            return Ok(false);
        }
        for entry in entries {
            if filling.is_full() {
                break;
            }
            *next = entry.number + 1;
            filling.looked_at += 1;
            filling.take(RejectEntry::decode(&entry.entry)?);
            filling.budget.spend(entry.entry.len()).await;
        }
        Ok(true)
    }

    async fn with_pieces(
        &self,
        entries: Vec<RejectEntry>,
    ) -> Result<Vec<ListedReject>, ReadingError> {
        let (mut rejects, mut from_log) = (Vec::with_capacity(entries.len()), 0);
        for entry in entries {
            let piece = match &entry.content {
                RejectedContent::None => None,
                RejectedContent::Inline(piece) => Some(piece.clone()),
                RejectedContent::InLog(_) if from_log < READ_FROM_LOG => {
                    from_log += 1;
                    self.piece_in_log(&entry.place).await?
                }
                RejectedContent::InLog(_) => None,
            };
            rejects.push(ListedReject { entry, piece });
        }
        Ok(rejects)
    }

    /// The content of the piece at a place of the log; none if the log no longer has it.
    pub async fn piece_in_log(&self, place: &PiecePlace) -> Result<Option<Bytes>, ReadingError> {
        let partition = self.log_partition(place.partition);
        let cursor = Cursor::at(place.offset);
        let read = self.log.read(&partition, &cursor, Most::entries(1), Duration::ZERO).await;
        let entries = match read {
            Err(ReadError::Trimmed { .. } | ReadError::Lost { .. }) => return Ok(None),
            read => read?,
        };
        // Of an offset that is gone the log returns the next one.
        let entry = entries.first().filter(|entry| entry.offset == place.offset);
        let record = entry.and_then(|entry| {
            let records = &entry.frame.records;
            records.get(place.record as usize).map(|record| records.share(record))
        });
        let Some(record) = record else { return Ok(None) };
        // After a decision on a loss other records may stand at the place: those that are no pieces are none.
        Ok(PieceRecord::decode(&record).ok().map(|piece| record.slice_ref(piece.content)))
    }
}

/// Entries that are read of a shard at once, at least.
const READ_LEAST: usize = 100;

impl RejectCursor {
    /// The numbers, with dashes between.
    pub fn encode(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(u64::to_string).collect();
        numbers.join("-")
    }

    /// Reads a text that [`encode`](RejectCursor::encode) wrote, for a store of so many shards.
    pub fn decode(text: &str, shards: u16) -> Result<RejectCursor, BadRejectCursor> {
        let numbers: Result<Vec<u64>, _> = text.split('-').map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.len() == usize::from(shards) => Ok(RejectCursor(numbers)),
            _ => Err(BadRejectCursor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_reject_lists_survives_its_text() {
        let cursor = RejectCursor(vec![0, 17, u64::MAX]);
        assert_eq!(RejectCursor::decode(&cursor.encode(), 3), Ok(cursor));
        for text in ["", "1", "1-2", "1-2-x", "1-2-3-4"] {
            assert_eq!(RejectCursor::decode(text, 3), Err(BadRejectCursor), "{text}");
        }
    }
}
