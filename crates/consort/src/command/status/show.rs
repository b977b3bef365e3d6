//! The tables of `consort status`.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_cluster::status::{NodeStatus, RoleStatus};
use consort_cluster::{ClusterStatus, Pause, PauseCause};

use crate::command::table::{Column, Table, short};

/// Stands where there is nothing to tell.
const NOTHING: &str = "-";

/// Nodes and roles; with `full`, every role on a line of its own.
pub(super) fn tables(status: &ClusterStatus, full: bool) -> String {
    let nodes = nodes(status);
    match (status.roles.is_empty(), full) {
        (true, _) => nodes.to_string(),
        (false, true) => format!("{nodes}\n{}", roles(status)),
        (false, false) => format!("{nodes}\n{}", owners(status)),
    }
}

fn nodes(status: &ClusterStatus) -> Table<6> {
    let mut table = Table::new([
        Column::Left("NODE"),
        Column::Left("ADDRESS"),
        Column::Left("VERSION"),
        Column::Right("UP FOR"),
        Column::Right("ROLES"),
        Column::Left("STATE"),
    ]);
    for node in &status.nodes {
        let up_for = Duration::from_millis(status.now.saturating_sub(node.since));
        let NodeStatus { id, address, version, load, live, draining, .. } = node;
        let alive = |text: String| if *live { text } else { NOTHING.into() };
        let state = match (live, draining) {
            (false, _) => "dead",
            (true, true) => "leaving",
            (true, false) => "live",
        };
        table.row([
            id.clone(),
            address.clone(),
            version.clone(),
            alive(short(up_for)),
            alive(load.to_string()),
            state.into(),
        ]);
    }
    table
}

/// One line for each kind and owner.
fn owners(status: &ClusterStatus) -> Table<7> {
    let mut table = Table::new([
        Column::Left("KIND"),
        Column::Left("OWNER"),
        Column::Right("ROLES"),
        Column::Right("READY"),
        Column::Right("LAG"),
        Column::Left("LONGEST LAST PAUSE"),
        Column::Left("EPOCHS"),
    ]);
    let mut groups: BTreeMap<(&str, Option<&str>), Vec<&RoleStatus>> = BTreeMap::new();
    for role in &status.roles {
        groups.entry((role.role.kind(), role.owner.as_deref())).or_default().push(role);
    }
    for ((kind, owner), roles) in groups {
        let ready = roles.iter().filter(|role| role.ready).count();
        let lag = roles.iter().filter_map(|role| role.lag).max();
        let pause = roles.iter().filter_map(|role| role.pause).max_by_key(|pause| pause.millis);
        let epochs = roles.iter().map(|role| role.epoch);
        let (lowest, highest) = (epochs.clone().min(), epochs.max());
        let epochs = match (lowest.unwrap_or_default(), highest.unwrap_or_default()) {
            (lowest, highest) if lowest == highest => lowest.to_string(),
            (lowest, highest) => format!("{lowest} to {highest}"),
        };
        table.row([
            kind.into(),
            owner.unwrap_or(NOTHING).into(),
            roles.len().to_string(),
            ready.to_string(),
            lag_text(lag),
            pause_text(pause),
            epochs,
        ]);
    }
    table
}

/// One line for each role.
fn roles(status: &ClusterStatus) -> Table<7> {
    let mut table = Table::new([
        Column::Left("ROLE"),
        Column::Left("OWNER"),
        Column::Right("EPOCH"),
        Column::Left("STATE"),
        Column::Right("LAG"),
        Column::Right("APPLIED"),
        Column::Left("LAST PAUSE"),
    ]);
    for role in &status.roles {
        let owned = role.owner.is_some();
        table.row([
            role.role.to_string(),
            role.owner.as_deref().unwrap_or(NOTHING).into(),
            role.epoch.to_string(),
            state(role).into(),
            lag_text(role.lag),
            if owned { role.applied.to_string() } else { NOTHING.into() },
            pause_text(role.pause),
        ]);
    }
    table
}

fn state(role: &RoleStatus) -> &'static str {
    match role {
        RoleStatus { owner: None, .. } => "unowned",
        RoleStatus { stopped: Some(_), .. } => "stopped",
        RoleStatus { trouble: Some(_), .. } => "hindered",
        RoleStatus { ready: false, .. } => "starting",
        _ => "working",
    }
}

fn lag_text(lag: Option<u64>) -> String {
    lag.map_or(NOTHING.into(), |lag| short(Duration::from_millis(lag)))
}

fn pause_text(pause: Option<Pause>) -> String {
    let Some(Pause { cause, millis }) = pause else { return NOTHING.into() };
    let cause = match cause {
        PauseCause::First => "first start",
        PauseCause::HandedOver => "handed over",
        PauseCause::TakenOver => "taken over",
    };
    format!("{}, {cause}", short(Duration::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::status::findings::tests::fixture;

    #[test]
    fn a_cluster_is_shown_in_short() {
        let expected = "\
NODE  ADDRESS         VERSION  UP FOR  ROLES  STATE
a     127.0.0.1:7400  0.1.0     2h 1m      3  live
b     127.0.0.1:7401  0.1.0       40s      2  leaving
c     127.0.0.1:7402  0.0.9         -      -  dead

KIND    OWNER  ROLES  READY    LAG  LONGEST LAST PAUSE  EPOCHS
closer  a          1      1      -  12ms, first start   1
worker  -          1      0      -  -                   7
worker  a          2      1   40ms  3.1s, taken over    2 to 3
worker  b          2      2  1m 5s  25ms, handed over   4
";
        assert_eq!(tables(&fixture().status, false), expected);
    }

    #[test]
    fn every_role_is_shown_when_asked_for() {
        let expected = "\
NODE  ADDRESS         VERSION  UP FOR  ROLES  STATE
a     127.0.0.1:7400  0.1.0     2h 1m      3  live
b     127.0.0.1:7401  0.1.0       40s      2  leaving
c     127.0.0.1:7402  0.0.9         -      -  dead

ROLE            OWNER  EPOCH  STATE       LAG  APPLIED  LAST PAUSE
closer:rides/0  a          1  working       -        0  12ms, first start
worker:rides/0  a          2  working    40ms     1200  3.1s, taken over
worker:rides/1  a          3  starting      -        0  -
worker:rides/2  b          4  hindered  1m 5s       10  25ms, handed over
worker:rides/3  b          4  stopped       -        5  20ms, handed over
worker:rides/4  -          7  unowned       -        -  -
";
        assert_eq!(tables(&fixture().status, true), expected);
    }

    #[test]
    fn a_cluster_without_roles_is_its_nodes() {
        let mut status = fixture().status;
        status.roles.clear();
        status.nodes.truncate(1);
        let expected = "\
NODE  ADDRESS         VERSION  UP FOR  ROLES  STATE
a     127.0.0.1:7400  0.1.0     2h 1m      3  live
";
        assert_eq!(tables(&status, false), expected);
    }
}
