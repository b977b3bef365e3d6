//! How things are named on the server. All keys of a shard, and those of a partition, share a hash tag,
//! so that they lie on one node of a cluster.

use consort_kernel::{Name, Partition, Shard};

/// The names of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    namespace: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Self {
        Keys { namespace: namespace.to_string() }
    }

    /// What all of a shard's keys begin with.
    pub(super) fn shard(&self, shard: Shard) -> String {
        format!("consort:{{{}:shard:{}}}", self.namespace, shard.0)
    }

    /// A feed's stream.
    pub(super) fn feed(&self, shard: Shard, feed: &Name) -> String {
        format!("{}:f:{feed}", self.shard(shard))
    }

    /// A partition's stream.
    pub(super) fn partition(&self, at: &Partition) -> String {
        format!("consort:{{{}:log:{}:{}}}", self.namespace, at.stream, at.index)
    }

    /// The channel on which changes of a shard are told.
    pub(super) fn shard_channel(&self, shard: Shard) -> String {
        format!("{}:wake", self.shard(shard))
    }

    /// The channel on which a partition's new frames are told.
    pub(super) fn partition_channel(&self, at: &Partition) -> String {
        format!("{}:wake", self.partition(at))
    }
}
