//! The definition of a collection: the settings that all nodes agree on.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::bounds::{HISTORY_STRIDE, MAX_DOCUMENT_IN_FEED, MAX_HISTORY, MAX_PIECE};
use crate::json::JsonDocument;
use crate::names::check_collection_name;
use crate::xml::XmlDocument;
use crate::{GlueNameError, Rejection};

/// The most partitions of a collection's log.
const MAX_PARTITIONS: u32 = 1_024;

/// The definition of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Its name.
    pub name: String,
    /// The format of its documents.
    pub format: DocumentFormat,
    /// The partitions of its log: the most nodes that share it.
    pub partitions: u32,
    /// How long the log keeps applied pieces.
    pub retain: Duration,
    /// The largest document, in bytes.
    pub max_document: usize,
    /// Whether a merge patch creates a missing document.
    pub absent: Absent,
    /// The document that a patch starts from when there is none.
    pub template: Option<Bytes>,
    /// Whether a merge patch begins a new life after a delete.
    pub revive: bool,
    /// What a rejected piece does to its document.
    pub on_reject: OnReject,
    /// How a gap in the numbers of a source ends.
    pub on_gap: OnGap,
    /// How long a missing number is awaited.
    pub gap_for: Duration,
    /// How long an idempotency key counts.
    pub ids_for: Duration,
    /// How many versions can be read back.
    pub history: u32,
    /// What feed rows hold.
    pub feed: FeedContent,
    /// How long feed rows are kept.
    pub feed_keep: Duration,
    /// How many bytes of feed rows a shard keeps.
    pub feed_bytes: u64,
    /// How long a deleted document is remembered.
    pub tombstones: Duration,
    /// How many unapplied pieces of a tenant a partition takes.
    pub tenant_pieces: u64,
    /// How many bytes of unapplied pieces of a tenant a partition takes.
    pub tenant_bytes: u64,
}

