//! The instances of one service: which of them are healthy, and whose turn it is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::http::{Problem, ServiceUrl};

/// So many failed checks in a row take an instance out.
const FAILURES: u8 = 2;

/// All instances of a service.
#[derive(Debug)]
pub(super) struct Instances {
    name: &'static str,
    instances: Vec<Arc<Instance>>,
    turn: AtomicUsize,
}

/// One instance.
#[derive(Debug)]
pub(super) struct Instance {
    url: ServiceUrl,
    health: Mutex<InstanceHealth>,
    /// Tells requests that wait for this instance when it is taken out.
    healthy: watch::Sender<bool>,
}

/// Whether an instance gets requests, decided by its checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InstanceHealth {
    /// Failed checks since the last success.
    failures: u8,
}

impl InstanceHealth {
    fn note(&mut self, success: bool) {
        self.failures = if success { 0 } else { self.failures.saturating_add(1) };
    }

    fn is_healthy(self) -> bool {
        self.failures < FAILURES
    }
}

impl Instances {
    pub(super) fn new(name: &'static str, urls: Vec<ServiceUrl>) -> Instances {
        let instances = urls.into_iter().map(|url| Arc::new(Instance::new(url))).collect();
        Instances { name, instances, turn: AtomicUsize::new(0) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn all(&self) -> &[Arc<Instance>] {
        &self.instances
    }

    /// Those that get requests.
    pub(super) fn healthy(&self) -> Vec<&Arc<Instance>> {
        self.instances.iter().filter(|instance| instance.is_healthy()).collect()
    }

    /// Those that get requests, the one whose turn it is first.
    pub(super) fn in_turn(&self) -> Vec<&Arc<Instance>> {
        let mut healthy = self.healthy();
        if !healthy.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % healthy.len();
            healthy.rotate_left(turn);
        }
        healthy
    }

    /// No instance gets requests.
    pub(super) fn unavailable(&self) -> Problem {
        Problem::unavailable(format!("no instance of {} is healthy", self.name))
    }
}

impl Instance {
    fn new(url: ServiceUrl) -> Instance {
        Instance { url, health: Mutex::default(), healthy: watch::Sender::new(true) }
    }

    pub(super) fn url(&self) -> &ServiceUrl {
        &self.url
    }

    /// Takes note of a check.
    pub(super) fn note(&self, success: bool) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.note(success);
        self.healthy.send_if_modified(|healthy| {
            let before = std::mem::replace(healthy, health.is_healthy());
            before != *healthy
        });
    }

    /// Resolves when the instance is taken out.
    pub(super) async fn taken_out(&self) {
        // The sender lives as long as this.
        let _ = self.healthy.subscribe().wait_for(|healthy| !healthy).await;
    }

    fn is_healthy(&self) -> bool {
        *self.healthy.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances(count: u16) -> Instances {
        let url = |at: u16| format!("http://127.0.0.1:{}", 9000 + at).parse().unwrap();
        Instances::new("users", (0..count).map(url).collect())
    }

    fn turns(instances: &Instances, count: usize) -> Vec<String> {
        let first = |_| instances.in_turn().first().map(|instance| instance.url().to_string());
        let last_digit = |url: Option<String>| url.map(|url| url[url.len() - 1..].to_owned());
        (0..count).filter_map(|turn| last_digit(first(turn))).collect()
    }

    #[test]
    fn two_failures_take_an_instance_out_and_one_success_brings_it_back() {
        let mut health = InstanceHealth::default();
        for (success, healthy) in [
            (true, true),
            (false, true),
            (true, true),
            (false, true),
            (false, false),
            (false, false),
            (true, true),
            (false, true),
        ] {
            health.note(success);
            assert_eq!(health.is_healthy(), healthy);
        }
    }

    #[test]
    fn healthy_instances_take_turns() {
        let instances = instances(3);
        assert_eq!(turns(&instances, 6), ["0", "1", "2", "0", "1", "2"]);
        instances.all()[1].note(false);
        assert_eq!(turns(&instances, 3), ["0", "1", "2"]);
        instances.all()[1].note(false);
        let mut four = turns(&instances, 4);
        four.sort_unstable();
        assert_eq!(four, ["0", "0", "2", "2"]);
        instances.all()[1].note(true);
        assert_eq!(instances.in_turn().len(), 3);
    }

    #[test]
    fn no_instance_is_no_turn() {
        assert!(instances(0).in_turn().is_empty());
        let alone = instances(1);
        alone.all()[0].note(false);
        alone.all()[0].note(false);
        assert!(alone.in_turn().is_empty());
    }

    #[tokio::test]
    async fn who_waits_for_an_instance_is_told_that_it_is_taken_out() {
        let alone = instances(1);
        let instance = &alone.all()[0];
        let fails = async {
            instance.note(false);
            instance.note(false);
        };
        tokio::join!(instance.taken_out(), fails);
    }
}
