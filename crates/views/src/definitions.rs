//! All streams and views that a cluster has, kept in the store: every node must mean the same by them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use consort_cluster::format;
use consort_kernel::{
    Cell, Commit, CommitError, Expect, Key, Kind, Operation, QueryError, Shard, Store, Value,
};
use serde::{Deserialize, Serialize};

use crate::stream::Stream;
use crate::view::View;

/// Where the definitions are kept.
const HOME: Shard = Shard(0);

/// How often a node looks again when others wrote at the same moment.
const TRIES: usize = 5;

/// What a config declares.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// The streams.
    pub streams: Vec<Arc<Stream>>,
    /// The views.
    pub views: Vec<Arc<View>>,
}

/// Why a node cannot start with its definitions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionsError {
    /// The cluster has others.
    #[error(
        "the streams and views of this config are not those that the cluster has:\n{0}\nStart the node \
         with the cluster's definitions, or with another 'namespace' or folder in [engine] for these"
    )]
    Differ(Differences),
    /// They could not be read or written.
    #[error("the definitions could not be compared with those of the cluster: {0}")]
    Store(String),
}

/// Which definitions differ, and how; one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences(pub Vec<String>);

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(|line| format!("  - {line}")).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Definitions {
    /// The stream of this name.
    pub fn stream(&self, name: &str) -> Option<&Arc<Stream>> {
        self.streams.iter().find(|stream| stream.name.as_str() == name)
    }

    /// The view of this name.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.iter().find(|view| view.name.as_str() == name)
    }

    /// Makes sure that the cluster means the same: writes the definitions down if nobody did, and
    /// otherwise compares them. The answer has the numbers that the cluster gave to the views.
    pub async fn agree(&self, store: &dyn Store) -> Result<Definitions, DefinitionsError> {
        let own = Stored::of(self);
        if own == Stored::default() && self.kept(store).await?.is_none() {
            return Ok(Definitions::default());
        }
        let key = Key::from(["definitions"]);
        for _ in 0..TRIES {
            if let Some(kept) = self.kept(store).await? {
                let differences = own.differences(&kept);
                return match differences.0.is_empty() {
                    true => self.numbered(&kept.numbers),
                    false => Err(DefinitionsError::Differ(differences)),
                };
            }
            let put = Operation::Put { key: key.clone(), value: format::encode(&own) };
            let commit = Commit::of([put]).expecting(Expect::Bytes(key.clone(), None));
            match store.commit(HOME, commit).await {
                Ok(_) => return self.numbered(&own.numbers),
                // Another node was first, or it is not known whether we were: look again.
                Err(CommitError::Stale(_) | CommitError::Unknown(_)) => {}
                Err(error) => return Err(DefinitionsError::Store(error.to_string())),
            }
        }
        Err(DefinitionsError::Store("other nodes changed them again and again".into()))
    }

    /// These definitions with the numbers of their views.
    fn numbered(&self, numbers: &BTreeMap<String, u64>) -> Result<Definitions, DefinitionsError> {
        let number = |view: &Arc<View>| {
            let number = numbers.get(view.name.as_str()).copied();
            let number = number.ok_or_else(|| {
                DefinitionsError::Store(format!("the view '{}' has no number there", view.name))
            })?;
            Ok(Arc::new(View { number, ..View::clone(view) }))
        };
        let views = self.views.iter().map(number).collect::<Result<_, DefinitionsError>>()?;
        Ok(Definitions { streams: self.streams.clone(), views })
    }

    async fn kept(&self, store: &dyn Store) -> Result<Option<Stored>, DefinitionsError> {
        let failed = |error: QueryError| DefinitionsError::Store(error.to_string());
        let cell = Cell::new(Kind::Bytes, Key::from(["definitions"]));
        let held = store.get(HOME, &[cell]).await.map_err(failed)?;
        match held.into_iter().next().flatten() {
            Some(Value::Bytes(bytes)) => match format::decode(&bytes) {
                Ok(stored) => Ok(Some(stored)),
                Err(error) => Err(DefinitionsError::Store(error.to_string())),
            },
            _ => Ok(None),
        }
    }
}

/// What must be the same on every node; routes and shapes of answers may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    streams: BTreeMap<String, BTreeMap<String, String>>,
    views: BTreeMap<String, BTreeMap<String, String>>,
    /// What the keys of each view begin with.
    numbers: BTreeMap<String, u64>,
}

