//! The roles that a node holds: their leases as last written, and the work that goes on for them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::Timestamp;
use futures::future::BoxFuture;

use crate::lease::Lease;
use crate::reconcile::{Held, Work};
use crate::report::{Pause, PauseCause, RoleReport, WorkMeter};
use crate::role::Role;
use crate::runtime::{Panicked, Runtime, Task};
use crate::tenure::{Ended, Gauge, TenureControl};

/// One held role.
#[derive(Debug)]
pub(super) struct Holding {
    /// The lease as the store should hold it.
    pub(super) lease: Lease,
    /// What the store held when last seen, which the next commit expects.
    pub(super) stored: Option<Bytes>,
    pub(super) doing: Doing,
    pub(super) before: Before,
    pub(super) pause: Option<Pause>,
    /// How much of its time it works.
    pub(super) meter: WorkMeter,
    /// When, by local time, the work was seen to have begun, until the pause is measured.
    pub(super) began: Option<Duration>,
}

/// How the work of a held role does.
pub(super) enum Doing {
    /// It goes on. The task comes first: it is dropped first.
    Working {
        task: Task<(Ended, Duration)>,
        control: TenureControl,
        ready: Option<BoxFuture<'static, ()>>,
        /// By when it must have ended, in local time, if it was asked to.
        end_by: Option<Duration>,
    },
    /// It ended at this local time: the role is to be released, with a refusal if there is a reason.
    Over { at: Duration, refusal: Option<String> },
    /// It found a loss and returned; this is what it said last. (Work may as well stay, say that it is
    /// stopped, and wait for the operator's decision itself.)
    Stopped { gauge: Gauge },
}

/// How it was with the role before this tenure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) cause: PauseCause,
    /// When nobody worked any more.
    pub(super) since: Timestamp,
}

impl Before {
    /// What `previous` tells, for a lease that was then acquired as `lease`.
    pub(super) fn of(previous: Option<&Lease>, lease: &Lease) -> Self {
        match previous {
            None => Before { cause: PauseCause::First, since: lease.renewed },
            Some(Lease { holder: None, renewed, .. }) => {
                Before { cause: PauseCause::HandedOver, since: *renewed }
            }
            Some(Lease { renewed, .. }) => Before { cause: PauseCause::TakenOver, since: *renewed },
        }
    }
}

impl Holding {
    /// Asks the work to end by `end_by`. What has ended or stopped already is over at once.
    pub(super) fn end(&mut self, now: Duration, end_by: Duration) {
        match &mut self.doing {
            Doing::Working { control, end_by: by @ None, .. } => {
                control.end();
                *by = Some(end_by);
            }
            Doing::Stopped { .. } => self.doing = Doing::Over { at: now, refusal: None },
            Doing::Working { .. } | Doing::Over { .. } => {}
        }
    }

    fn work(&self) -> Work {
        match &self.doing {
            Doing::Working { end_by: None, control, .. } if control.is_stopped() => Work::Stopped,
            Doing::Working { end_by: None, .. } => Work::Running,
            Doing::Working { .. } | Doing::Over { .. } => Work::Ending,
            Doing::Stopped { .. } => Work::Stopped,
        }
    }

    /// Takes note of what the work did since. Ready if it did anything.
    fn poll(&mut self, role: &Role, runtime: &dyn Runtime, context: &mut Context<'_>) -> Poll<()> {
        let Doing::Working { task, control, ready, end_by } = &mut self.doing else {
            return Poll::Pending;
        };
        let mut news = Poll::Pending;
        if let Some(wait) = ready
            && wait.as_mut().poll(context).is_ready()
        {
            *ready = None;
            self.began = Some(runtime.elapsed());
            news = Poll::Ready(());
        }
        if let Poll::Ready(ended) = Pin::new(task).poll(context) {
            let gauge = control.gauge();
            self.doing = over(role, ended, end_by.is_some(), gauge, runtime.elapsed());
            news = Poll::Ready(());
        }
        news
    }
}

