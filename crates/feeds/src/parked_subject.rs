//! Subjects that a sink does not get, because it refused one of their changes for good.
//!
//! Each has a cell in the shard of its feed. Only the holder of the sink feed's cursor writes these cells, in commits that
//! change the cursor's cell as well: a deliverer that has read both knows all parked subjects. An operator asks for a
//! release through a cell of its own, which expects the subject to be parked.

use std::collections::BTreeMap;

use bytes::Bytes;
use consort_cluster::format;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{
    Cell, Commit, CommitError, Expect, Key, Kind, Moment, Name, Operation, QueryError, Shard,
    Store, Value,
};
use serde::{Deserialize, Serialize};

use crate::names;
use crate::spec::FeedSpec;
use crate::subjects::{Subject, SubjectChange, SubjectRevision};

/// The most subjects that are parked for a sink in one shard. Each costs a cell, and a look for every change; so many
/// refusals mean that the sink is wrong and not the documents.
pub const PARKED_SUBJECTS_MAX: usize = 1_000;

/// How much of a reason the cell keeps.
const REASON_MOST: usize = 1_000;

/// How often a commit whose outcome is unknown is repeated.
const TRIES: u32 = 5;

/// A subject that is parked, or was released and is not through yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParkedSubject {
    #[serde(flatten)]
    pub(crate) subject: Subject,
    /// The number of the refused change in the feed.
    pub(crate) number: u64,
    /// The revision of the refused change.
    pub(crate) refused: SubjectRevision,
    /// The time of the refused change, in nanoseconds.
    pub(crate) time: i64,
    /// Why the sink refused it.
    pub(crate) reason: String,
    /// The state that a release has sent.
    pub(crate) sent: Option<SentState>,
}

/// The state that a release has sent: changes up to its revision are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentState {
    pub(crate) revision: SubjectRevision,
    /// All changes up to that revision stand before this number. The cell goes when the cursor has come here.
    pub(crate) until: u64,
}

impl ParkedSubject {
    pub(crate) fn new(change: &SubjectChange, number: u64, time: Moment, reason: &str) -> Self {
        ParkedSubject {
            subject: change.subject.clone(),
            number,
            refused: change.revision,
            time: time.0,
            reason: shortened(reason),
            sent: None,
        }
    }

    /// The same, refused again for this reason.
    pub(crate) fn with_reason(self, reason: &str) -> Self {
        ParkedSubject { reason: shortened(reason), ..self }
    }

    pub(crate) fn time(&self) -> Moment {
        Moment(self.time)
    }
}

fn shortened(reason: &str) -> String {
    reason[..reason.floor_char_boundary(REASON_MOST)].to_owned()
}

/// The parked subjects of a sink feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParkedSubjects(BTreeMap<Subject, ParkedSubject>);

impl ParkedSubjects {
    /// Reads the cells of a sink feed.
    pub(crate) async fn load(
        store: &dyn Store,
        shard: Shard,
        sink: &Name,
        feed: &Name,
    ) -> Result<ParkedSubjects, String> {
        let told =
            |error: &dyn std::fmt::Display| format!("the parked documents cannot be read: {error}");
        let mut parked = ParkedSubjects::default();
        let cells = scan(store, shard, &names::parked_subjects(sink, feed)).await;
        for (_, value) in cells.map_err(|error| told(&error))? {
            let cell: ParkedSubject = format::decode(&value).map_err(|error| told(&error))?;
            parked.insert(cell);
        }
        Ok(parked)
    }

    /// The number of subjects that wait for a release.
    pub(crate) fn waiting(&self) -> usize {
        self.0.values().filter(|cell| cell.sent.is_none()).count()
    }

    pub(crate) fn get(&self, subject: &Subject) -> Option<&ParkedSubject> {
        self.0.get(subject)
    }

    pub(crate) fn insert(&mut self, cell: ParkedSubject) {
        self.0.insert(cell.subject.clone(), cell);
    }

    pub(crate) fn remove(&mut self, subject: &Subject) {
        self.0.remove(subject);
    }

