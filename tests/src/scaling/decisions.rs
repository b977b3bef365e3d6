//! The scaler's decisions as a trial sees them, with their limit and what they were made from.

use consort_client::Cluster;
use consort_cluster::ScalingStatus;
use tokio::time::Instant;

/// Shows decisions while a trial runs, so that a failure names what limited the number of nodes.
#[derive(Debug)]
pub struct Decisions {
    began: Instant,
    last: Option<ScalingStatus>,
}

impl Decisions {
    /// None yet, of a trial that begins now.
    pub fn new() -> Decisions {
        Decisions { began: Instant::now(), last: None }
    }

    /// Takes note of the decision that a status shows, and prints it if the number or its limit is another.
    pub fn note(&mut self, cluster: &Cluster) {
        let seen = |status: &ScalingStatus| (status.wanted, status.limited_by);
        let now = &cluster.status.scaling;
        let is_new = now.as_ref().map(seen) != self.last.as_ref().map(seen);
        self.last.clone_from(now);
        if is_new {
            self.tell("decided");
        }
    }

    /// Prints the last decision.
    pub fn tell(&self, what: &str) {
        let time = self.began.elapsed().as_secs_f64();
        match &self.last {
            None => eprintln!("{time:7.1} s {what}; no decision"),
            Some(ScalingStatus { wanted, why, limited_by, evidence, .. }) => {
                let limit = limited_by.map_or("none", |limit| limit.as_str());
                eprintln!(
                    "{time:7.1} s {what}; wanted {wanted}, limit {limit}: {why}\n{:12}{evidence:?}",
                    ""
                );
            }
        }
    }
}

impl Default for Decisions {
    fn default() -> Self {
        Decisions::new()
    }
}
