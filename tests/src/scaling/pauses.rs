//! The pause of each partition at each hand-over, as the nodes show it.

use std::collections::BTreeMap;

use consort_client::Cluster;
use consort_cluster::PauseCause;

/// Pauses by role and epoch: each tenure has one.
#[derive(Clone, Debug, Default)]
pub struct Pauses(BTreeMap<(String, u64), (PauseCause, u64)>);

impl Pauses {
    /// Takes note of the pauses that a status shows.
    pub fn note(&mut self, cluster: &Cluster) {
        for role in cluster.status.roles.iter().filter(|role| role.role.kind() == "worker") {
            if let Some(pause) = role.pause {
                self.0.insert((role.role.to_string(), role.epoch), (pause.cause, pause.millis));
            }
        }
    }

    /// The pauses for this cause in milliseconds, shortest first.
    pub fn of_cause(&self, cause: PauseCause) -> Vec<u64> {
        let of_cause = self.0.values().filter(|(of, _)| *of == cause);
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
