//! The config of the feeds part: `[sink.NAME]`, and the setting `sink` of the tables that fill feeds.

mod sink_spec;
mod sinks;

use consort_feeds::SinkConfig;

use super::Config;
use super::part::{PartConfig, Summary, counted, insert_defaults};

pub(crate) use sinks::{Sinks, read_sinks};

pub(crate) static PART: PartConfig = PartConfig {
    declarations: &[sink_spec::SINK],
    reserved: &["feeds", "sinks"],
    insert: insert_defaults::<FeedsConfig>,
    summary,
    ..PartConfig::new("feeds")
};

/// The sinks of a config.
#[derive(Debug, Clone, Default)]
pub struct FeedsConfig {
    pub sinks: Vec<SinkConfig>,
}

impl Config {
    /// Where changes can be delivered to.
    pub fn sinks(&self) -> &[SinkConfig] {
        &self.part::<FeedsConfig>().sinks
    }
}

fn summary(config: &Config) -> Summary {
    let sinks = config.sinks();
    let counts = (!sinks.is_empty()).then(|| counted(sinks.len(), "sink"));
    let lines = sinks.iter().map(|sink| format!("sink '{}': {}", sink.name, sink.kind));
    Summary { counts: counts.into_iter().collect(), lines: lines.collect() }
}
