//! The pause of each partition at each hand-over, as the nodes show it.

use std::collections::BTreeMap;

use consort_client::Cluster;
use consort_cluster::PauseCause;

/// Pauses by role and epoch: each tenure has one.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    pauses: BTreeMap<(String, u64), (PauseCause, u64)>,
    /// The last epoch of each role.
    epochs: BTreeMap<String, u64>,
}

impl Pauses {
    /// Takes note of the pauses that a status shows.
    pub fn note(&mut self, cluster: &Cluster) {
        for role in cluster.status.roles.iter().filter(|role| role.role.kind() == "worker") {
            let name = role.role.to_string();
            if let Some(pause) = role.pause {
                self.pauses.insert((name.clone(), role.epoch), (pause.cause, pause.millis));
            }
            let last = self.epochs.entry(name).or_default();
            *last = role.epoch.max(*last);
        }
    }

    /// Roles and epochs above the first whose pause was not seen.
    pub fn missing(&self) -> Vec<(String, u64)> {
        let above_first =
            self.epochs.iter().flat_map(|(role, last)| (2..=*last).map(|n| (role.clone(), n)));
        above_first.filter(|tenure| !self.pauses.contains_key(tenure)).collect()
    }

    /// A line for each pause: role, epoch, cause, and how long it was.
    pub fn lines(&self) -> String {
        let line = |((role, epoch), (cause, millis)): (&(String, u64), &(PauseCause, u64))| {
            format!("{role} epoch {epoch} {} {millis} ms\n", cause.as_str())
        };
        self.pauses.iter().map(line).collect()
    }

    /// The pauses for this cause in milliseconds, shortest first.
    pub fn of_cause(&self, cause: PauseCause) -> Vec<u64> {
        let of_cause = self.pauses.values().filter(|(of, _)| *of == cause);
        let mut millis: Vec<u64> = of_cause.map(|(_, millis)| *millis).collect();
        millis.sort_unstable();
        millis
    }

    /// Number, median, p99 and longest for each cause, for people.
    pub fn report(&self) -> String {
        let line = |cause: PauseCause| {
            let pauses = self.of_cause(cause);
            let at = |percent: usize| {
                pauses.get((pauses.len() * percent / 100).min(pauses.len().saturating_sub(1)))
            };
            let shown =
                |millis: Option<&u64>| millis.map_or("-".to_owned(), |ms| format!("{ms} ms"));
            format!(
                "{}: {} pauses, p50 {}, p99 {}, longest {}",
                cause.as_str(),
                pauses.len(),
                shown(at(50)),
                shown(at(99)),
                shown(pauses.last())
            )
        };
        [PauseCause::First, PauseCause::HandedOver, PauseCause::TakenOver].map(line).join("; ")
    }
}