/// What becomes of a role whose work has ended.
fn over(
    role: &Role,
    ended: Result<(Ended, Duration), Panicked>,
    asked: bool,
    gauge: Gauge,
    now: Duration,
) -> Doing {
    let (refusal, at) = match ended {
        Ok((Ended::Drained, at)) if asked => (None, at),
        Ok((Ended::Drained, at)) => (Some("it ended by itself".to_string()), at),
        Ok((Ended::Yielded { reason }, at)) => (Some(reason), at),
        Ok((Ended::Stopped { reason }, _)) => {
            tracing::error!(%role, %reason, "a role stopped until an operator decides");
            return Doing::Stopped { gauge: Gauge { stopped: Some(reason), ..gauge } };
        }
        Err(panicked) => (Some(panicked.to_string()), now),
    };
    if let Some(reason) = &refusal {
        tracing::warn!(%role, %reason, "gives a role up");
    }
    Doing::Over { at, refusal }
}

/// All held roles, in their order.
#[derive(Debug, Default)]
pub(super) struct Holdings(pub(super) BTreeMap<Role, Holding>);

impl Holdings {
    /// Returns when the work of some role began or ended, having taken note of it. Nothing is lost if
    /// it is dropped before.
    pub(super) async fn changed(&mut self, runtime: &dyn Runtime) {
        poll_fn(|context| {
            let mut news = Poll::Pending;
            for (role, holding) in &mut self.0 {
                if holding.poll(role, runtime, context).is_ready() {
                    news = Poll::Ready(());
                }
            }
            news
        })
        .await;
    }

    /// What the decision needs to know of them.
    pub(super) fn held(&self) -> BTreeMap<Role, Held> {
        let held = |holding: &Holding| Held { epoch: holding.lease.epoch, work: holding.work() };
        self.0.iter().map(|(role, holding)| (role.clone(), held(holding))).collect()
    }

    /// What they say of themselves at this local time.
    pub(super) fn reports(&mut self, elapsed: Duration) -> Vec<RoleReport> {
        let report = |(role, holding): (&Role, &mut Holding)| {
            let (epoch, pause) = (holding.lease.epoch, holding.pause);
            let meter = &mut holding.meter;
            match &holding.doing {
                Doing::Working { control, .. } => {
                    Some(RoleReport::new(role, epoch, &control.gauge(), meter, pause, elapsed))
                }
                Doing::Stopped { gauge } => {
                    Some(RoleReport::new(role, epoch, gauge, meter, pause, elapsed))
                }
                Doing::Over { .. } => None,
            }
        };
        self.0.iter_mut().filter_map(report).collect()
    }

    /// The next local time by which some work must have ended.
    pub(super) fn next_end_by(&self) -> Option<Duration> {
        let end_by = |holding: &Holding| match &holding.doing {
            Doing::Working { end_by, .. } => *end_by,
            _ => None,
        };
        self.0.values().filter_map(end_by).min()
    }

    /// Drops work that should have ended by now.
    pub(super) fn drop_overdue(&mut self, now: Duration) {
        for (role, holding) in &mut self.0 {
            if let Doing::Working { end_by: Some(by), .. } = &holding.doing
                && *by <= now
            {
                tracing::warn!(%role, "work did not end in time when asked to, and is dropped");
                holding.doing = Doing::Over { at: now, refusal: None };
            }
        }
    }

    /// Those whose lease is to be kept alive.
    pub(super) fn kept(&self) -> Vec<Role> {
        let kept = |holding: &Holding| !matches!(holding.doing, Doing::Over { .. });
        self.0.iter().filter(|(_, h)| kept(h)).map(|(role, _)| role.clone()).collect()
    }

    /// Those whose lease is to be released.
    pub(super) fn over(&self) -> Vec<Role> {
        let over = |holding: &Holding| matches!(holding.doing, Doing::Over { .. });
        self.0.iter().filter(|(_, h)| over(h)).map(|(role, _)| role.clone()).collect()
    }
}

impl fmt::Debug for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doing::Working { end_by, .. } => write!(f, "Working {{ end_by: {end_by:?} }}"),
            Doing::Over { refusal, .. } => write!(f, "Over {{ refusal: {refusal:?} }}"),
            Doing::Stopped { gauge } => write!(f, "Stopped {{ gauge: {gauge:?} }}"),
        }
    }
}
