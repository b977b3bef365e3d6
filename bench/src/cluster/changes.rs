//! How long it takes from a change of the members until all roles are owned and worked on by whom they
//! should be, and how many of them move.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use consort_cluster::node::TTL;
use consort_cluster::{Ended, Part, PauseCause, Role, Tenure};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::board::Board;
use super::crew::{Change, Crew, Event};
use super::pauses::less;
use super::report::{ClusterReport, Share};
use super::spread::millis;
use super::{server, work_on};
use crate::measure::rank;

/// How many nodes there are before one more joins, and when one of them has left again.
pub(super) const NODES: [usize; 2] = [3, 12];

const KINDS: [&str; 3] = ["worker", "closer", "deliverer"];
const ROLES_OF_A_KIND: usize = 64;

/// Work that is ready at once, and ends at once.
#[derive(Debug)]
struct Toy {
    node: String,
    roles: Vec<Role>,
    board: Arc<Board>,
}

impl Part for Toy {
    fn roles(&self) -> Vec<Role> {
        self.roles.clone()
    }

    fn work(&self, mut tenure: Tenure) -> BoxFuture<'static, Ended> {
        let (board, node) = (Arc::clone(&self.board), self.node.clone());
        async move {
            tenure.ready();
            let _shift = board.begin(tenure.role(), &node);
            tenure.ending().await;
            Ended::Drained
        }
        .boxed()
    }
}

pub(super) async fn run(nodes: usize, rounds: usize, report: &mut ClusterReport) -> Result<()> {
    let server = server().await;
    let board = Arc::new(Board::default());
    let role = |n: usize| Role::new(KINDS[n % KINDS.len()], format!("rides/{}", n / KINDS.len()));
    let roles: Vec<Role> = (0..KINDS.len() * ROLES_OF_A_KIND).map(role).collect();
    let make_part = {
        let (board, roles) = (Arc::clone(&board), roles.clone());
        move |node: &str, _: &_| {
            let (board, roles) = (Arc::clone(&board), roles.clone());
            Arc::new(Toy { node: node.into(), roles, board }) as _
        }
    };
    let mut crew = Crew::new(&server.url(), &roles, &board, Box::new(make_part));
    crew.grow(nodes).await?;
    work_on().await;
    let mut changes: BTreeMap<Event, Vec<Change>> = BTreeMap::new();
    for round in 1..=rounds {
        for event in Event::ROUND {
            let change = crew.undergo(event).await?;
            work_on().await;
            let (moved, took) = (change.moved.len(), change.took);
            eprintln!("  round {round}, {event}: {moved} roles moved in {took:?}");
            changes.entry(event).or_default().push(change);
        }
    }
    report.say(format!(
        "Changes at {nodes} nodes, which become {} and {nodes} again: {} kinds of roles with \
         {ROLES_OF_A_KIND} each, whose work is ready at once; rounds: {rounds}.",
        nodes + 1,
        KINDS.len(),
    ));
    for (event, changes) in changes {
        tell(nodes, roles.len(), event, &changes, report);
    }
    report.add_fenced(crew.fenced());
    Ok(())
}

fn tell(nodes: usize, roles: usize, event: Event, changes: &[Change], report: &mut ClusterReport) {
    let name = format!("{nodes} nodes, {event}");
    let took: Vec<f64> = changes.iter().map(|change| millis(change.took)).collect();
    let beyond = less(&took, millis(TTL));
    report.add_change(format!("{name}: until all roles are owned"), took);
    if event == Event::Kill {
        report.add_beyond_ttl(format!("{name}: until all roles are owned"), beyond);
        let lapsed = changes.iter().filter_map(since_the_lapse).collect();
        report.add_change(format!("{name}: from the lapse of its leases"), lapsed);
    }
    let share = |count: &dyn Fn(&Change) -> usize| {
        let percent = |change| count(change) as f64 * 100.0 / roles as f64;
        let mut shares: Vec<f64> = changes.iter().map(percent).collect();
        shares.sort_by(f64::total_cmp);
        shares
    };
    let (moved, had_to) = (share(&|c| c.moved.len()), share(&|c| c.had_to.len()));
    report.add_share(Share {
        name,
        samples: moved.len(),
        moved_median: rank(&moved, 0.5),
        moved_worst: rank(&moved, 1.0),
        had_to_median: rank(&had_to, 0.5),
        even: 100.0 / (nodes + 1) as f64,
    });
}

/// When the last role of a killed node was worked on again, from the moment when others could take it, in
/// milliseconds: pauses are counted from the last heartbeat.
fn since_the_lapse(change: &Change) -> Option<f64> {
    let taken = change.pauses.values().filter(|(cause, _)| *cause == PauseCause::TakenOver);
    taken.map(|(_, pause)| millis(pause.saturating_sub(TTL))).max_by(f64::total_cmp)
}
