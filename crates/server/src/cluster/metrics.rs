//! What a node measures of the cluster: pauses at hand-overs, roles that came and went, lag.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{ClusterStatus, Observer, PauseCause, Role};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// From a hand-over between two nodes of one machine to a few leases.
const PAUSE_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

const CAUSES: [PauseCause; 3] = [PauseCause::First, PauseCause::HandedOver, PauseCause::TakenOver];

#[derive(Debug)]
pub(super) struct ClusterMetrics {
    pauses: Family<CauseLabel, Histogram, fn() -> Histogram>,
    acquired: Family<KindLabel, Counter>,
    released: Family<KindLabel, Counter>,
    lost: Family<KindLabel, Counter>,
    fenced: Counter,
    /// The roles held now, of which `roles_held` shows the number: a node that is fenced drops them
    /// without naming them.
    held: Mutex<BTreeMap<KindLabel, BTreeSet<Role>>>,
    roles_held: Family<KindLabel, Gauge>,
    lag: Family<KindLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    nodes: Family<StateLabel, Gauge>,
    wanted: Family<NoLabel, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// A family of one, which can be absent: an autoscaler must not act on an old number, or on a 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabel {}

impl KindLabel {
    fn of(role: &Role) -> KindLabel {
        KindLabel { kind: role.kind().to_owned() }
    }
}

impl ClusterMetrics {
    pub(super) fn register(registry: &mut Registry) -> Arc<ClusterMetrics> {
        let metrics = ClusterMetrics {
            pauses: Family::new_with_constructor(|| Histogram::new(PAUSE_BUCKETS)),
            acquired: Family::default(),
            released: Family::default(),
            lost: Family::default(),
            fenced: Counter::default(),
            held: Mutex::default(),
            roles_held: Family::default(),
            lag: Family::default(),
            nodes: Family::default(),
            wanted: Family::default(),
        };
        // A cause that has not occurred yet shows as none, not as missing.
        for cause in CAUSES {
            drop(metrics.pauses.get_or_create(&CauseLabel { cause: cause.as_str() }));
        }
        let registry = registry.sub_registry_with_prefix("cluster");
        let pauses = "How long no node worked on a role before this one did, by cause";
        registry.register("handover_pause_seconds", pauses, metrics.pauses.clone());
        let roles = "Roles that this node acquired, by kind";
        registry.register("roles_acquired", roles, metrics.acquired.clone());
        let roles = "Roles that this node drained and released, by kind";
        registry.register("roles_released", roles, metrics.released.clone());
        let roles = "Roles that another node took from this one, by kind";
        registry.register("roles_lost", roles, metrics.lost.clone());
        let fenced = "How often this node dropped all work because it could not renew its leases";
        registry.register("fenced", fenced, metrics.fenced.clone());
        let held = "Roles that this node holds, by kind";
        registry.register("roles_held", held, metrics.roles_held.clone());
        let lag = "The largest lag of the roles that this node holds, by kind";
        registry.register("lag_seconds", lag, metrics.lag.clone());
        let nodes = "Nodes by state; dead ones are shown for an hour";
        registry.register("nodes", nodes, metrics.nodes.clone());
        let wanted = "Nodes that the cluster wants; absent while no scaler decides";
        registry.register("nodes_wanted", wanted, metrics.wanted.clone());
        Arc::new(metrics)
    }

    /// Shows what a look at the cluster found.
    pub(super) fn show(&self, status: &ClusterStatus, id: &str) {
        let mut nodes = BTreeMap::from([("live", 0), ("leaving", 0), ("dead", 0)]);
        for node in &status.nodes {
            let state = match (node.live, node.draining) {
                (true, false) => "live",
                (true, true) => "leaving",
                (false, _) => "dead",
            };
            *nodes.entry(state).or_default() += 1;
        }
        for (state, number) in nodes {
            self.nodes.get_or_create(&StateLabel { state }).set(number);
        }
        match &status.scaling {
            Some(scaling) => {
                let wanted = i64::try_from(scaling.wanted).unwrap_or(i64::MAX);
                self.wanted.get_or_create(&NoLabel {}).set(wanted);
            }
            None => self.wanted.clear(),
        }
        let mut lags: BTreeMap<&str, u64> = BTreeMap::new();
        for role in status.roles.iter().filter(|role| role.owner.as_deref() == Some(id)) {
            if let Some(lag) = role.lag {
                let largest = lags.entry(role.role.kind()).or_default();
                *largest = lag.max(*largest);
            }
        }
        self.lag.clear();
        for (kind, lag) in lags {
            let seconds = Duration::from_millis(lag).as_secs_f64();
            self.lag.get_or_create(&KindLabel { kind: kind.to_owned() }).set(seconds);
        }
    }

