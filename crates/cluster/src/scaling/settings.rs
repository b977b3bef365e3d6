//! What operators set for scaling.

use std::time::Duration;

/// The table `[scale]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleSettings {
    /// The fewest nodes that are ever wanted.
    pub min: u64,
    /// The most nodes that are ever wanted.
    pub max: u64,
    /// How long the load must fit one node less before that is wanted.
    pub down_after: Duration,
}

impl ScaleSettings {
    /// The number of nodes within the bounds that is nearest to `nodes`.
    pub(super) fn bound(&self, nodes: u64) -> u64 {
        nodes.max(self.min).min(self.max).max(1)
    }
}

impl Default for ScaleSettings {
    fn default() -> Self {
        ScaleSettings { min: 1, max: 64, down_after: Duration::from_secs(300) }
    }
}
