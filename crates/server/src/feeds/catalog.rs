//! The feeds that can be subscribed to, by their paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_feeds::FeedSpec;

/// All feeds of a node.
#[derive(Clone, Debug, Default)]
pub struct Catalog(BTreeMap<String, Arc<FeedSpec>>);

impl Catalog {
    /// The catalog of these feeds.
    pub fn new(feeds: impl IntoIterator<Item = Arc<FeedSpec>>) -> Catalog {
        Catalog(feeds.into_iter().map(|feed| (feed.path.clone(), feed)).collect())
    }

    /// The feeds in the order of their paths.
    pub(super) fn all(&self) -> impl Iterator<Item = &FeedSpec> {
        self.0.values().map(|feed| &**feed)
    }

    /// The feed with this path below `/feeds/`.
    pub(super) fn find(&self, path: &str) -> Option<&Arc<FeedSpec>> {
        self.0.get(path)
    }
}