    /// Shows nothing rather than something that is no longer true.
    pub(super) fn hide(&self) {
        self.lag.clear();
        self.nodes.clear();
        self.wanted.clear();
    }

    /// Changes which roles of one kind are held.
    fn hold(&self, role: &Role, change: impl FnOnce(&mut BTreeSet<Role>)) {
        let mut held = self.held.lock();
        let of_kind = held.entry(KindLabel::of(role)).or_default();
        change(of_kind);
        self.roles_held.get_or_create(&KindLabel::of(role)).set(of_kind.len() as i64);
    }
}

impl Observer for ClusterMetrics {
    fn on_acquired(&self, role: &Role, _epoch: u64) {
        self.acquired.get_or_create(&KindLabel::of(role)).inc();
        self.hold(role, |held| {
            held.insert(role.clone());
        });
    }

    fn on_released(&self, role: &Role, _epoch: u64) {
        self.released.get_or_create(&KindLabel::of(role)).inc();
        self.hold(role, |held| {
            held.remove(role);
        });
    }

    fn on_lost(&self, role: &Role, _epoch: u64) {
        self.lost.get_or_create(&KindLabel::of(role)).inc();
        self.hold(role, |held| {
            held.remove(role);
        });
    }

    fn on_fenced(&self, _roles: usize) {
        self.fenced.inc();
        for (kind, held) in &mut *self.held.lock() {
            held.clear();
            self.roles_held.get_or_create(kind).set(0);
        }
    }

    fn on_pause(&self, _role: &Role, cause: PauseCause, pause: Duration) {
        let label = CauseLabel { cause: cause.as_str() };
        self.pauses.get_or_create(&label).observe(pause.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn what_happens_to_roles_is_counted() {
        let mut registry = Registry::with_prefix("consort");
        let metrics = ClusterMetrics::register(&mut registry);
        let roles: Vec<Role> = (0..4).map(|n| Role::new("worker", format!("s/{n}"))).collect();
        for role in &roles {
            metrics.on_acquired(role, 1);
            metrics.on_pause(role, PauseCause::HandedOver, Duration::from_millis(20));
        }
        metrics.on_released(&roles[0], 1);
        metrics.on_lost(&roles[1], 1);
        let shown = |name: &str| {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.map(str::to_owned).ok_or(text)
        };
        for (name, value) in [
            (r#"consort_cluster_roles_acquired_total{kind="worker"}"#, "4"),
            (r#"consort_cluster_roles_released_total{kind="worker"}"#, "1"),
            (r#"consort_cluster_roles_lost_total{kind="worker"}"#, "1"),
            (r#"consort_cluster_roles_held{kind="worker"}"#, "2"),
            (r#"consort_cluster_handover_pause_seconds_count{cause="handed_over"}"#, "4"),
            (
                r#"consort_cluster_handover_pause_seconds_bucket{le="0.01",cause="handed_over"}"#,
                "0",
            ),
            (
                r#"consort_cluster_handover_pause_seconds_bucket{le="0.025",cause="handed_over"}"#,
                "4",
            ),
            (r#"consort_cluster_handover_pause_seconds_count{cause="taken_over"}"#, "0"),
            ("consort_cluster_fenced_total", "0"),
        ] {
            assert_eq!(shown(name), Ok(value.to_owned()), "{name}");
        }
        metrics.on_fenced(2);
        assert_eq!(shown(r#"consort_cluster_roles_held{kind="worker"}"#), Ok("0".into()));
        assert_eq!(shown("consort_cluster_fenced_total"), Ok("1".into()));
    }
}