    /// Whether a change is passed over: its subject is parked, or a state that covers it was sent.
    pub(crate) fn covers(&self, change: &SubjectChange) -> bool {
        self.get(&change.subject).is_some_and(|cell| match cell.sent {
            None => true,
            Some(sent) => change.revision <= sent.revision,
        })
    }

    /// The released subjects whose cells have no use once the cursor stands at `next`.
    pub(crate) fn through(&self, next: u64) -> Vec<Subject> {
        let is_through = |cell: &&ParkedSubject| cell.sent.is_some_and(|sent| sent.until <= next);
        self.0.values().filter(is_through).map(|cell| cell.subject.clone()).collect()
    }
}

/// The operation that stores a cell.
pub(crate) fn put(sink: &Name, feed: &Name, cell: &ParkedSubject) -> Operation {
    let key = names::parked_subject(sink, feed, &cell.subject);
    Operation::Put { key, value: format::encode(cell) }
}

/// The subjects of a sink feed that an operator has asked to release.
pub(crate) async fn asked_releases(
    store: &dyn Store,
    shard: Shard,
    sink: &Name,
    feed: &Name,
) -> Result<Vec<Subject>, String> {
    let told =
        |error: &dyn std::fmt::Display| format!("requested releases cannot be read: {error}");
    let cells = scan(store, shard, &names::releases(sink, feed)).await;
    let cells = cells.map_err(|error| told(&error))?;
    cells.iter().map(|(_, value)| format::decode(value).map_err(|error| told(&error))).collect()
}

/// All cells below a prefix. Each stands for a parked subject, and those are bounded.
async fn scan(
    store: &dyn Store,
    shard: Shard,
    prefix: &Key,
) -> Result<Vec<(Key, Bytes)>, QueryError> {
    let mut cells: Vec<(Key, Bytes)> = Vec::new();
    loop {
        let after = cells.last().map(|(key, _)| key.clone());
        let page = store.scan(shard, Kind::Bytes, prefix, after.as_ref(), PAGE_ROWS).await?;
        if page.is_empty() {
            return Ok(cells);
        }
        cells.extend(page.into_iter().filter_map(|(key, value)| match value {
            Value::Bytes(value) => Some((key, value)),
            _ => None,
        }));
    }
}

/// A parked subject, as operators see it.
#[derive(Clone, Debug, Serialize)]
pub struct ParkedSubjectView {
    /// The path of the feed below `/feeds/`.
    pub feed: String,
    /// The tenant and the id.
    #[serde(flatten)]
    pub subject: Subject,
    /// The version that the sink refused.
    pub version: u64,
    /// Why it refused it.
    pub reason: String,
}

/// The subjects of a feed that wait for a release to this sink, up to `most` of each shard.
pub async fn parked_subjects(
    store: &dyn Store,
    sink: &Name,
    spec: &FeedSpec,
    most: usize,
) -> Result<Vec<ParkedSubjectView>, String> {
    let mut shown = Vec::new();
    for shard in (0..store.shards()).map(Shard) {
        let parked = ParkedSubjects::load(store, shard, sink, &spec.feed).await?;
        let waiting = parked.0.into_values().filter(|cell| cell.sent.is_none()).take(most);
        shown.extend(waiting.map(|cell| ParkedSubjectView {
            feed: spec.path.clone(),
            subject: cell.subject,
            version: cell.refused.version,
            reason: cell.reason,
        }));
    }
    Ok(shown)
}

/// Why a subject cannot be released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The changes of this feed have no subjects, so a sink parks single rows of it.
    #[error("the changes of this feed are of no documents: only documents can be released")]
    NoSubjects,
    /// The subject is not parked.
    #[error("{0} is not parked for this sink")]
    NotParked(Subject),
    /// The store did not take the request.
    #[error("the release could not be stored: {0}; send it again")]
    Failed(String),
}