/// Why a collection cannot be defined like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectionError {
    /// Its name.
    #[error(transparent)]
    Name(#[from] GlueNameError),
    /// A setting.
    #[error("'{setting}' {problem}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl Collection {
    /// A collection with the defaults.
    pub fn new(name: impl Into<String>, format: DocumentFormat, partitions: u32) -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Collection {
            name: name.into(),
            format,
            partitions,
            retain: 7 * DAY,
            max_document: 1 << 20,
            absent: Absent::Create,
            template: None,
            revive: false,
            on_reject: OnReject::Skip,
            on_gap: OnGap::Skip,
            gap_for: Duration::from_secs(30),
            ids_for: Duration::from_secs(60 * 60),
            history: 0,
            feed: FeedContent::Pieces,
            feed_keep: DAY,
            feed_bytes: 256 << 20,
            tombstones: 30 * DAY,
            tenant_pieces: 1_000,
            tenant_bytes: 4 << 20,
        }
    }

    /// Checks the settings, each alone and with the others.
    pub fn check(&self) -> Result<(), CollectionError> {
        check_collection_name(&self.name)?;
        let largest = match self.feed {
            FeedContent::Pieces => MAX_PIECE,
            FeedContent::Document => MAX_DOCUMENT_IN_FEED,
        };
        within("partitions", u64::from(self.partitions), 1, MAX_PARTITIONS.into())?;
        within("max_document", self.max_document as u64, 1, largest as u64)?;
        within("history", self.history.into(), 0, MAX_HISTORY.into())?;
        for (setting, time) in [("gap_for", self.gap_for), ("ids_for", self.ids_for)] {
            if time.as_millis() == 0 {
                return Err(wrong(setting, "must be at least 1ms"));
            }
        }
        for (setting, time) in [("ids_for", self.ids_for), ("retain", self.retain)] {
            if self.tombstones < time {
                return Err(wrong("tombstones", format!("must be at least '{setting}'")));
            }
        }
        self.check_template()
    }

    fn check_template(&self) -> Result<(), CollectionError> {
        let Some(template) = &self.template else { return Ok(()) };
        let size = match self.format {
            DocumentFormat::Json => JsonDocument::parse(template).map(|document| document.size()),
            DocumentFormat::Xml => XmlDocument::parse(template).map(|document| document.size()),
        };
        let no_document = |error: Rejection| {
            wrong("template", format!("is no {} document: {error}", self.format))
        };
        let size = size.map_err(no_document)?;
        if size > self.max_document {
            return Err(wrong("template", format!("has {size} bytes, more than 'max_document'")));
        }
        Ok(())
    }

    /// How many slots the ring of a document's history has.
    pub fn ring_slots(&self) -> u64 {
        if self.history == 0 { 0 } else { u64::from(self.history) + HISTORY_STRIDE }
    }

    /// The definition as canonical JSON, without the name. Times are milliseconds.
    pub fn to_json(&self) -> Value {
        let template = self.template.as_ref().map(|text| String::from_utf8_lossy(text));
        json!({
            "format": self.format.as_str(),
            "partitions": self.partitions,
            "retain": millis(self.retain),
            "max_document": self.max_document,
            "absent": match self.absent { Absent::Create => "create", Absent::Reject => "reject" },
            "template": template,
            "revive": self.revive,
            "on_reject": match self.on_reject { OnReject::Skip => "skip", OnReject::Halt => "halt" },
            "on_gap": match self.on_gap {
                OnGap::Skip => "skip",
                OnGap::Reject => "reject",
                OnGap::Halt => "halt",
            },
            "gap_for": millis(self.gap_for),
            "ids_for": millis(self.ids_for),
            "history": self.history,
            "feed": match self.feed {
                FeedContent::Pieces => "pieces",
                FeedContent::Document => "document",
            },
            "feed_keep": millis(self.feed_keep),
            "feed_bytes": self.feed_bytes,
            "tombstones": millis(self.tombstones),
            "tenant_pieces": self.tenant_pieces,
            "tenant_bytes": self.tenant_bytes,
        })
    }

    /// Reads a definition that [`to_json`](Collection::to_json) made, and checks it.
    pub fn from_json(name: &str, definition: &Value) -> Result<Self, CollectionError> {
        let settings = Settings(definition);
        let collection = Collection {
            name: name.into(),
            format: settings
                .choice("format", [("json", DocumentFormat::Json), ("xml", DocumentFormat::Xml)])?,
            partitions: settings.small("partitions")?,
            retain: settings.time("retain")?,
            max_document: settings.size("max_document")?,
            absent: settings
                .choice("absent", [("create", Absent::Create), ("reject", Absent::Reject)])?,
            template: settings.text("template")?,
            revive: settings.flag("revive")?,
            on_reject: settings
                .choice("on_reject", [("skip", OnReject::Skip), ("halt", OnReject::Halt)])?,
            on_gap: settings.choice(
                "on_gap",
                [("skip", OnGap::Skip), ("reject", OnGap::Reject), ("halt", OnGap::Halt)],
            )?,
            gap_for: settings.time("gap_for")?,
            ids_for: settings.time("ids_for")?,
            history: settings.small("history")?,
            feed: settings.choice(
                "feed",
                [("pieces", FeedContent::Pieces), ("document", FeedContent::Document)],
            )?,
            feed_keep: settings.time("feed_keep")?,
            feed_bytes: settings.number("feed_bytes")?,
            tombstones: settings.time("tombstones")?,
            tenant_pieces: settings.number("tenant_pieces")?,
            tenant_bytes: settings.number("tenant_bytes")?,
        };
        collection.check()?;
        Ok(collection)
    }
}

/// The format of a collection's documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentFormat {
    /// JSON.
    Json,
    /// XML.
    Xml,
}

/// What a merge patch does where there is no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It creates the document.
    Create,
    /// It is rejected.
    Reject,
}

/// What a rejected piece does to its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReject {
    /// Nothing: the next piece is applied.
    Skip,
    /// The document stops until an operator decides.
    Halt,
}

/// How a gap in the numbers of a source ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnGap {
    /// The pieces behind it are applied.
    Skip,
    /// The pieces behind it are rejected.
    Reject,
    /// The document stops until the missing piece arrives or an operator decides.
    Halt,
}

/// What feed rows hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedContent {
    /// The piece.
    Pieces,
    /// The piece, and the document after it.
    Document,
}

impl DocumentFormat {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            DocumentFormat::Json => "json",
            DocumentFormat::Xml => "xml",
        }
    }
}

impl fmt::Display for DocumentFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DocumentFormat::Json => "JSON",
            DocumentFormat::Xml => "XML",
        })
    }
}

/// The members of a definition.
struct Settings<'a>(&'a Value);

