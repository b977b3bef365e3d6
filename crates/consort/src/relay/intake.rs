//! Lines on their way in: read, given a time, and put into the queues of their targets.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use consort_kernel::{Budget, Moment};
use consort_line::{Point, Precision, lines, parse_into};
use consort_server::udp::{Drops, Socket};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::metrics::Counts;
use super::{Outlet, line, until};
use crate::config::relay::RelayConfig;

/// How often the kernel is asked what it dropped.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The pause after a socket failed, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(100);

/// How many batches a stop still reads of what the kernel holds: someone who goes on sending must not hold it up.
const DRAIN_MOST: usize = 1_000;

/// Where lines come in.
#[derive(Debug)]
pub(super) struct Intake {
    config: RelayConfig,
    outlets: Vec<Outlet>,
    pub(super) counts: Counts,
}

impl Intake {
    pub(super) fn new(config: &RelayConfig, outlets: Vec<Outlet>, counts: Counts) -> Intake {
        Intake { config: config.clone(), outlets, counts }
    }

    pub(super) fn is_allowed(&self, from: Option<IpAddr>) -> bool {
        let allow = &self.config.allow;
        allow.is_empty()
            || from.is_some_and(|from| allow.iter().any(|network| network.contains(&from)))
    }

    /// Takes one line; `point` is room for what it says.
    pub(super) fn take<'a>(&self, line: &'a [u8], point: &mut Point<'a>, received: Moment) {
        match parse_into(point, line, self.config.dialect, Precision::Nanoseconds) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                self.counts.refused("malformed").inc();
                tracing::debug!(%error, "a line was not understood");
                return;
            }
        }
        self.counts.lines.inc();
        if point.time.is_none() {
            self.counts.stamped.inc();
        }
        let targets = line::targets(&self.config, point);
        if targets.is_empty() {
            self.counts.refused("unrouted").inc();
            return;
        }
        let timed = line::timed(line, point, received);
        for target in targets.iter().filter_map(|target| self.outlets.get(*target)) {
            target.queue.push(timed.clone());
        }
    }

    async fn take_datagrams(&self, socket: &Socket) {
        let received = now();
        let (mut point, mut budget) = (Point::default(), Budget::default());
        for datagram in socket.datagrams() {
            if !self.is_allowed(datagram.from) {
                self.counts.refused("disallowed").inc();
            } else if datagram.cut {
                self.counts.refused("oversize").inc();
            } else {
                for (_, line) in lines(datagram.bytes) {
                    budget.spend(line.len()).await;
                    self.take(line, &mut point, received);
                }
            }
        }
    }
}

/// When a line is received, by the clock of this machine.
pub(super) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Reads datagrams until it is stopped, and then what the kernel still holds.
pub(super) async fn datagrams(
    intake: Arc<Intake>,
    mut socket: Socket,
    mut drops: Drops,
    stopped: watch::Receiver<bool>,
) {
    let mut stop = pin!(until(stopped));
    let kernel = intake.counts.refused("kernel");
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            _ = look.tick() => {
                kernel.inc_by(drops.since());
            }
            ready = socket.readable() => match ready.and_then(|()| socket.receive()) {
                Ok(true) => intake.take_datagrams(&socket).await,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "the UDP socket could not be read; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
    for _ in 0..DRAIN_MOST {
        match socket.receive_last() {
            Ok(true) => intake.take_datagrams(&socket).await,
            Ok(false) | Err(_) => break,
        }
    }
    kernel.inc_by(drops.since());
}
