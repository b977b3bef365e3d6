//! How long each partition of a busy stream stands still when the cluster changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use consort_cluster::node::TTL;
use consort_cluster::{PauseCause, Role};

use super::board::Board;
use super::counting::{Counting, PARTITIONS, Tally, role};
use super::crew::{Change, Crew, Event};
use super::producer::{FRAME, Producer, RATE, frame_every};
use super::report::ClusterReport;
use super::spread::millis;
use super::trail::Trail;
use super::{open, server, work_on};

const NODES: usize = 3;

/// What was measured of each kind of event, in milliseconds.
#[derive(Debug, Default)]
struct Measured {
    /// As the nodes tell, by why there was a pause.
    pauses: BTreeMap<(Event, PauseCause), Vec<f64>>,
    /// By the trail of partitions that moved to or from the node of the event.
    gaps: BTreeMap<Event, Vec<f64>>,
    /// By the trail of partitions that stayed where they were.
    stayed: Vec<f64>,
}

pub(super) async fn run(rounds: usize, report: &mut ClusterReport) -> Result<()> {
    let server = server().await;
    let url = server.url();
    let board = Arc::new(Board::default());
    let tally = Arc::new(Tally { trail: Trail::new(PARTITIONS as usize) });
    let roles: Vec<Role> = (0..PARTITIONS).map(role).collect();
    let make_part = {
        let (board, tally) = (Arc::clone(&board), Arc::clone(&tally));
        move |node: &str, engine: &_| Arc::new(Counting::new(node, engine, &board, &tally)) as _
    };
    let mut crew = Crew::new(&url, &roles, &board, Box::new(make_part));
    crew.grow(NODES).await?;
    let engine = open(&url).await?;
    let producer = Producer::start(&engine);
    work_on().await;
    let mut measured = Measured::default();
    for round in 1..=rounds {
        for event in Event::ROUND {
            tally.trail.clear();
            let change = crew.undergo(event).await?;
            work_on().await;
            let moved = change.moved.len();
            eprintln!("  round {round}, {event}: {moved} partitions moved in {:?}", change.took);
            measured.add(event, &change, &tally.trail);
        }
    }
    let (records, rate) = producer.check(&*engine.store).await?;
    report.say(format!(
        "Pauses: {NODES} nodes, which become {} and {NODES} again; a stream of {PARTITIONS} partitions, \
         {RATE} records a second in frames of {FRAME} (one every {:?} in each partition), rounds: {rounds}. \
         All {records} records ({rate:.0}/s) were counted exactly once.",
        NODES + 1,
        frame_every(),
    ));
    measured.report(report);
    report.add_fenced(crew.fenced());
    Ok(())
}

impl Measured {
    fn add(&mut self, event: Event, change: &Change, trail: &Trail) {
        for (cause, pause) in change.pauses.values() {
            self.pauses.entry((event, *cause)).or_default().push(millis(*pause));
        }
        for (index, gap) in trail.gaps().into_iter().enumerate() {
            let role = role(index as u32);
            if change.had_to.contains(&role) {
                self.gaps.entry(event).or_default().push(millis(gap));
            } else if !change.moved.contains(&role) {
                self.stayed.push(millis(gap));
            }
        }
    }

    fn report(self, report: &mut ClusterReport) {
        let ttl = millis(TTL);
        for ((event, cause), pauses) in self.pauses {
            let name = match (event, cause) {
                (Event::Kill, PauseCause::TakenOver) => {
                    format!("{event}: pause, from its last heartbeat")
                }
                (Event::Kill, _) => format!("{event}: pause of what moved between the others"),
                (_, PauseCause::TakenOver) => {
                    format!("{event}: pause of what had to be taken over")
                }
                _ => format!("{event}: pause"),
            };
            let beyond = (cause == PauseCause::TakenOver).then(|| {
                (
                    format!("{event}: pause of a partition, from its last heartbeat"),
                    less(&pauses, ttl),
                )
            });
            report.add_pause(name, pauses);
            if let Some((name, beyond)) = beyond {
                report.add_beyond_ttl(name, beyond);
            }
        }
        for (event, gaps) in self.gaps {
            report.add_pause(format!("{event}: longest time with nothing applied"), gaps);
        }
        let name = "partitions that stay, at any of these: longest time with nothing applied";
        report.add_pause(name.into(), self.stayed);
    }
}

/// All `times`, each less `by`.
pub(super) fn less(times: &[f64], by: f64) -> Vec<f64> {
    times.iter().map(|time| time - by).collect()
}