impl Stored {
    fn of(definitions: &Definitions) -> Self {
        let stream = |stream: &Arc<Stream>| (stream.name.to_string(), stored_stream(stream));
        let view = |view: &Arc<View>| (view.name.to_string(), stored_view(view));
        let views: BTreeMap<String, Settings> = definitions.views.iter().map(view).collect();
        Stored {
            streams: definitions.streams.iter().map(stream).collect(),
            numbers: views.keys().cloned().zip(1..).collect(),
            views,
        }
    }

    fn differences(&self, kept: &Stored) -> Differences {
        let mut lines = Vec::new();
        compare("stream", &self.streams, &kept.streams, &mut lines);
        compare("view", &self.views, &kept.views, &mut lines);
        Differences(lines)
    }
}

type Settings = BTreeMap<String, String>;

fn compare(
    what: &str,
    own: &BTreeMap<String, Settings>,
    kept: &BTreeMap<String, Settings>,
    lines: &mut Vec<String>,
) {
    let names = own.keys().chain(kept.keys().filter(|name| !own.contains_key(*name)));
    for name in names {
        match (own.get(name), kept.get(name)) {
            (Some(_), None) => lines.push(format!("{what} '{name}': the cluster does not have it")),
            (None, Some(_)) => lines.push(format!("{what} '{name}': only the cluster has it")),
            (Some(own), Some(kept)) => compare_settings(what, name, own, kept, lines),
            (None, None) => {}
        }
    }
}

fn compare_settings(
    what: &str,
    name: &str,
    own: &Settings,
    kept: &Settings,
    lines: &mut Vec<String>,
) {
    let settings = own.keys().chain(kept.keys().filter(|setting| !own.contains_key(*setting)));
    for setting in settings {
        let (own, kept) = (own.get(setting), kept.get(setting));
        if own != kept {
            let shown = |value: Option<&String>| match value {
                Some(value) => format!("'{value}'"),
                None => "not set".into(),
            };
            let (own, kept) = (shown(own), shown(kept));
            lines.push(format!(
                "{what} '{name}': {setting} is {own} here and {kept} in the cluster"
            ));
        }
    }
}

fn stored_stream(stream: &Stream) -> Settings {
    let fields = stream.schema.fields();
    let name = |at: &usize| fields[*at].name.clone();
    let mut settings = Settings::new();
    for field in fields {
        settings.insert(format!("field {}", field.name), field.ty.written());
    }
    // Streams of JSON, which is the default, are stored as they were before there were others.
    if stream.schema.form().is_line() {
        settings.insert("form".into(), stream.schema.form().to_string());
    }
    if stream.schema.is_inferred() {
        settings.insert("fields".into(), "not declared".into());
    }
    if !stream.key.is_empty() {
        let key: Vec<String> = stream.key.iter().map(name).collect();
        settings.insert("key".into(), key.join(", "));
    }
    if let Some(id) = &stream.id {
        settings.insert("id".into(), name(id));
    }
    if let Some(time) = &stream.time {
        settings.insert("time".into(), name(time));
    }
    settings.insert("ids_for".into(), format!("{:?}", stream.ids_for));
    settings.insert("partitions".into(), stream.partitions.to_string());
    settings
}

fn stored_view(view: &View) -> Settings {
    let texts: Vec<&str> = view.aggregate.expressions().iter().map(|e| e.text()).collect();
    let by: Vec<String> = view
        .by
        .iter()
        .map(|field| match field.expression.text() == field.name {
            true => field.name.clone(),
            false => format!("{} = {}", field.name, field.expression.text()),
        })
        .collect();
    let mut settings = Settings::from([
        ("from".into(), view.from.name.to_string()),
        ("by".into(), by.join(", ")),
        ("aggregate".into(), format!("{}({})", view.aggregate.name(), texts.join(", "))),
    ]);
    if let Some(condition) = &view.condition {
        settings.insert("where".into(), condition.text().into());
    }
    if let Some(windows) = &view.windows {
        settings.insert("window".into(), format!("{:?}", windows.length));
        settings.insert("grace".into(), format!("{:?}", windows.grace));
        settings.insert("keep".into(), format!("{:?}", windows.keep));
        settings.insert("late".into(), windows.late.name().into());
    }
    settings
}
