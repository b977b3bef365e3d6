//! The pause of each partition at each hand-over, as the nodes show it.

use std::collections::BTreeMap;

use consort_client::Cluster;
use consort_cluster::PauseCause;

/// How long a tenure must be seen at work before its pause must be told: five heartbeats of a trial. A node measures the
/// pause with the heartbeat after the work began, so a role that moves on at once never tells one.
const TOLD_WITHIN: u64 = 1000;

/// A role and the epoch of a tenure.
type Epoch = (String, u64);

/// Pauses by role and epoch: each tenure has one.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    pauses: BTreeMap<Epoch, (PauseCause, u64)>,
    /// When each tenure was first and last seen at work, in milliseconds of the store's clock.
    at_work: BTreeMap<Epoch, (u64, u64)>,
}

impl Pauses {
    /// Takes note of the pauses that a status shows.
    pub fn note(&mut self, cluster: &Cluster) {
        for role in cluster.status.roles.iter().filter(|role| role.role.kind() == "worker") {
            let epoch = (role.role.to_string(), role.epoch);
            if let Some(pause) = role.pause {
                self.pauses.insert(epoch.clone(), (pause.cause, pause.millis));
            }
            if role.ready {
                let now = cluster.status.now;
                self.at_work.entry(epoch).or_insert((now, now)).1 = now;
            }
        }
    }

    /// Tenures above the first of a role that were long at work and have told no pause.
    pub fn missing(&self) -> Vec<&Epoch> {
        let untold = |(epoch, (first, last)): &(&Epoch, &(u64, u64))| {
            epoch.1 > 1 && *last - *first >= TOLD_WITHIN && !self.pauses.contains_key(*epoch)
        };
        self.at_work.iter().filter(untold).map(|(epoch, _)| epoch).collect()
    }

    /// How many tenures above the first of a role have told no pause.
    fn untold(&self) -> u64 {
        let last: BTreeMap<&str, u64> =
            self.at_work.keys().map(|(role, epoch)| (&**role, *epoch)).collect();
        let told = self.pauses.keys().filter(|(_, epoch)| *epoch > 1).count() as u64;
        last.values().map(|epoch| epoch - 1).sum::<u64>().saturating_sub(told)
    }

    /// A line for each pause: role, epoch, cause, and how long it was.
    pub fn lines(&self) -> String {
        let line = |((role, epoch), (cause, millis)): (&Epoch, &(PauseCause, u64))| {
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
        let lines = [PauseCause::First, PauseCause::HandedOver, PauseCause::TakenOver].map(line);
        format!("{}; {} tenures too short to tell theirs", lines.join("; "), self.untold())
    }
}
