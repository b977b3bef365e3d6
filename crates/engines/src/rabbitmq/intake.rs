//! `Inlet` on a queue of RabbitMQ that others declare and fill.
//!
//! It has a connection of its own, which is made again by whoever takes next after it was lost. It never
//! declares the queue: what kind it should be of is for its owner to say.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::{Fault, Inlet, Message, Tag};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::consumption::{Consumption, Settling};
use super::link::Link;
use super::queue::QUEUE_NAME_MAX;
use super::session::Declaring;
use super::target::Target;
use crate::open::OpenError;

/// After the first failure in a row, how long until the next attempt: as the link to the broker has it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// After many. A queue that was missing is found this late at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Messages out of a queue.
pub struct RabbitInlet {
    target: Arc<Target>,
    queue: String,
    /// Whether nobody else may consume the queue meanwhile.
    is_exclusive: bool,
    link: Arc<Link>,
    taking: tokio::sync::Mutex<Taking>,
    /// Of the consumption that there is.
    settling: Mutex<Option<Arc<Settling>>>,
}

#[derive(Default)]
struct Taking {
    open: Option<Consumption>,
    /// The making of one. It is a task of its own, so that it goes on when the take that began it is over
    /// or was dropped: consumers of little patience would else never see it done.
    starting: Option<JoinHandle<Result<Consumption, Fault>>>,
    /// Failures since a message last came.
    failures: u32,
    /// The last one, until something succeeds.
    failed: Option<(Instant, Fault)>,
}

impl RabbitInlet {
    /// An inlet from `queue` on the broker at `url`, `amqp://…` or `amqps://…`, to be connected later.
    /// With `amqps`, the authority in the file `tls_ca` (PEM) is trusted beside those that the system
    /// trusts.
    pub async fn open(
        url: &str,
        queue: &str,
        tls_ca: Option<&Path>,
    ) -> Result<RabbitInlet, OpenError> {
        let target = Arc::new(Target::parse(url, tls_ca).await?);
        if queue.is_empty() || queue.len() > QUEUE_NAME_MAX {
            let reason =
                format!("a queue's name has 1 to {QUEUE_NAME_MAX} bytes, not {}", queue.len());
            return Err(target.unusable(reason));
        }
        let name = format!("consort: intake of {queue}");
        let link = Arc::new(Link::new(target.clone(), name, Declaring::default()));
        let (taking, settling) = (tokio::sync::Mutex::default(), Mutex::default());
        Ok(RabbitInlet { target, queue: queue.into(), is_exclusive: false, link, taking, settling })
    }

    /// The same, where no other consumer of the queue is allowed beside it: its messages come in their order.
    pub fn exclusive(self) -> RabbitInlet {
        RabbitInlet { is_exclusive: true, ..self }
    }

    /// Consumes again, after the pause that is due; if that does not end before `until`, the last
    /// failure is told again. Without a fault and without a consumption, it is still being started.
    async fn start(&self, taking: &mut Taking, until: Instant) -> Result<(), Fault> {
        if taking.starting.is_none() {
            if let Some((when, fault)) = &taking.failed {
                let next = *when + pause(taking.failures);
                sleep_until(next.min(until)).await;
                if next > until {
                    return Err(fault.clone());
                }
            }
            let (link, queue, what) = (self.link.clone(), self.queue.clone(), self.what());
            let is_exclusive = self.is_exclusive;
            taking.starting = Some(tokio::spawn(async move {
                Consumption::start(&link.session().await?, &queue, is_exclusive, what).await
            }));
        }
        let Some(starting) = &mut taking.starting else { return Ok(()) };
        let Ok(started) = timeout_at(until, starting).await else { return Ok(()) };
        taking.starting = None;
        let started = started.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Fault::Retryable(format!("{}: the runtime ends", self.what()))),
        });
        match started {
            Ok(open) => {
                *self.settling.lock() = Some(open.settling());
                taking.open = Some(open);
                taking.failed = None;
                Ok(())
            }
            Err(fault) => Err(self.fail(taking, fault)),
        }
    }

    fn what(&self) -> String {
        format!("taking from queue {} of RabbitMQ at {:?}", self.queue, self.target)
    }

    /// Notes a failure, which ends the consumption that there is.
    fn fail(&self, taking: &mut Taking, fault: Fault) -> Fault {
        *self.settling.lock() = None;
        taking.open = None;
        taking.failures = taking.failures.saturating_add(1);
        taking.failed = Some((Instant::now(), fault.clone()));
        fault
    }
}

#[async_trait]
impl Inlet for RabbitInlet {
    async fn take(&self, most: usize, wait: Duration) -> Result<Vec<Message>, Fault> {
        let until = Instant::now() + wait;
        let Ok(mut taking) = timeout_at(until, self.taking.lock()).await else {
            return Ok(Vec::new());
        };
        let taking = &mut *taking;
        if taking.open.as_ref().is_some_and(|open| !open.is_open()) {
            // With it goes what it had not handed out, which comes again.
            self.fail(taking, Fault::Retryable(format!("{}: it was interrupted", self.what())));
        }
        if taking.open.is_none() {
            self.start(taking, until).await?;
        }
        let Some(open) = &mut taking.open else { return Ok(Vec::new()) };
        match open.page(most, until).await {
            Ok(page) => {
                if !page.is_empty() {
                    taking.failures = 0;
                }
                Ok(page)
            }
            Err(fault) => Err(self.fail(taking, fault)),
        }
    }

    async fn settle(&self, tags: &[Tag]) -> Result<(), Fault> {
        let settling = self.settling.lock().clone();
        match settling {
            Some(settling) => settling.settle(tags).await,
            None => Ok(()),
        }
    }

    fn release(&self) {
        if let Some(settling) = self.settling.lock().take() {
            settling.release();
        }
        // Nobody takes while the queue is given up, so the lock is free.
        if let Ok(mut taking) = self.taking.try_lock() {
            taking.starting.take().inspect(JoinHandle::abort);
            taking.open = None;
        }
    }
}

impl fmt::Debug for RabbitInlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitInlet")
            .field("target", &self.target)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Between an attempt and the next, after so many failures in a row.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        for (failures, milliseconds) in
            [(0, 250), (1, 250), (2, 500), (3, 1_000), (5, 4_000), (6, 4_000), (u32::MAX, 4_000)]
        {
            assert_eq!(pause(failures), Duration::from_millis(milliseconds), "{failures}");
        }
    }
}
