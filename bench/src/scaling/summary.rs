//! The figures of a run.

use std::fmt::Write as _;
use std::time::Duration;

use consort_cluster::PauseCause;
use consort_tests::scaling::pauses::Pauses;
use serde::Serialize;

use super::plot::plot;
use super::samples::{Course, ThroughputLost};
use crate::report::{Results, date, machine};

/// All figures, with the machine and the day.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    date: String,
    machine: String,
    cost_millis: f64,
    rates: [f64; 3],
    /// Seconds from the step in load to the first new node with partitions, to all nodes, and to a lag below 2 s.
    first_node: Option<f64>,
    all_nodes: Option<f64>,
    lag_gone: Option<f64>,
    /// Pauses of partitions at hand-overs, in milliseconds.
    pauses: usize,
    pause_p50: Option<u64>,
    pause_p99: Option<u64>,
    changes: Vec<Change>,
}

/// A change of the members.
#[derive(Debug, Serialize)]
struct Change {
    at: f64,
    from: usize,
    to: usize,
    lost: ThroughputLost,
}

impl Summary {
    pub(super) fn new(
        cost: Duration,
        rates: [f64; 3],
        course: &Course,
        pauses: &Pauses,
    ) -> Summary {
        let up = course.stepped_up;
        let after = |found: Option<&super::samples::Sample>| found.map(|sample| sample.at - up);
        let all = course.first(up, |sample| sample.owning == super::NODES);
        let lag_gone = all
            .and_then(|all| course.first(all.at, |sample| sample.lag.is_some_and(|lag| lag < 2.0)));
        let handed_over = pauses.of_cause(PauseCause::HandedOver);
        let at =
            |percent: usize| handed_over.get(handed_over.len().saturating_sub(1) * percent / 100);
        let change = |(at, from, to): (f64, usize, usize)| {
            let lost = course.lost(at);
            Change { at, from, to, lost }
        };
        Summary {
            date: date(),
            machine: machine(),
            cost_millis: cost.as_secs_f64() * 1000.0,
            rates,
            first_node: after(course.first(up, |sample| sample.owning > 1)),
            all_nodes: after(all),
            lag_gone: after(lag_gone),
            pauses: handed_over.len(),
            pause_p50: at(50).copied(),
            pause_p99: at(99).copied(),
            changes: course
                .changes()
                .into_iter()
                .filter(|(at, ..)| *at >= up)
                .map(change)
                .collect(),
        }
    }

    pub(super) fn results(&self, course: &Course) -> Results {
        let title = format!("consort up follows a load ({}, {})", self.machine, self.date);
        let json = serde_json::json!({ "what": "scaling", "summary": self, "course": course });
        Results {
            what: "scaling".into(),
            table: self.table(),
            json: format!("{json:#}\n"),
            picture: plot(&title, course),
        }
    }

    fn table(&self) -> String {
        let [low, high, end] = self.rates;
        let mut text = format!("{}, {}\n\n", self.machine, self.date);
        let _ = writeln!(
            text,
            "Redis; `consort up --min 1 --max {}`. Each record costs a node a wait of {} ms, so one node folds about {:.0} \
             records a second: two cores cannot show a speed-up by nodes otherwise. The load steps from {low} to {high} \
             and down to {end} records a second.\n",
            super::NODES,
            self.cost_millis,
            1000.0 / self.cost_millis
        );
        text.push_str("| from the step in load | seconds |\n| --- | ---: |\n");
        for (name, seconds) in [
            ("to the first new node with partitions", self.first_node),
            ("to all three nodes with partitions", self.all_nodes),
            ("to a lag below 2 s", self.lag_gone),
        ] {
            let _ = writeln!(text, "| {name} | {} |", shown(seconds));
        }
        text.push_str(
            "\n| pause of a partition at a hand-over | ms | wanted |\n| --- | ---: | ---: |\n",
        );
        for (name, pause, wanted) in [("p50", self.pause_p50, 20), ("p99", self.pause_p99, 100)] {
            let pause = pause.map_or("-".to_owned(), |pause| pause.to_string());
            let _ = writeln!(text, "| {name} of {} | {pause} | {wanted} |", self.pauses);
        }
        text.push_str(
            "\n| change of members | at (s) | applied before (/s) | records lost | seconds of that rate |\n\
             | --- | ---: | ---: | ---: | ---: |\n",
        );
        for Change { at, from, to, lost: ThroughputLost { before_per_s, records } } in &self.changes
        {
            let seconds = if *before_per_s > 0.0 { records / before_per_s } else { 0.0 };
            let _ = writeln!(
                text,
                "| {from} → {to} | {at:.0} | {before_per_s:.0} | {records:.0} | {seconds:.1} |"
            );
        }
        text.push_str(
            "\nRecords lost: what would have been applied at the rate before, and was not, in 30 seconds around the \
             change. They are applied later.\n",
        );
        text
    }
}

fn shown(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.1}"))
}
