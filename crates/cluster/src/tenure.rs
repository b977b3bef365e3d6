//! A tenure: the time for which a node works on a role, and what the work says of itself meanwhile.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::role::Role;
use crate::runtime::Runtime;

/// A part of the product that brings roles and knows how to do their work.
pub trait Part: Send + Sync + fmt::Debug {
    /// The roles that are to be owned by somebody, the same on every node.
    fn roles(&self) -> Vec<Role>;

    /// The kinds among its roles that are kept apart, the same on every node. Roles of such a kind whose names
    /// are equal up to the last `/` form a group, and the number behind it is the place in the group. A group
    /// is spread over the nodes: while two nodes live, its first two roles are on different ones.
    fn apart_kinds(&self) -> &'static [&'static str] {
        &[]
    }

    /// Does the work of one role until the tenure is to end. The future may be dropped at any await: the
    /// node then lost the lease, or is about to.
    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended>;
}

/// How the work of a role ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As asked: everything is committed, the role can be released.
    Drained,
    /// It gets nowhere on this node: another should try. The reason is published, and keeps the role
    /// from being handed straight back.
    Yielded {
        /// Why, for operators.
        reason: String,
    },
    /// It must not go on anywhere, until an operator decided: data was lost. The role stays here,
    /// visibly stopped.
    Stopped {
        /// What was found, and what to do.
        reason: String,
    },
}

/// What the work says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Whether it has begun: everything needed is loaded.
    pub ready: bool,
    /// How far behind it was, if it knows, when it took up what it has in hand: the age of the oldest input
    /// not yet applied.
    pub lag: Option<Duration>,
    /// Since when it has had that in hand, in local time; `None` if it has nothing.
    pub in_hand_since: Option<Duration>,
    /// How much it has applied since it began, in its own unit (records, rows).
    pub applied: u64,
    /// For how long it has had a batch in hand since it began, without the present one.
    pub worked: Duration,
    /// Since when it has had the present batch in hand, in local time.
    pub working_since: Option<Duration>,
    /// What hinders it at the moment.
    pub trouble: Option<String>,
    /// Why it stands still until an operator decides: data was lost.
    pub stopped: Option<String>,
}

/// The right to work on a role, as the work sees it.
#[derive(Clone, Debug)]
pub struct Tenure {
    role: Role,
    epoch: u64,
    ending: watch::Receiver<bool>,
    gauge: watch::Sender<Gauge>,
}

/// The other side of a tenure: ends it, and sees what the work says.
#[derive(Debug)]
pub struct TenureControl {
    ending: watch::Sender<bool>,
    gauge: watch::Receiver<Gauge>,
}

impl Gauge {
    /// It has a batch in hand from this local time on.
    pub fn work_begins(&mut self, now: Duration) {
        self.working_since.get_or_insert(now);
    }

    /// It waits for input from this local time on.
    pub fn work_ends(&mut self, now: Duration) {
        self.worked = self.worked_at(now);
        self.working_since = None;
    }

    /// For how long it has had a batch in hand, up to this local time.
    pub fn worked_at(&self, now: Duration) -> Duration {
        let present = self.working_since.map(|since| now.saturating_sub(since));
        self.worked + present.unwrap_or_default()
    }

    /// How far behind it is at this local time: what is in hand grows older.
    pub fn lag_at(&self, elapsed: Duration) -> Option<Duration> {
        let in_hand = self.in_hand_since.map(|since| elapsed.saturating_sub(since));
        self.lag.or(in_hand.map(|_| Duration::ZERO)).map(|lag| lag + in_hand.unwrap_or_default())
    }
}

impl Tenure {
    /// Does `round` again and again until the tenure is to end. It answers with what hinders it, which is
    /// told, and with when to go on; it may be dropped at any await.
    pub async fn rounds<R, F>(mut self, runtime: &dyn Runtime, mut round: R) -> Ended
    where
        R: FnMut() -> F,
        F: Future<Output = (Option<String>, Duration)>,
    {
        self.ready();
        loop {
            let (trouble, pause) = tokio::select! {
                biased;
                () = self.ending() => return Ended::Drained,
                done = round() => done,
            };
            self.say(|gauge| gauge.trouble = trouble);
            tokio::select! {
                biased;
                () = self.ending() => return Ended::Drained,
                () = runtime.sleep(pause) => {}
            }
        }
    }

    /// A tenure of `role` under the lease's `epoch`.
    pub fn new(role: Role, epoch: u64) -> (Tenure, TenureControl) {
        let (end, ending) = watch::channel(false);
        let (says, gauge) = watch::channel(Gauge::default());
        let tenure = Tenure { role, epoch, ending, gauge: says };
        (tenure, TenureControl { ending: end, gauge })
    }

    /// What to work on.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The lease's epoch: it grows with every change of owner.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the work should finish what it has in hand and return.
    pub fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits until the work should finish what it has in hand and return.
    pub async fn ending(&mut self) {
        // The control was dropped: nobody wants this work any more.
        let _ = self.ending.wait_for(|ending| *ending).await;
    }

    /// Tells that the work has begun: the end of the role's pause at a hand-over.
    pub fn ready(&self) {
        self.gauge.send_if_modified(|gauge| !std::mem::replace(&mut gauge.ready, true));
    }

    /// Changes what the work says of itself.
    pub fn say(&self, change: impl FnOnce(&mut Gauge)) {
        self.gauge.send_modify(change);
    }
}

impl TenureControl {
    /// Asks the work to finish what it has in hand and return.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// What the work says now.
    pub fn gauge(&self) -> Gauge {
        self.gauge.borrow().clone()
    }

    /// What the work says, now and later; closed when it has ended.
    pub fn gauges(&self) -> watch::Receiver<Gauge> {
        self.gauge.clone()
    }

    /// Whether the work stands still until an operator decides.
    pub fn is_stopped(&self) -> bool {
        self.gauge.borrow().stopped.is_some()
    }

    /// Waits until the work has begun; never returns if it ends before.
    pub fn until_ready(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut gauge = self.gauge.clone();
        async move {
            if gauge.wait_for(|gauge| gauge.ready).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn the_time_with_a_batch_in_hand_adds_up() {
        let second = Duration::from_secs(1);
        let mut gauge = Gauge::default();
        assert_eq!(gauge.worked_at(second), Duration::ZERO);
        gauge.work_begins(second);
        // The next batch follows at once.
        gauge.work_begins(2 * second);
        assert_eq!(gauge.worked_at(4 * second), 3 * second);
        gauge.work_ends(5 * second);
        gauge.work_ends(9 * second);
        assert_eq!(gauge.worked_at(20 * second), 4 * second);
        gauge.work_begins(20 * second);
        assert_eq!(gauge.worked_at(21 * second), 5 * second);
    }

    #[tokio::test]
    async fn the_two_sides_of_a_tenure_hear_each_other() {
        let (mut tenure, control) = Tenure::new(Role::new("worker", "s/0"), 3);
        let ready = control.until_ready();
        assert!(!tenure.is_ending());
        assert!(tenure.ending().now_or_never().is_none());
        tenure.ready();
        tenure.say(|gauge| gauge.applied = 5);
        ready.await;
        assert_eq!(control.gauge(), Gauge { ready: true, applied: 5, ..Gauge::default() });
        control.end();
        tenure.ending().await;
        assert!(tenure.is_ending());
    }
}
