//! The config of the glue part: `[glue]`, the collections `[glue.NAME]` below it, and `[tenant.NAME]`.

mod collection;
mod collection_spec;
mod sources;
mod tenant;

use std::collections::BTreeMap;
use std::fmt;

use consort_glue::{Collection, DocumentFormat};
use consort_server::{TenantName, Tokens};

use super::part::{PartConfig, Summary, counted, insert_defaults};
use super::problem::Place;
use super::read::{self, duration_text, size_text};
use super::redact::SecretUrl;
use super::spec::{SettingSpec, TableSpec, quoted};
use super::{Config, Gate};

pub(crate) static PART: PartConfig = PartConfig {
    tables: &[TableSpec {
        name: "glue",
        doc: "Documents from ordered pieces: what a node holds of them.",
        settings: &SETTINGS,
    }],
    declarations: &[tenant::TENANT, collection_spec::COLLECTION],
    reserved: &["glue"],
    insert: insert_defaults::<GlueConfig>,
    finish: tenant::finish,
    summary,
    ..PartConfig::new("glue")
};

/// `[glue]`, and the collections and tenants.
#[derive(Debug, Clone)]
pub struct GlueConfig {
    /// Bytes of parsed documents that the node keeps in memory.
    pub cache: u64,
    pub collections: Vec<CollectionSettings>,
    /// The declared tenants.
    pub tenants: BTreeMap<TenantName, TenantSettings>,
}

/// A collection: its definition, and the settings that are this node's own matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionSettings {
    /// All nodes agree on it.
    pub definition: Collection,
    pub gate: Gate,
    /// The queues that fill it, beside requests.
    pub queues: Vec<PieceQueue>,
    /// The sinks of its feed.
    pub sinks: Vec<String>,
}

/// A queue with the pieces of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceQueue {
    pub url: SecretUrl,
    pub queue: String,
    pub tenant: TenantName,
}

/// What is declared of a tenant.
#[derive(Clone)]
pub struct TenantSettings {
    /// Its access tokens. The door has them among those of `[http]`.
    pub tokens: Tokens,
    /// Where it is declared.
    pub(crate) place: Place,
}

/// Its place is not one of its settings.
impl fmt::Debug for TenantSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantSettings").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

static SETTINGS: [SettingSpec; 1] = [SettingSpec::new(
    "cache",
    &["Parsed documents that the node keeps in memory, in bytes, for all its partitions together."],
)
.with_default_from(|| quoted(&size_text(GlueConfig::default().cache)))
.with_reader(|config, raw| {
    // A partition keeps the documents of a slice whatever its share is; less than one slice saves nothing.
    read::size(raw, 8 << 20..=1 << 38).map(|size| config.part_mut::<GlueConfig>().cache = size)
})];

impl Default for GlueConfig {
    fn default() -> GlueConfig {
        GlueConfig { cache: 64 << 20, collections: Vec::new(), tenants: BTreeMap::new() }
    }
}

impl Config {
    /// `[glue]`, and the collections and tenants.
    pub fn glue(&self) -> &GlueConfig {
        self.part()
    }
}

fn summary(config: &Config) -> Summary {
    let GlueConfig { collections, tenants, .. } = config.glue();
    let counted = |number: usize, noun: &str| (number > 0).then(|| counted(number, noun));
    let counts = [counted(collections.len(), "collection"), counted(tenants.len(), "tenant")];
    let tenant = |(name, settings): (&TenantName, &TenantSettings)| {
        let tokens = settings.tokens.count();
        // Then no request without a token is answered, and none with a tenant's is the operator's.
        let locked_out = match tokens > 0 && !config.http.tokens.has_operator() {
            true => "; the operator has none: set 'tokens' in [http] as well",
            false => "",
        };
        format!("tenant '{name}': {}{locked_out}", self::counted(tokens, "access token"))
    };
    let lines = collections.iter().map(describe).chain(tenants.iter().map(tenant));
    Summary { counts: counts.into_iter().flatten().collect(), lines: lines.collect() }
}

fn describe(settings: &CollectionSettings) -> String {
    let CollectionSettings { definition, queues, sinks, .. } = settings;
    let format = match definition.format {
        DocumentFormat::Json => "JSON",
        DocumentFormat::Xml => "XML",
    };
    let mut text = format!(
        "glue '{}': {format} documents up to {}, {}, pieces kept for {}",
        definition.name,
        size_text(definition.max_document as u64),
        counted(definition.partitions as usize, "partition"),
        duration_text(definition.retain)
    );
    if definition.history > 0 {
        text.push_str(&format!(", {}", counted(definition.history as usize, "old version")));
    }
    if !queues.is_empty() {
        let queues: Vec<&str> = queues.iter().map(|queue| &*queue.queue).collect();
        text.push_str(&format!(", from {}", queues.join(", ")));
    }
    if !sinks.is_empty() {
        text.push_str(&format!(", to {}", sinks.join(", ")));
    }
    text
}
