//! What a run found of a cluster: as tables, as JSON, and as a picture.

use std::fmt::Write as _;

use anyhow::Result;
use consort_cluster::node::{HEARTBEAT, TTL};
use serde::Serialize;

use super::SHARDS;
use super::picture::picture;
use super::spread::{Spread, millis};
use crate::report::{Results, date, machine};

/// All figures of a run, with the machine and the day. Times are in milliseconds.
#[derive(Debug, Serialize)]
pub(super) struct ClusterReport {
    what: &'static str,
    date: String,
    machine: String,
    ttl: f64,
    heartbeat: f64,
    /// How it was measured, in sentences.
    notes: Vec<String>,
    /// How often a node could not renew its leases in time: these figures would tell of the machine.
    fenced: usize,
    pauses: Vec<Spread>,
    changes: Vec<Spread>,
    /// Of the figures above, what exceeds the time to live.
    beyond_ttl: Vec<Spread>,
    shares: Vec<Share>,
}

/// Which share of the roles a change moves, in percent.
#[derive(Debug, Serialize)]
pub(super) struct Share {
    pub(super) name: String,
    pub(super) samples: usize,
    pub(super) moved_median: f64,
    pub(super) moved_worst: f64,
    /// To the node that joined, or away from the one that left.
    pub(super) had_to_median: f64,
    /// What each node would have if all had the same.
    pub(super) even: f64,
}

impl Default for ClusterReport {
    fn default() -> Self {
        ClusterReport {
            what: "cluster",
            date: date(),
            machine: machine(),
            ttl: millis(TTL),
            heartbeat: millis(HEARTBEAT),
            notes: vec![format!(
                "Redis with AOF everysec, {SHARDS} shards; all nodes in one process, each with connections \
                 of its own; a lease lives for {TTL:?}, a heartbeat comes every {HEARTBEAT:?}. In a round a \
                 node joins, the oldest is drained, another joins, and the oldest is killed: it is gone \
                 without a word."
            )],
            fenced: 0,
            pauses: Vec::new(),
            changes: Vec::new(),
            beyond_ttl: Vec::new(),
            shares: Vec::new(),
        }
    }
}

impl ClusterReport {
    /// Says how something was measured.
    pub(super) fn say(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Adds how often a node could not renew its leases in time.
    pub(super) fn add_fenced(&mut self, times: usize) {
        self.fenced += times;
    }

    /// Adds pauses of single partitions, in milliseconds.
    pub(super) fn add_pause(&mut self, name: String, millis: Vec<f64>) {
        self.pauses.extend(Spread::of(name, millis));
    }

    /// Adds times until all roles were owned, in milliseconds.
    pub(super) fn add_change(&mut self, name: String, millis: Vec<f64>) {
        self.changes.extend(Spread::of(name, millis));
    }

    /// Adds by how much times exceed the time to live, in milliseconds.
    pub(super) fn add_beyond_ttl(&mut self, name: String, millis: Vec<f64>) {
        self.beyond_ttl.extend(Spread::of(name, millis));
    }

    /// Adds which share of the roles moved.
    pub(super) fn add_share(&mut self, share: Share) {
        self.shares.push(share);
    }

    /// What is shown and kept.
    pub(super) fn results(&self) -> Result<Results> {
        let ClusterReport { machine, date, .. } = self;
        let spreads: Vec<&Spread> = self.pauses.iter().chain(&self.changes).collect();
        let title = format!("Least to worst, with a mark at the median ({machine}, {date})");
        Ok(Results {
            what: self.what.into(),
            table: self.tables(),
            json: serde_json::to_string_pretty(self)? + "\n",
            picture: picture(&title, &spreads, self.ttl),
        })
    }

    fn tables(&self) -> String {
        let mut text = format!("{}, {}\n\n", self.machine, self.date);
        for note in &self.notes {
            let _ = writeln!(text, "{note}\n");
        }
        if self.fenced > 0 {
            let _ = writeln!(
                text,
                "{} times a node could not renew its leases in time and dropped its work: the machine was \
                 too busy for these figures to mean much.\n",
                self.fenced
            );
        }
        spreads(&mut text, "pause of a partition", &self.pauses);
        spreads(&mut text, "a change of the members", &self.changes);
        spreads(&mut text, "beyond the time to live", &self.beyond_ttl);
        text.push_str(
            "A lease lapses its time to live after the last heartbeat, which was up to one heartbeat before \
             the kill: so a time from the kill may be below the time to live.\n\n",
        );
        self.share_table(&mut text);
        text
    }

    fn share_table(&self, text: &mut String) {
        text.push_str("| roles that move | events | median | worst | had to | even share |\n");
        text.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
        for share in &self.shares {
            let _ = writeln!(
                text,
                "| {} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
                share.name,
                share.samples,
                share.moved_median,
                share.moved_worst,
                share.had_to_median,
                share.even
            );
        }
    }
}

fn spreads(text: &mut String, title: &str, spreads: &[Spread]) {
    let _ = writeln!(text, "| {title}, in ms | samples | least | median | p99 | worst |");
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
    for spread in spreads {
        let Spread { name, samples, least, median, p99, worst } = spread;
        let _ = writeln!(
            text,
            "| {name} | {samples} | {least:.0} | {median:.0} | {p99:.0} | {worst:.0} |"
        );
    }
    text.push('\n');
}
