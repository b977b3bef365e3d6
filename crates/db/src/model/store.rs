//! The store of the model: one head, the feeds of all eras, two snapshots.

use consort_kernel::Digest;

use super::{ModelRules, Violation};
use crate::hash::{ContentHash, SchemaChain};
use crate::head::{DbHead, EraBase};
use crate::snapshot::manifest::{Manifest, trim_before};
use crate::write::commit::{HeadAnswer, HeadCommit, IntendedEntry};

/// One write of a client. All writes have the same bytes, as two clients may send the same statement.
pub(super) type Write = u8;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Feed {
    /// The writes in the snapshot that the era began with.
    base: Vec<Write>,
    /// The number of the first entry that was not trimmed.
    first: u64,
    /// All entries there ever were.
    entries: Vec<(Digest, Write)>,
}

/// A commit on its way: a head, and the write that goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) commit: HeadCommit,
    pub(super) write: Option<Write>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelStore {
    pub(super) head: DbHead,
    pub(super) feeds: Vec<Feed>,
    /// The indexes of the two snapshots of this era, the newer one first.
    pub(super) snapshots: [Option<u64>; 2],
}

impl ModelStore {
    pub(super) fn new() -> Self {
        ModelStore {
            head: DbHead::created(0, 0, 0),
            feeds: vec![Feed::default()],
            snapshots: [Some(0), None],
        }
    }

    /// Applies the request if its expectation holds.
    pub(super) fn apply(
        &mut self,
        request: &Request,
        rules: &ModelRules,
    ) -> Result<HeadAnswer, Violation> {
        let HeadCommit { expect, put, .. } = &request.commit;
        if self.head != *expect && rules.compare {
            return Ok(HeadAnswer::Stale(Some(Box::new(self.head.clone()))));
        }
        let rank = |head: &DbHead| (head.era, head.epoch, head.index);
        if rank(put) < rank(&self.head) {
            return Err("the head went back");
        }
        self.head = put.clone();
        if let (Some(write), Some(digest)) = (request.write, put.digest) {
            self.feed_mut(put.era).entries.push((digest, write));
        }
        Ok(HeadAnswer::Ok)
    }

    /// Begins an era, empty or with the contents of this one.
    pub(super) fn begin_era(&mut self, head: DbHead, base: Vec<Write>) {
        self.head = head;
        self.feeds.push(Feed { base, ..Feed::default() });
        self.snapshots = [Some(0), None];
    }

    pub(super) fn feed(&self, era: u64) -> &Feed {
        &self.feeds[era as usize - 1]
    }

    fn feed_mut(&mut self, era: u64) -> &mut Feed {
        &mut self.feeds[era as usize - 1]
    }

    /// All writes up to `index` of `era`.
    pub(super) fn contents(&self, era: u64, index: u64) -> Vec<Write> {
        let feed = self.feed(era);
        let entries = feed.entries.iter().take(index as usize).map(|(_, write)| *write);
        feed.base.iter().copied().chain(entries).collect()
    }

    /// How often a write is in the feeds; a base repeats entries of the era before.
    pub(super) fn count(&self, write: Write) -> usize {
        let entries = self.feeds.iter().flat_map(|feed| &feed.entries);
        entries.filter(|(_, stored)| *stored == write).count()
    }

    pub(super) fn intended(&self, commit: &HeadCommit) -> IntendedEntry {
        let feed = self.feed(commit.put.era);
        let number = commit.put.index - 1;
        match feed.entries.get(number as usize) {
            _ if number < feed.first => IntendedEntry::Trimmed,
            Some((digest, _)) => IntendedEntry::Present(*digest),
            None => IntendedEntry::Absent,
        }
    }

    /// Whether the entries behind `index` can all be read in this era.
    pub(super) fn is_readable_behind(&self, index: u64) -> bool {
        index >= self.feed(self.head.era).first
    }

    /// A snapshot of `index` replaces the older one, and the feed is trimmed.
    pub(super) fn put_snapshot(&mut self, index: u64) {
        self.snapshots = [Some(index), self.snapshots[0]];
        let manifests =
            self.snapshots.map(|index| index.map(|index| manifest(self.head.era, index)));
        if let Some(before) = trim_before([manifests[0].as_ref(), manifests[1].as_ref()]) {
            let era = self.head.era;
            self.feed_mut(era).first = before;
        }
    }
}

pub(super) fn base() -> EraBase {
    EraBase { origin: 0, chain: SchemaChain::START, content: ContentHash::EMPTY, sqlite: 0 }
}

fn manifest(era: u64, index: u64) -> Manifest {
    Manifest {
        era,
        index,
        digest: None,
        chain: SchemaChain::START,
        content: ContentHash::EMPTY,
        sqlite: 0,
        page_bytes: 4096,
        file_bytes: 0,
        chunks: Vec::new(),
    }
}
