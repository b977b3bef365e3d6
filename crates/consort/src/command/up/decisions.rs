//! The decisions that `consort up` follows, one line each.

use consort_client::Cluster;
use serde_json::json;

use crate::command::print;

/// How many children there should be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) nodes: usize,
    why: String,
    limited_by: Option<String>,
}

impl Decision {
    /// What holds before the cluster has said anything.
    pub(super) fn initial(nodes: usize) -> Decision {
        Decision { nodes, why: "--min asks for so many".to_owned(), limited_by: None }
    }

    /// What a node says, within these bounds; `None` while no scaler decides: then all stays as it is.
    pub(super) fn new(cluster: &Cluster, min: usize, max: usize) -> Option<Decision> {
        let scaling = cluster.status.scaling.as_ref()?;
        let wanted = usize::try_from(cluster.wanted?).unwrap_or(usize::MAX);
        Some(Decision {
            nodes: wanted.clamp(min, max),
            why: scaling.why.clone(),
            limited_by: scaling.limited_by.map(|limit| limit.as_str().to_owned()),
        })
    }

    /// Whether it differs from `before` in what is done, or in what hinders more.
    pub(super) fn is_news(&self, before: &Decision) -> bool {
        self.nodes != before.nodes
            || self.limited_by.is_some() && self.limited_by != before.limited_by
    }

    /// One line on standard output.
    pub(super) fn tell(&self, before: usize, as_json: bool) -> Result<(), String> {
        print(&(self.line(before, as_json) + "\n"))
    }

    fn line(&self, before: usize, as_json: bool) -> String {
        let Decision { nodes, why, limited_by } = self;
        if as_json {
            return json!({ "before": before, "after": nodes, "why": why, "limited_by": limited_by })
                .to_string();
        }
        let limited = limited_by.as_ref().map(|limit| format!(" (limited by {limit})"));
        // The reason of a change begins with the cluster's own numbers, such as `1 → 2: `.
        let numbered = why.split_once(": ").filter(|(head, _)| head.contains('→'));
        let why = numbered.map_or(why.as_str(), |(_, reason)| reason);
        format!("nodes {before} → {nodes}: {why}{}", limited.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use consort_cluster::ClusterStatus;
    use consort_cluster::scaling::{ScaleEvidence, ScaleLimit, ScalingStatus};

    use super::*;

    fn cluster(wanted: u64, limited_by: Option<ScaleLimit>) -> Cluster {
        let scaling = ScalingStatus {
            wanted,
            why: "stays at 3".into(),
            limited_by,
            since: 0,
            decided: 0,
            evidence: ScaleEvidence::default(),
        };
        let status = ClusterStatus { scaling: Some(scaling), ..ClusterStatus::default() };
        Cluster { status, wanted: Some(wanted) }
    }

    #[test]
    fn the_number_is_kept_within_the_bounds_and_nothing_is_decided_without_one() {
        for (wanted, nodes) in [(0, 2), (2, 2), (5, 5), (99, 8)] {
            let decision = Decision::new(&cluster(wanted, None), 2, 8);
            assert_eq!(decision.map(|decision| decision.nodes), Some(nodes));
        }
        let silent = Cluster { status: ClusterStatus::default(), wanted: None };
        assert_eq!(Decision::new(&silent, 1, 8), None);
    }

    #[test]
    fn a_line_has_both_numbers_the_reason_and_the_limit() {
        let decision = Decision::new(&cluster(3, Some(ScaleLimit::Max)), 1, 8).unwrap();
        assert_eq!(decision.line(2, false), "nodes 2 → 3: stays at 3 (limited by max)");
        let json: serde_json::Value = serde_json::from_str(&decision.line(2, true)).unwrap();
        let expected = json!({"before": 2, "after": 3, "why": "stays at 3", "limited_by": "max"});
        assert_eq!(json, expected);
        let free = Decision::new(&cluster(3, None), 1, 8).unwrap();
        assert_eq!(free.line(2, false), "nodes 2 → 3: stays at 3");
        let change = Decision { why: "2 → 4: rides/0 lags by 7.0s".into(), ..free };
        assert_eq!(change.line(2, false), "nodes 2 → 3: rides/0 lags by 7.0s");
    }

    #[test]
    fn another_number_or_a_new_limit_is_news_and_another_reason_is_not() {
        let free = Decision::new(&cluster(3, None), 1, 8).unwrap();
        let limited = Decision::new(&cluster(3, Some(ScaleLimit::Store)), 1, 8).unwrap();
        let more = Decision::new(&cluster(4, None), 1, 8).unwrap();
        assert!(limited.is_news(&free) && more.is_news(&free));
        assert!(!free.is_news(&limited) && !limited.is_news(&limited));
        let reworded = Decision { why: "other".into(), ..free.clone() };
        assert!(!reworded.is_news(&free));
    }
}
