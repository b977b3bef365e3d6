//! Agreement: every node of a cluster must mean the same by the things that its config declares.
//!
//! Each part declares its definitions: a kind, a name, and a JSON value. One cell of the store settles all
//! of them. The first node writes the cell; every later node compares its own definitions with it, and does
//! not start when they differ. The cell also gives each name a number, for short keys.

mod difference;
mod stored;

use std::collections::BTreeMap;
use std::fmt;

use consort_kernel::{
    Cell, Commit, CommitError, Expect, Key, Kind, Operation, QueryError, Store, Value,
};
use serde_json::Value as Json;

use crate::keys::SHARD;
use stored::Settled;
pub(crate) use stored::VERSION;

/// How often a node reads the cell again, after another node wrote it at the same moment or after a
/// commit of unknown outcome. The cell is written once, so two attempts suffice unless the store fails.
const ATTEMPTS: usize = 5;

/// The definitions that one node has: by kind (`stream`, `view`), then by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    definitions: BTreeMap<String, BTreeMap<String, Json>>,
}

/// The definitions that the cluster agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    numbers: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Why a node cannot start with its definitions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgreementError {
    /// The cluster has other definitions.
    #[error(
        "the definitions of this config differ from those that the cluster has:\n{0}\nStart the node \
         with the cluster's definitions, or with another 'namespace' or folder in [engine] for these"
    )]
    Differ(Differences),
    /// The cell could not be read or written.
    #[error("the definitions could not be compared with those of the cluster: {0}")]
    Store(String),
    /// The cluster gave no number to a name that this node uses.
    #[error("the cluster has no number for the {kind} '{name}'")]
    NoNumber {
        /// The kind of the definition.
        kind: String,
        /// Its name.
        name: String,
    },
}

/// One line for each difference; never empty in an [`AgreementError`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences(pub Vec<String>);

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(|line| format!("  - {line}")).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Agreement {
    /// No definitions yet.
    pub fn new() -> Self {
        Agreement::default()
    }

    /// Adds a definition. `kind` is a singular noun, as messages say it. A second definition with the same
    /// kind and name replaces the first.
    ///
    /// Values are compared as JSON: the order of an object's members does not count, and every other
    /// difference does. The members of an object are the settings that messages name.
    pub fn define(
        mut self,
        kind: impl Into<String>,
        name: impl Into<String>,
        definition: Json,
    ) -> Self {
        self.definitions.entry(kind.into()).or_default().insert(name.into(), definition);
        self
    }

    /// Settles these definitions in the cluster: writes them if the cluster has none, and compares them
    /// otherwise. A node without definitions writes nothing.
    ///
    /// Two nodes at the same moment: both read no cell and both commit, expecting none. The store applies
    /// one commit and refuses the other, whose node reads the cell again and compares. After a commit of
    /// unknown outcome a node does the same.
    pub async fn agree(&self, store: &dyn Store) -> Result<Agreed, AgreementError> {
        let mut unsettled = String::new();
        for _ in 0..ATTEMPTS {
            if let Some(settled) = read(store).await? {
                return self.compare(&settled);
            }
            if self.definitions.is_empty() {
                return Ok(Agreed::default());
            }
            let own = Settled::first(&self.definitions);
            let put = Operation::Put { key: key(), value: own.encode() };
            let commit = Commit::of([put]).expecting(Expect::Bytes(key(), None));
            match store.commit(SHARD, commit).await {
                Ok(_) => return Ok(Agreed { numbers: own.numbers() }),
                Err(error @ (CommitError::Stale(_) | CommitError::Unknown(_))) => {
                    unsettled = error.to_string();
                }
                Err(error) => return Err(AgreementError::Store(error.to_string())),
            }
        }
        Err(AgreementError::Store(format!(
            "{ATTEMPTS} attempts to write them had no certain outcome, the last one because: {unsettled}"
        )))
    }

    fn compare(&self, settled: &Settled) -> Result<Agreed, AgreementError> {
        let differences = difference::list(&self.definitions, &settled.definitions());
        match differences.is_empty() {
            true => Ok(Agreed { numbers: settled.numbers() }),
            false => Err(AgreementError::Differ(Differences(differences))),
        }
    }
}

impl Agreed {
    /// The number of a definition: unique within its kind, and the same on every node, for as long as the
    /// store exists.
    pub fn number(&self, kind: &str, name: &str) -> Result<u64, AgreementError> {
        let number = self.numbers.get(kind).and_then(|names| names.get(name));
        number.copied().ok_or_else(|| AgreementError::NoNumber {
            kind: kind.to_owned(),
            name: name.to_owned(),
        })
    }
}

async fn read(store: &dyn Store) -> Result<Option<Settled>, AgreementError> {
    let failed = |error: QueryError| AgreementError::Store(error.to_string());
    let cell = Cell::new(Kind::Bytes, key());
    match store.get(SHARD, &[cell]).await.map_err(failed)?.into_iter().next().flatten() {
        Some(Value::Bytes(bytes)) => {
            let settled = Settled::decode(&bytes);
            settled.map(Some).map_err(|error| AgreementError::Store(error.to_string()))
        }
        _ => Ok(None),
    }
}

/// The cell that settles all definitions.
fn key() -> Key {
    Key::from(["definitions"])
}
