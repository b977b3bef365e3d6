//! What a run found of the lift rides: as tables, as JSON, and as a picture.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::Pace;
use super::bulk::Bulk;
use super::gate::Overload;
use super::memory::Memory;
use super::picture::picture;
use super::speed::{CONNECTIONS, DIFFERENT_RIDES, Measured, RIDES, Side, Stretch};
use crate::report::{Results, date, machine, thousands};

/// All figures of a run, with the machine and the day.
#[derive(Debug, Serialize)]
pub(super) struct LiftsReport {
    date: String,
    machine: String,
    /// How it was measured, in sentences.
    notes: Vec<String>,
    pub(super) speed: Vec<Measured>,
    pub(super) overloads: Vec<Overload>,
    pub(super) bulk: Vec<Bulk>,
    pub(super) memory: Option<Memory>,
}

/// A ratio or a time beside what is wanted of it.
#[derive(Debug, Serialize)]
struct Promise {
    what: String,
    is: f64,
    wanted: String,
    kept: bool,
}

impl LiftsReport {
    pub(super) fn new(pace: Pace) -> Self {
        let Pace { rounds, each, overload, .. } = pace;
        let how = format!(
            "Posts of single rides by wrk with 2 threads on the same machine: random skiers, resorts and \
             lifts of one day, {RIDES} different rides in each stretch, posted over and over, or {DIFFERENT_RIDES}, of which hardly one comes again; every contestant is a process of its own. Consort keeps the six views of \
             examples/lifts.toml that answer questions (not the seventh, for one more route of the \
             API), and has two partitions on the broker, as many as the usual design has queues. Contestants in turn, {each:?} each, \
             rounds: {rounds} after one to warm up; figures are medians of the rounds, ratios are medians of \
             the rounds' ratios. \"Sustained\" counts the time until all views had everything. Redis with \
             AOF everysec. Overload for {overload:?}: posts at a fixed rate, times from when a post was due, \
             of the accepted ones."
        );
        LiftsReport {
            date: date(),
            machine: machine(),
            notes: vec![how],
            speed: Vec::new(),
            overloads: Vec::new(),
            bulk: Vec::new(),
            memory: None,
        }
    }

    /// Says that Consort could not be measured.
    pub(super) fn leave_out(&mut self, reason: &anyhow::Error) {
        self.notes.push(format!("Consort is left out: {reason:#}"));
    }

    /// What is shown and kept.
    pub(super) fn results(&self) -> Result<Results> {
        let title = format!("Lift rides ({}, {})", self.machine, self.date);
        Ok(Results {
            what: "lifts".into(),
            table: self.tables(),
            json: serde_json::to_string_pretty(self)? + "\n",
            picture: picture(&title, &self.speed, &self.overloads),
        })
    }

    fn tables(&self) -> String {
        let mut text = format!("{}, {}\n\n", self.machine, self.date);
        for note in &self.notes {
            let _ = writeln!(text, "{note}\n");
        }
        speed_table(&mut text, &self.speed);
        promise_table(&mut text, &promises(&self.speed));
        overload_table(&mut text, &self.overloads);
        bulk_table(&mut text, &self.bulk);
        if let Some(memory) = &self.memory {
            memory_table(&mut text, memory);
        }
        text
    }
}

fn speed_table(text: &mut String, speed: &[Measured]) {
    if speed.is_empty() {
        return;
    }
    text.push_str("| posts | connections | different rides | posts/s | sustained | p50 ms | p99 ms | max ms | refused | broken | behind at worst | left at the end | caught up after |\n");
    text.push_str(
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for measured in speed {
        let median = |of: fn(&Stretch) -> f64| measured.median(of);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.2} s | {} | {:.1} s |",
            measured.side.title(),
            measured.connections,
            thousands(measured.rides as f64),
            thousands(median(|stretch| stretch.seen.rate)),
            thousands(median(|stretch| stretch.sustained)),
            median(|stretch| stretch.seen.p50),
            median(|stretch| stretch.seen.p99),
            measured.worst(|stretch| stretch.seen.max),
            median(|stretch| stretch.seen.refused as f64),
            median(|stretch| stretch.seen.broken as f64),
            measured.worst(|stretch| stretch.behind.max(stretch.told_behind.unwrap_or(0.0))),
            thousands(median(|stretch| stretch.left as f64)),
            median(|stretch| stretch.caught_up),
        );
    }
    text.push('\n');
}

