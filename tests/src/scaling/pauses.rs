//! The pause of each partition at each hand-over, as the nodes show it in their status and write it to their logs.

use std::collections::BTreeMap;

use consort_client::Cluster;
use consort_cluster::PauseCause;

/// With this setting a node logs each pause.
pub const LOG_PAUSES: &str = "log.level=info,consort_cluster::node::run=debug";

/// How long a tenure must be seen at work before its pause must be known: two heartbeats of a trial, as a node that is
/// killed may have told that the work began and not yet have measured the pause.
const KNOWN_WITHIN: u64 = 400;

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

    /// Takes note of the pauses that nodes have logged with [`LOG_PAUSES`]. A status shows no pause of a tenure that ended
    /// before the next heartbeat; the log does.
    pub fn read(&mut self, log: &str) {
        for line in log.lines().filter(|line| line.contains("work began")) {
            if let Some((epoch, pause)) =
                logged(line).filter(|(epoch, _)| epoch.0.starts_with("worker:"))
            {
                self.pauses.entry(epoch).or_insert(pause);
            }
        }
    }

    /// Tenures above the first of a role that were seen at work, and whose pause is not known.
    pub fn missing(&self) -> Vec<&Epoch> {
        let unknown = |(epoch, (first, last)): &(&Epoch, &(u64, u64))| {
            epoch.1 > 1 && *last - *first >= KNOWN_WITHIN && !self.pauses.contains_key(*epoch)
        };
        self.at_work.iter().filter(unknown).map(|(epoch, _)| epoch).collect()
    }

    /// How many tenures above the first of a role have no pause: a role that moves on at once never begins to work.
    fn without_pause(&self) -> u64 {
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
        format!("{}; {} tenures without work", lines.join("; "), self.without_pause())
    }
}

/// Role, epoch, cause and pause of a line such as `work began role=worker:rides/7 epoch=3 cause="handed_over" pause=18ms`.
fn logged(line: &str) -> Option<(Epoch, (PauseCause, u64))> {
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        rest.split_whitespace().next().map(|value| value.trim_matches('"'))
    };
    let causes = [PauseCause::First, PauseCause::HandedOver, PauseCause::TakenOver];
    let cause = field("cause")?;
    let cause = causes.into_iter().find(|known| known.as_str() == cause)?;
    let pause = field("pause")?;
    let units = [("ms", 1.0), ("s", 1000.0)];
    let millis = units.iter().find_map(|(unit, millis)| {
        pause.strip_suffix(unit)?.parse().ok().map(|number: f64| number * millis)
    });
    let epoch = (field("role")?.to_owned(), field("epoch")?.parse().ok()?);
    // A pause below a millisecond has a unit of its own.
    Some((epoch, (cause, millis.unwrap_or_default().round() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_from_the_log() {
        let line = |role: &str, cause: &str, pause: &str| {
            format!(
                "2026-11-19T22:44:18.9Z DEBUG consort_cluster::node::run: work began role={role} epoch=3 cause=\"{cause}\" pause={pause}\n"
            )
        };
        let mut pauses = Pauses::default();
        pauses.read(&line("worker:rides/7", "handed_over", "18ms"));
        pauses.read(&line("worker:rides/8", "taken_over", "2.015s"));
        pauses.read(&line("worker:rides/9", "first", "0ns"));
        pauses.read(&line("scaler:cluster", "first", "1ms"));
        pauses.read("2026-11-19T22:44:18.9Z INFO consort: work begins\n");
        let lines = "worker:rides/7 epoch 3 handed_over 18 ms\nworker:rides/8 epoch 3 taken_over 2015 ms\n\
            worker:rides/9 epoch 3 first 0 ms\n";
        assert_eq!(pauses.lines(), lines);
    }
}
