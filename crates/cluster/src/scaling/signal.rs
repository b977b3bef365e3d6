//! The scaling signal: what all nodes report, put together for one decision.

use std::collections::BTreeMap;

use crate::load::StreamReport;
use crate::report::{Report, RoleReport};
use crate::roster::Roster;
use crate::worker;

/// What the rule looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleSignal {
    /// The live nodes that are not about to leave.
    pub nodes: Vec<NodeSignal>,
    /// The partitions that have an owner.
    pub partitions: Vec<PartitionSignal>,
    /// The input of each stream, through all nodes.
    pub streams: Vec<StreamSignal>,
    /// The sum of the epochs of all workers' leases: it grows with every hand-over.
    pub epochs: u64,
}

/// A live node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSignal {
    /// The processor time that it uses, in thousandths of one core.
    pub cpu_millicores: u64,
    /// How many cores it may use; 0 if it did not say.
    pub cores: u32,
}

/// A partition with its worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionSignal {
    /// Its name, such as `lift_rides/7`.
    pub name: String,
    /// The node that owns it.
    pub node: String,
    /// The share of time with a batch in hand, in thousandths.
    pub busy_permille: u64,
    /// Records applied a second.
    pub applied_per_s: u64,
    /// The age of the oldest record that is not applied, in milliseconds.
    pub lag_ms: u64,
    /// Whether it waits for an operator.
    pub stopped: bool,
}

/// The input of a stream, in records a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSignal {
    /// Its name.
    pub stream: String,
    /// Acknowledged.
    pub accepted_per_s: u64,
    /// Refused for overload.
    pub refused_per_s: u64,
    /// Held at the door.
    pub delayed_per_s: u64,
}

impl ScaleSignal {
    /// What a roster shows. Reports of nodes that are no longer live say nothing of now.
    pub fn from_roster(roster: &Roster) -> ScaleSignal {
        let mut signal = ScaleSignal::default();
        let mut streams: BTreeMap<String, StreamSignal> = BTreeMap::new();
        for member in roster.live() {
            let report = roster.reports.get(&member.id);
            let report = report.filter(|report| report.incarnation == member.incarnation);
            let load = report.and_then(|report| report.load.clone()).unwrap_or_default();
            if !roster.is_draining(member) {
                let (cpu_millicores, cores) = (load.cpu_millicores, load.cores);
                signal.nodes.push(NodeSignal { cpu_millicores, cores });
            }
            load.streams.iter().for_each(|input| add(&mut streams, input));
            if let Some(report) = report {
                signal.partitions.extend(partitions(roster, &member.id, report));
            }
        }
        signal.streams = streams.into_values().collect();
        let workers = roster.leases.iter().filter(|(role, _)| role.kind() == worker::KIND);
        signal.epochs = workers.map(|(_, found)| found.value.epoch).sum();
        signal
    }
}

fn add(streams: &mut BTreeMap<String, StreamSignal>, input: &StreamReport) {
    let stream = streams.entry(input.stream.clone()).or_default();
    stream.stream.clone_from(&input.stream);
    stream.accepted_per_s += input.accepted_per_s;
    stream.refused_per_s += input.refused_per_s;
    stream.delayed_per_s += input.delayed_per_s;
}

/// The partitions that a node reports and owns.
fn partitions<'a>(
    roster: &'a Roster,
    id: &'a str,
    report: &'a Report,
) -> impl Iterator<Item = PartitionSignal> + 'a {
    let owned = move |said: &&RoleReport| {
        let lease = roster.leases.get(&said.role);
        said.role.kind() == worker::KIND
            && roster.owner(&said.role) == Some(id)
            && lease.is_some_and(|found| found.value.epoch == said.epoch)
    };
    report.roles.iter().filter(owned).map(move |said| PartitionSignal {
        name: said.role.name().to_owned(),
        node: id.to_owned(),
        busy_permille: said.busy_permille,
        applied_per_s: said.applied_per_s,
        lag_ms: said.lag.unwrap_or_default(),
        stopped: said.stopped.is_some(),
    })
}