/// What is promised of the speed, as far as it was measured.
fn promises(speed: &[Measured]) -> Vec<Promise> {
    let mut promises = Vec::new();
    for connections in CONNECTIONS {
        let of = |side| {
            speed.iter().find(|measured| {
                (measured.side, measured.connections, measured.rides) == (side, connections, RIDES)
            })
        };
        let Some(limit) = of(Side::Limit) else { continue };
        let mut add = |what: &str, is: f64, wanted: &str, kept: bool| {
            let what = format!("{what}, {connections} connections");
            promises.push(Promise { what, is, wanted: wanted.into(), kept });
        };
        if let Some(ours) = of(Side::Embedded) {
            let rate = ours.ratio(limit, |stretch| stretch.seen.rate);
            add("(b) to (a), posts/s", rate, "≥ 0.6", rate >= 0.6);
            let late = ours.ratio(limit, |stretch| stretch.seen.p99);
            add("(b) to (a), p99", late, "≤ 5", late <= 5.0);
            let behind = ours.worst(|stretch| stretch.behind);
            add("(b), views behind at worst, s", behind, "≤ 1", behind <= 1.0);
        }
        if let (Some(ours), Some(usual)) = (of(Side::Brokered), of(Side::Usual)) {
            let times = ours.ratio(usual, |stretch| stretch.seen.rate);
            let part = ours.ratio(limit, |stretch| stretch.sustained);
            let kept = times >= 8.0 || part >= 0.4;
            add("(d) to (c), posts/s", times, "≥ 8, or the next", kept);
            add("(d) to (a), sustained posts/s", part, "≥ 0.4, or the last", kept);
            let behind = ours.worst(|stretch| stretch.behind);
            add("(d), views behind at worst, s", behind, "does not grow", behind <= 1.0);
        } else if let Some(usual) = of(Side::Usual) {
            let part = usual.ratio(limit, |stretch| stretch.seen.rate);
            add("(c) to (a), posts/s", part, "–", true);
        }
    }
    let of = |side| {
        let mut all = speed.iter().filter(|measured| measured.rides == DIFFERENT_RIDES);
        all.find(|measured| measured.side == side)
    };
    for (name, side) in [("(b)", Side::Embedded), ("(d)", Side::Brokered)] {
        if let (Some(limit), Some(ours)) = (of(Side::Limit), of(side)) {
            let is = ours.ratio(limit, |stretch| stretch.sustained);
            let what = format!("{name} to (a), sustained posts/s, rides that do not come again");
            promises.push(Promise { what, is, wanted: "–".into(), kept: true });
        }
    }
    promises
}

fn promise_table(text: &mut String, promises: &[Promise]) {
    if promises.is_empty() {
        return;
    }
    text.push_str(
        "| medians of the rounds' ratios | is | wanted | |\n| --- | ---: | ---: | --- |\n",
    );
    for Promise { what, is, wanted, kept } in promises {
        let kept = if *kept { "" } else { "**not reached**" };
        let _ = writeln!(text, "| {what} | {is:.2} | {wanted} | {kept} |");
    }
    text.push('\n');
}

fn overload_table(text: &mut String, overloads: &[Overload]) {
    if overloads.is_empty() {
        return;
    }
    text.push_str("| overload, gate | offered/s | accepted/s | p50 ms | p99 ms | refused | failed | unsent | longest queue | caught up after | most memory |\n");
    text.push_str(
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for overload in overloads {
        let taken = &overload.taken;
        let caught_up = overload.caught_up.map_or("not awaited".into(), |s| format!("{s:.1} s"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.0} | {:.0} | {:.1} % | {} | {} | {} | {caught_up} | {} MiB |",
            overload.gate,
            thousands(overload.offered),
            thousands(taken.rate),
            taken.p50,
            taken.p99,
            taken.refused_part() * 100.0,
            taken.failed,
            thousands(taken.unsent as f64),
            thousands(overload.longest_queue() as f64),
            mebibytes(overload.most_memory()),
        );
    }
    text.push_str(
        "\nRefused: of the posts that were sent. Unsent: no connection was free for them, for all waited \
         for answers.\n\n",
    );
}

fn bulk_table(text: &mut String, bulk: &[Bulk]) {
    if bulk.is_empty() {
        return;
    }
    text.push_str(
        "| lines of JSON, embedded | events | until in the views | events/s | wanted |\n",
    );
    text.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    for Bulk { name, events, seconds, rate, wanted } in bulk {
        let wanted = wanted.map_or("–".into(), |wanted| format!("≥ {}", thousands(wanted)));
        let (events, rate) = (thousands(*events as f64), thousands(*rate));
        let _ = writeln!(text, "| {name} | {events} | {seconds:.1} s | {rate} | {wanted} |");
    }
    text.push('\n');
}

fn memory_table(text: &mut String, memory: &Memory) {
    let Memory { members, rss_before, rss_after, disk_before, disk_after } = memory;
    let members = thousands(*members as f64);
    let _ = writeln!(text, "| {members} distinct members, embedded | before | after |");
    text.push_str("| --- | ---: | ---: |\n");
    for (name, before, after) in
        [("memory", rss_before, rss_after), ("disk", disk_before, disk_after)]
    {
        let (before, after) = (mebibytes(*before), mebibytes(*after));
        let _ = writeln!(text, "| {name} | {before} MiB | {after} MiB |");
    }
}

fn mebibytes(bytes: u64) -> String {
    thousands(bytes as f64 / (1024.0 * 1024.0))
}
