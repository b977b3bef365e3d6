//! The config of the once part: `[once]`, and the spaces `[once.NAME]` below it.

mod space;
mod space_spec;

use std::net::SocketAddr;

use consort_server::once::{Space, Template};

use super::Config;
use super::part::{PartConfig, Summary, counted, insert_defaults};
use super::read::{self, duration_text, size_text};
use super::spec::{SettingSpec, TableSpec, quoted};

pub(crate) static PART: PartConfig = PartConfig {
    tables: &[TableSpec {
        name: "once",
        doc: "Answers that are computed once: what a node holds of them.",
        settings: &SETTINGS,
    }],
    declarations: &[space_spec::SPACE],
    reserved: &["once"],
    insert: insert_defaults::<OnceConfig>,
    summary,
    ..PartConfig::new("once")
};

/// `[once]`, and the spaces below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceConfig {
    /// Bytes of answers that the node keeps in memory.
    pub cache: u64,
    /// Requests that may wait on the node, in all and for one key.
    pub waiters: usize,
    pub waiters_per_key: usize,
    pub spaces: Vec<Space>,
}

static SETTINGS: [SettingSpec; 3] = [
    SettingSpec::new(
        "cache",
        &["Answers that the node keeps in memory, in bytes; \"0B\" for none."],
    )
    .with_default_from(|| quoted(&size_text(OnceConfig::default().cache)))
    .with_reader(|config, raw| {
        read::size(raw, 0..=1 << 36).map(|size| config.part_mut::<OnceConfig>().cache = size)
    }),
    SettingSpec::new(
        "waiters",
        &["Requests that may wait for answers on this node, in all; beyond it: 503 at once."],
    )
    .with_default_from(|| OnceConfig::default().waiters.to_string())
    .with_reader(|config, raw| {
        read::integer(raw, 1..=1_000_000)
            .map(|number| config.part_mut::<OnceConfig>().waiters = number as usize)
    }),
    SettingSpec::new("waiters_per_key", &["The same for one answer."])
        .with_default_from(|| OnceConfig::default().waiters_per_key.to_string())
        .with_reader(|config, raw| {
            read::integer(raw, 1..=1_000_000)
                .map(|number| config.part_mut::<OnceConfig>().waiters_per_key = number as usize)
        }),
];

impl Default for OnceConfig {
    fn default() -> OnceConfig {
        OnceConfig {
            cache: consort_once::CACHE_BYTES as u64,
            waiters: consort_once::WAITERS,
            waiters_per_key: consort_once::WAITERS_PER_KEY,
            spaces: Vec::new(),
        }
    }
}

impl Config {
    /// `[once]`, and the spaces below it.
    pub fn once(&self) -> &OnceConfig {
        self.part()
    }

    /// Points every space of once at the sample upstream that listens here: it is the tour's.
    pub fn ask_upstream_at(&mut self, address: SocketAddr) {
        for space in &mut self.part_mut::<OnceConfig>().spaces {
            if let Ok(template) =
                Template::parse(&format!("http://{address}/items/{{path}}?{{query}}"))
            {
                space.upstream = template;
            }
        }
    }
}

fn summary(config: &Config) -> Summary {
    let spaces = &config.once().spaces;
    let counts = (!spaces.is_empty()).then(|| counted(spaces.len(), "once space"));
    Summary {
        counts: counts.into_iter().collect(),
        lines: spaces.iter().map(describe_space).collect(),
    }
}

fn describe_space(space: &Space) -> String {
    let Space { name, upstream, terms, headers, .. } = space;
    let mut text = format!(
        "once '{name}': asks {}, fresh for {}",
        upstream.origin(),
        duration_text(terms.fresh_for)
    );
    if !terms.stale_for.is_zero() {
        text.push_str(&format!(", stale for {}", duration_text(terms.stale_for)));
    }
    if !headers.is_empty() {
        let names: Vec<&str> = headers.iter().map(|name| name.as_str()).collect();
        text.push_str(&format!(", by {}", names.join(", ")));
    }
    text
}
