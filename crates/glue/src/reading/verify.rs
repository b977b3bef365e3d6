//! Verifies a collection: its log is replayed from the oldest frame, and the documents that come of it are compared with
//! those in the store.
//!
//! One partition is replayed at a time, in memory. Nodes may fold on meanwhile: where documents differ the log is read on
//! and the store is read again, a few times, before a difference is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::worker::Rehearsal;
use consort_kernel::{Budget, Cursor, Log, Most, Partition};

use super::{
    CollectionReader, ListRequest, ListedDocument, PAGE_ITEMS, ReadingError, TenantSelection,
};
use crate::stored::{DocumentBody, DocumentHead, Existence};
use crate::{CacheShare, Collection, GluePlan};

/// How often the log and the store are read again where they differ.
const ROUNDS: u32 = 5;

/// The pause between two of these.
const PAUSE: Duration = Duration::from_millis(500);

/// What was found of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentFinding {
    /// Its tenant.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: FindingKind,
    /// Its version in the store; 0 if there is none.
    pub stored_version: u64,
    /// Its version by the log; 0 if there is none.
    pub replayed_version: u64,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// It was created before the oldest frame of the log, which cannot make it anew. This is no fault.
    OlderThanLog,
    /// The log makes it, and the store does not have it.
    Missing,
    /// The store has it, and the log does not make it.
    Unexpected,
    /// The store has another state of it than the log makes.
    Differs,
}

/// What was found of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedCollection {
    /// How many documents are stored as the log makes them.
    pub equal: u64,
    /// The others.
    pub findings: Vec<DocumentFinding>,
}

/// A document without the cells that it is kept in.
type Documents = BTreeMap<(String, String), (DocumentHead, Option<bytes::Bytes>)>;

impl FindingKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            FindingKind::OlderThanLog => "older-than-log",
            FindingKind::Missing => "missing",
            FindingKind::Unexpected => "unexpected",
            FindingKind::Differs => "differs",
        }
    }

    /// Whether the store is not as it should be.
    pub fn is_fault(self) -> bool {
        self != FindingKind::OlderThanLog
    }
}

impl CollectionReader {
    /// Replays the log and compares.
    pub async fn verify(&self) -> Result<VerifiedCollection, ReadingError> {
        let mut verified = VerifiedCollection::default();
        for index in 0..self.collection().partitions {
            let mut partition = self.verify_partition(index).await?;
            verified.equal += partition.equal;
            verified.findings.append(&mut partition.findings);
        }
        Ok(verified)
    }

