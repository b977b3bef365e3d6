//! The config of the feeds part: `[sink.NAME]`, and which views fill feeds.

mod sink_spec;
mod sinks;

use std::collections::BTreeMap;

use consort_feeds::{Outlet, SinkConfig, UnknownSink};

use super::part::{PartConfig, Summary, counted, insert_defaults};
use super::problem::Problem;
use super::{Config, Given};

pub(super) static PART: PartConfig = PartConfig {
    declarations: &[sink_spec::SINK],
    reserved: &["feeds", "sinks"],
    insert: insert_defaults::<FeedsConfig>,
    finish: collect_rows,
    summary,
    ..PartConfig::new("feeds")
};

/// The sinks of a config, and the feeds that reach them.
#[derive(Debug, Clone, Default)]
pub struct FeedsConfig {
    pub sinks: Vec<SinkConfig>,
    /// The views that emit rows, each with the names of the sinks that they go to.
    pub rows: BTreeMap<String, Vec<String>>,
}

impl Config {
    /// Where rows can be delivered to.
    pub fn sinks(&self) -> &[SinkConfig] {
        &self.part::<FeedsConfig>().sinks
    }

    /// The views that emit rows, each with the names of the sinks that they go to.
    pub fn rows(&self) -> &BTreeMap<String, Vec<String>> {
        &self.part::<FeedsConfig>().rows
    }

    /// The sinks that views name, each with the feeds of those views. `views` are the names of views, each
    /// with the names of its sinks.
    pub fn outlets<'a>(
        &self,
        views: impl IntoIterator<Item = (&'a str, &'a [String])>,
    ) -> Result<Vec<Outlet>, UnknownSink> {
        consort_feeds::outlets(self.sinks(), views)
    }
}

/// Every view with windows emits rows.
fn collect_rows(config: &mut Config, _: &Given, _: &mut Vec<Problem>) {
    let views = &config.definitions().views;
    let windowed = views.iter().filter(|view| view.windows.is_some());
    let rows: Vec<_> = windowed.map(|view| (view.name.to_string(), view.sinks.clone())).collect();
    config.part_mut::<FeedsConfig>().rows.extend(rows);
}

fn summary(config: &Config) -> Summary {
    let sinks = config.sinks();
    let counts = (!sinks.is_empty()).then(|| counted(sinks.len(), "sink"));
    let lines = sinks.iter().map(|sink| format!("sink '{}': {}", sink.name, sink.kind));
    Summary { counts: counts.into_iter().collect(), lines: lines.collect() }
}
