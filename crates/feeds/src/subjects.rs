//! Subjects with a present state: feeds of documents, for example, whose changes are versions of a document.
//!
//! A feed of such a payload can be read one subject at a time, for one tenant, and as states instead of changes. A
//! sink that refuses a change parks the subject, because later changes build on the refused one.

use std::fmt;

use async_trait::async_trait;
use consort_kernel::{Change, Moment, QueryError, Shard, Store};
use serde::{Deserialize, Serialize};

/// The subject of a change: a document of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The tenant that the subject belongs to.
    pub tenant: String,
    /// The id of the subject within the tenant.
    pub id: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' of tenant '{}'", self.id, self.tenant)
    }
}

/// A revision of a subject. Of two revisions of the same subject the greater is the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SubjectRevision {
    /// The life of the subject, as numbers that order the lives of one subject.
    pub life: [u64; 4],
    /// The version within that life.
    pub version: u64,
}

/// The subject that a change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectChange {
    /// The subject.
    pub subject: Subject,
    /// Its revision after the change.
    pub revision: SubjectRevision,
    /// Whether the change ends the life of the subject.
    pub is_end: bool,
}

/// Changes of one subject that one state stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredChanges {
    /// The subject.
    pub subject: Subject,
    /// The version before the first of the changes.
    pub was: u64,
    /// The revision after the last of them.
    pub last: SubjectRevision,
    /// The time of the last of them.
    pub time: Moment,
    /// Whether the subject is to be told as deleted if the store has no trace of it. Otherwise a later change of the
    /// feed tells it.
    pub is_end: bool,
}

/// The present state of a subject.
#[derive(Clone, Debug)]
pub struct SubjectState {
    /// The state as a change, fit to be delivered.
    pub change: Change,
    /// The revision of the state.
    pub revision: SubjectRevision,
}

/// A payload whose changes are revisions of subjects, each of which has a present state in the store.
///
/// All changes of a subject stand in the feed of one shard, in the order of their revisions. The commit that changes
/// the state appends the change, so a reader that has seen a change finds a state of that revision or a later one.
#[async_trait]
pub trait SubjectPayload: Send + Sync {
    /// The subject that a change is about, and its revision.
    fn subject_change(&self, change: &Change) -> Result<SubjectChange, String>;

    /// The shard that holds the changes and the state of a subject, in a store with so many shards.
    fn shard(&self, subject: &Subject, shards: u16) -> Shard;

    /// Reads the present states of subjects of a shard, in the order asked. The answer may end early when its states
    /// have `most_bytes` together, but it has at least one entry. An entry is `None` if the store has no trace of the
    /// subject and a later change tells of its end.
    async fn states(
        &self,
        store: &dyn Store,
        shard: Shard,
        asked: &[CoveredChanges],
        most_bytes: usize,
    ) -> Result<Vec<Option<SubjectState>>, QueryError>;
}

/// How the changes of a feed are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendMode {
    /// Every change, in order.
    #[default]
    Pieces,
    /// Each changed subject once, as it is at delivery.
    States,
}
