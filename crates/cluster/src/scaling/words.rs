//! The reasons of decisions, in sentences.

use std::time::Duration;

use super::facts::Facts;
use super::settings::ScaleSettings;
use super::state::{ScaleLimit, ScaleState};

pub(super) fn begins(wanted: u64) -> String {
    match wanted {
        1 => "the first decision keeps the node that is there".to_owned(),
        _ => format!("the first decision keeps the {wanted} nodes that are there"),
    }
}

pub(super) fn joined(live: u64) -> String {
    format!("{live} nodes are live; whether fewer suffice is seen from now on")
}

pub(super) fn bounds(settings: &ScaleSettings) -> String {
    format!("[scale] min is {} and max is {}", settings.min, settings.max)
}

/// What presses, and how much is offered beside what is applied.
pub(super) fn pressure(facts: &Facts<'_>) -> String {
    let mut causes = Vec::new();
    if let Some(stream) = facts.gate {
        let (verb, rate) = match stream.refused_per_s {
            0 => ("delays", stream.delayed_per_s),
            refused => ("refuses", refused),
        };
        causes.push(format!("gate of {} {verb} {}/s", stream.stream, grouped(rate)));
    }
    if let Some(worst) = facts.lagging.iter().max_by_key(|partition| partition.lag_ms) {
        let lag = seconds(Duration::from_millis(worst.lag_ms));
        causes.push(match facts.lagging.len() {
            1 => format!("{} lags by {lag}", worst.name),
            number => format!("{number} partitions lag, {} by {lag}", worst.name),
        });
    }
    let applied = facts.evidence.applied_per_s;
    if applied > 0 && facts.offered() > applied {
        let ratio = facts.offered() as f64 / applied as f64;
        causes.push(format!("offered {ratio:.1} × applied"));
    }
    let load = facts.load_of(facts.evidence.live) / 10;
    causes.push(format!("{load}% of the cores in use"));
    causes.join("; ")
}

pub(super) fn calm(target: u64, calm_for: Duration, facts: &Facts<'_>) -> String {
    let share = facts.load_of(target) / 10;
    format!(
        "the load has fit {} for {}, at {share}% of the cores",
        nodes(target),
        seconds(calm_for)
    )
}

pub(super) fn no_longer_fits(wanted: u64, facts: &Facts<'_>) -> String {
    let share = facts.load_of(wanted) / 10;
    format!("the load no longer fits {}, which would be at {share}% of their cores", nodes(wanted))
}

pub(super) fn relieved(wanted: u64) -> String {
    format!("stays at {wanted}: nothing lags and no gate refuses any more")
}

pub(super) fn limit(
    limit: ScaleLimit,
    state: &ScaleState,
    facts: &Facts<'_>,
    settings: &ScaleSettings,
) -> String {
    let live = facts.evidence.live;
    match limit {
        ScaleLimit::HotPartition => {
            let name = facts.hottest().map_or("a partition", |partition| &*partition.name);
            format!("all lag is in {name}, which has a node of its own; more nodes cannot help it")
        }
        ScaleLimit::Store => {
            let before = state.step_up.map(|step| step.applied_per_s).unwrap_or_default();
            let applied = state.rate.per_s().unwrap_or(facts.evidence.applied_per_s);
            format!(
                "the node added last changed the rate applied from {}/s to {}/s, so the store or a sink is the limit; \
                 one more is tried after ten minutes",
                grouped(before),
                grouped(applied)
            )
        }
        ScaleLimit::Stopped => match facts.stopped {
            1 => "one partition waits for an operator; `consort status` names it".to_owned(),
            number => {
                format!("{number} partitions wait for an operator; `consort status` names them")
            }
        },
        ScaleLimit::Partitions => format!(
            "{} share {} active {}; a node more would have nothing to do",
            nodes(live),
            facts.evidence.active,
            if facts.evidence.active == 1 { "partition" } else { "partitions" }
        ),
        ScaleLimit::Max => format!("[scale] max is {}; {}", settings.max, pressure(facts)),
    }
}

fn nodes(number: u64) -> String {
    if number == 1 { "one node".to_owned() } else { format!("{number} nodes") }
}

/// `3,100`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `5m`, `2.1s`
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        whole if whole >= 60 && whole.is_multiple_of(60) => format!("{}m", whole / 60),
        whole if whole >= 60 => format!("{}m {}s", whole / 60, whole % 60),
        _ => format!("{:.1}s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        for (number, text) in [(0, "0"), (999, "999"), (3100, "3,100"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        for (time, text) in [(2100, "2.1s"), (60_000, "1m"), (305_000, "5m 5s")] {
            assert_eq!(seconds(Duration::from_millis(time)), text);
        }
    }
}