impl Settings<'_> {
    fn number(&self, setting: &'static str) -> Result<u64, CollectionError> {
        self.0[setting].as_u64().ok_or_else(|| wrong(setting, "is no whole number"))
    }

    fn small(&self, setting: &'static str) -> Result<u32, CollectionError> {
        self.number(setting)?.try_into().map_err(|_| wrong(setting, "is too large"))
    }

    fn size(&self, setting: &'static str) -> Result<usize, CollectionError> {
        self.number(setting)?.try_into().map_err(|_| wrong(setting, "is too large"))
    }

    fn time(&self, setting: &'static str) -> Result<Duration, CollectionError> {
        self.number(setting).map(Duration::from_millis)
    }

    fn flag(&self, setting: &'static str) -> Result<bool, CollectionError> {
        self.0[setting].as_bool().ok_or_else(|| wrong(setting, "is neither true nor false"))
    }

    fn text(&self, setting: &'static str) -> Result<Option<Bytes>, CollectionError> {
        match &self.0[setting] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(Bytes::copy_from_slice(text.as_bytes()))),
            _ => Err(wrong(setting, "is no text")),
        }
    }

    fn choice<T: Copy, const N: usize>(
        &self,
        setting: &'static str,
        choices: [(&str, T); N],
    ) -> Result<T, CollectionError> {
        let found = self.0[setting].as_str();
        let choice = choices.iter().find(|(name, _)| found == Some(name));
        choice.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            wrong(setting, format!("must be {}", names.join(" or ")))
        })
    }
}

fn within(setting: &'static str, value: u64, least: u64, most: u64) -> Result<(), CollectionError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(wrong(setting, format!("must be from {least} to {most}, it is {value}")))
}

fn wrong(setting: &'static str, problem: impl Into<String>) -> CollectionError {
    CollectionError::Setting { setting, problem: problem.into() }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection() -> Collection {
        Collection::new("content", DocumentFormat::Json, 4)
    }

    #[test]
    fn h50_a_definition_comes_back_from_its_json() {
        let other = Collection {
            format: DocumentFormat::Xml,
            template: Some(Bytes::from_static(b"<a/>")),
            absent: Absent::Reject,
            revive: true,
            on_reject: OnReject::Halt,
            on_gap: OnGap::Reject,
            history: 1_000,
            feed: FeedContent::Document,
            max_document: MAX_DOCUMENT_IN_FEED,
            ..collection()
        };
        for collection in [collection(), other] {
            assert_eq!(collection.check(), Ok(()));
            assert_eq!(Collection::from_json("content", &collection.to_json()), Ok(collection));
        }
    }

    #[test]
    fn the_agreed_form_is_the_same_in_every_release() {
        let definition = concat!(
            r#"{"absent":"create","feed":"pieces","feed_bytes":268435456,"feed_keep":86400000,"#,
            r#""format":"json","gap_for":30000,"history":0,"ids_for":3600000,"#,
            r#""max_document":1048576,"on_gap":"skip","on_reject":"skip","partitions":4,"#,
            r#""retain":604800000,"revive":false,"template":null,"tenant_bytes":4194304,"#,
            r#""tenant_pieces":1000,"tombstones":2592000000}"#
        );
        assert_eq!(collection().to_json().to_string(), definition);
    }

    #[test]
    fn settings_that_cannot_be_kept_are_refused_by_name() {
        let change = |change: fn(&mut Collection)| {
            let mut collection = collection();
            change(&mut collection);
            collection.check().unwrap_err().to_string()
        };
        let cases: [(String, &str); 8] = [
            (change(|c| c.name = "a.b".into()), "the name of a collection"),
            (change(|c| c.partitions = 0), "'partitions' must be from 1 to 1024, it is 0"),
            (change(|c| c.max_document = MAX_PIECE + 1), "'max_document' must be"),
            (
                change(|c| {
                    c.feed = FeedContent::Document;
                    c.max_document = MAX_DOCUMENT_IN_FEED + 1;
                }),
                "'max_document' must be",
            ),
            (change(|c| c.history = 1_001), "'history' must be from 0 to 1000"),
            (change(|c| c.tombstones = Duration::from_secs(1)), "'tombstones' must be at least"),
            (change(|c| c.template = Some("<a/>".into())), "'template' is no JSON document"),
            (change(|c| c.gap_for = Duration::ZERO), "'gap_for' must be at least 1ms"),
        ];
        for (message, expected) in cases {
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn a_definition_with_an_unknown_choice_names_the_known_ones() {
        let mut definition = collection().to_json();
        definition["on_gap"] = json!("wait");
        let error = Collection::from_json("content", &definition).unwrap_err();
        assert_eq!(error.to_string(), "'on_gap' must be \"skip\" or \"reject\" or \"halt\"");
    }
}