    async fn verify_partition(&self, index: u32) -> Result<VerifiedCollection, ReadingError> {
        let partition = self.log_partition(index);
        let shards = self.store.shards();
        let cache = Arc::new(CacheShare::new(0));
        let plan = GluePlan::new(Collection::clone(self.collection()), shards, cache);
        // A reader has a collection with a good name.
        let Ok(plan) = plan else { return Ok(VerifiedCollection::default()) };
        let first = self.log.first(&partition).await.map_err(consort_kernel::ReadError::from)?;
        let mut rehearsal = Rehearsal::new(&plan, &partition, shards);
        let mut cursor = Cursor::at(first);
        let mut round = 1;
        loop {
            read_on(&*self.log, &partition, &mut rehearsal, &mut cursor).await?;
            let replayed = self.replayed(&rehearsal)?;
            let stored = self.stored(index).await?;
            let verified = compare(&replayed, &stored, first);
            let has_fault = verified.findings.iter().any(|finding| finding.kind.is_fault());
            if !has_fault || round == ROUNDS {
                return Ok(verified);
            }
            round += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn replayed(&self, rehearsal: &Rehearsal<'_>) -> Result<Documents, ReadingError> {
        let mut documents = Documents::new();
        for (shard, key, cell) in rehearsal.cells() {
            let Some((tenant, id)) = self.cells().head_subject(key) else { continue };
            let head = DocumentHead::decode(cell)?;
            let body = rehearsal.cell(shard, &self.cells().body(&tenant, &id));
            let body = body.map(DocumentBody::decode).transpose()?;
            let body = body.filter(|body| head.tag() == Some(body.tag)).map(|body| body.document);
            documents.insert((tenant, id), (head, body));
        }
        Ok(documents)
    }

    async fn stored(&self, index: u32) -> Result<Documents, ReadingError> {
        let (mut documents, mut after) = (Documents::new(), None);
        loop {
            let request = ListRequest {
                tenants: TenantSelection::All,
                after,
                limit: PAGE_ITEMS,
                deleted: true,
                texts: true,
            };
            let page = self.list(&request).await?;
            for ListedDocument { tenant, id, head, text } in page.documents {
                if self.partition(&tenant, &id) == index {
                    documents.insert((tenant, id), (head, text.map(|text| text.text)));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(documents),
            }
        }
    }
}

/// Replays the frames that have come since.
async fn read_on(
    log: &dyn Log,
    partition: &Partition,
    rehearsal: &mut Rehearsal<'_>,
    cursor: &mut Cursor,
) -> Result<(), ReadingError> {
    let mut budget = Budget::default();
    loop {
        let entries = log.read(partition, cursor, Most::default(), Duration::ZERO).await?;
        let Some(last) = entries.last() else { return Ok(()) };
        *cursor = last.cursor();
        for entry in &entries {
            rehearsal.apply(entry);
            budget.spend(entry.frame.encoded_len()).await;
        }
    }
}

/// Compares the documents of a partition, whose log begins at `first`.
fn compare(replayed: &Documents, stored: &Documents, first: u64) -> VerifiedCollection {
    let mut verified = VerifiedCollection::default();
    let subjects: std::collections::BTreeSet<_> = replayed.keys().chain(stored.keys()).collect();
    for subject in subjects {
        let (by_log, by_store) = (replayed.get(subject), stored.get(subject));
        let exists = |document: &Option<&(DocumentHead, Option<bytes::Bytes>)>| {
            document.is_some_and(|(head, _)| head.existence != Existence::Never)
        };
        let version = |document: &Option<&(DocumentHead, Option<bytes::Bytes>)>| {
            document.map_or(0, |(head, _)| head.version)
        };
        let is_older = by_store.is_some_and(|(head, _)| is_older(head, first));
        let kind = match (exists(&by_log), exists(&by_store)) {
            (false, false) => continue,
            _ if is_older => Some(FindingKind::OlderThanLog),
            // A tombstone is forgotten after a while.
            (true, false)
                if by_log.is_some_and(|(head, _)| head.existence == Existence::Deleted) =>
            {
                continue;
            }
            (true, false) => Some(FindingKind::Missing),
            (false, true) => Some(FindingKind::Unexpected),
            (true, true) => differs(by_log, by_store, first),
        };
        let Some(kind) = kind else {
            verified.equal += 1;
            continue;
        };
        verified.findings.push(DocumentFinding {
            tenant: subject.0.clone(),
            id: subject.1.clone(),
            kind,
            stored_version: version(&by_store),
            replayed_version: version(&by_log),
        });
    }
    verified
}

/// Whether a document was created before the oldest frame.
fn is_older(head: &DocumentHead, first: u64) -> bool {
    head.life.is_some_and(|life| life.era == 0 && life.offset < first)
}

fn differs(
    by_log: Option<&(DocumentHead, Option<bytes::Bytes>)>,
    by_store: Option<&(DocumentHead, Option<bytes::Bytes>)>,
    first: u64,
) -> Option<FindingKind> {
    let (Some((log_head, log_body)), Some((head, body))) = (by_log, by_store) else { return None };
    let same =
        log_head.existence == head.existence && log_body == body && log_head.life == head.life;
    match (same, log_head.version == head.version) {
        (true, true) => None,
        // An earlier life is older than the log: the versions are counted on from there.
        (true, false) if first > 0 => Some(FindingKind::OlderThanLog),
        _ => Some(FindingKind::Differs),
    }
}
