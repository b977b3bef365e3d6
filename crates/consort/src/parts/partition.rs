//! The roles that fold a partition of a stream, and how one that stopped for a loss goes on.

use std::sync::Arc;

use consort_cluster::Role;
use consort_cluster::worker::{self, Resume, resolve};
use consort_kernel::{Log, Name, Partition, Store};
use consort_server::{Resolved, Resolver, Resolving};
use futures::FutureExt as _;

/// The pipeline of a partition whose part says nothing else.
pub(super) const PIPELINE: &str = "all";

/// Resolves `worker:STREAM/INDEX` as one pipeline.
#[derive(Debug)]
pub(crate) struct PartitionResolver {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) store: Arc<dyn Store>,
}

impl Resolver for PartitionResolver {
    fn resolve(&self, role: &Role, from: Resume) -> Option<Resolving> {
        let partition = partition(role)?;
        let pipeline = Name::new(PIPELINE).ok()?;
        let (log, store) = (Arc::clone(&self.log), Arc::clone(&self.store));
        let resolving = async move {
            let checkpoint = resolve(&*store, &*log, &partition, &pipeline, from).await?;
            let (era, offset) = (checkpoint.stand.era, checkpoint.stand.next);
            Ok(Resolved { era, offset })
        };
        Some(resolving.boxed())
    }
}

/// The partition that a role folds.
fn partition(role: &Role) -> Option<Partition> {
    let (stream, index) = role.name().rsplit_once('/')?;
    let stream = Name::new(stream).ok()?;
    (role.kind() == worker::KIND).then_some(Partition::new(stream, index.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_workers_of_partitions_fold_one() {
        let lift = Partition::new(Name::new("lift_rides").unwrap(), 7);
        assert_eq!(partition(&Role::new("worker", "lift_rides/7")), Some(lift));
        for (kind, name) in [
            ("closer", "lift_rides/7"),
            ("worker", "lift_rides"),
            ("worker", "lift_rides/x"),
            ("worker", "lift/rides/7"),
            ("worker", "/7"),
        ] {
            assert_eq!(partition(&Role::new(kind, name)), None, "{kind}:{name}");
        }
    }
}