/// Asks the deliverer of `sink` to release a parked subject of this feed. It then sends the present state, and the
/// changes that follow. A repeat does no harm.
pub async fn release_subject(
    store: &dyn Store,
    sink: &Name,
    spec: &FeedSpec,
    subject: &Subject,
) -> Result<(), ReleaseError> {
    let subjects = spec.payload.subjects().ok_or(ReleaseError::NoSubjects)?;
    let shard = subjects.shard(subject, store.shards());
    let key = names::parked_subject(sink, &spec.feed, subject);
    let ask = names::release(sink, &spec.feed, subject);
    for _ in 0..TRIES {
        let cell = Cell::new(Kind::Bytes, key.clone());
        let read = store.get(shard, &[cell]).await;
        let read = read.map_err(|error| ReleaseError::Failed(error.to_string()))?;
        let stored = match read.into_iter().next().flatten() {
            Some(Value::Bytes(stored)) => stored,
            _ => return Err(ReleaseError::NotParked(subject.clone())),
        };
        let parked: ParkedSubject =
            format::decode(&stored).map_err(|error| ReleaseError::Failed(error.to_string()))?;
        if parked.sent.is_some() {
            return Err(ReleaseError::NotParked(subject.clone()));
        }
        let value = format::encode(subject);
        let news = names::release_news(sink, &spec.feed);
        let commit = Commit::of([
            Operation::Put { key: ask.clone(), value: value.clone() },
            Operation::Put { key: news, value },
        ])
        .expecting(Expect::Bytes(key.clone(), Some(stored)));
        match store.commit(shard, commit).await {
            Ok(_) => return Ok(()),
            // The subject was released or parked anew meanwhile, or it may be: look again.
            Err(CommitError::Stale(_) | CommitError::Unknown(_)) => {}
            Err(error) => return Err(ReleaseError::Failed(error.to_string())),
        }
    }
    Err(ReleaseError::Failed("the parked document changes all the time".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(version: u64) -> SubjectRevision {
        SubjectRevision { life: [1, 2, 3, 4], version }
    }

    fn change(id: &str, version: u64) -> SubjectChange {
        let subject = Subject { tenant: "t".into(), id: id.into() };
        SubjectChange { subject, revision: revision(version), is_end: false }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let parked = ParkedSubject::new(&change("a", 5), 7, Moment(8), "no");
        let sent = Some(SentState { revision: revision(6), until: 9 });
        let parked = ParkedSubject { sent, ..parked };
        let stored = concat!(
            "\x01{\"tenant\":\"t\",\"id\":\"a\",\"number\":7,",
            "\"refused\":{\"life\":[1,2,3,4],\"version\":5},\"time\":8,\"reason\":\"no\",",
            "\"sent\":{\"revision\":{\"life\":[1,2,3,4],\"version\":6},\"until\":9}}"
        );
        assert_eq!(format::encode(&parked), stored);
        assert_eq!(format::decode(stored.as_bytes()), Ok(parked));
    }

    #[test]
    fn all_changes_of_a_parked_subject_are_passed_over_and_none_of_another() {
        let mut parked = ParkedSubjects::default();
        parked.insert(ParkedSubject::new(&change("a", 5), 7, Moment(8), "no"));
        assert!(parked.covers(&change("a", 6)) && !parked.covers(&change("b", 6)));
        assert_eq!((parked.waiting(), parked.through(u64::MAX)), (1, vec![]));
    }

    #[test]
    fn behind_a_release_the_changes_up_to_the_sent_state_are_passed_over() {
        let cell = ParkedSubject::new(&change("a", 5), 7, Moment(8), "no");
        let sent = Some(SentState { revision: revision(6), until: 9 });
        let mut parked = ParkedSubjects::default();
        parked.insert(ParkedSubject { sent, ..cell });
        assert!(parked.covers(&change("a", 6)) && !parked.covers(&change("a", 7)));
        // A new life begins with version 1 if the old one was forgotten.
        let next_life = SubjectRevision { life: [1, 2, 9, 0], version: 1 };
        assert!(!parked.covers(&SubjectChange { revision: next_life, ..change("a", 1) }));
        let through = vec![change("a", 1).subject];
        assert_eq!((parked.waiting(), parked.through(8), parked.through(9)), (0, vec![], through));
    }
}
