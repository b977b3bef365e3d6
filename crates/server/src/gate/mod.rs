//! The gate of a stream: it meets overload at the door, before anything is appended.
//!
//! Each stream has a gate of its own on each node. The door asks it for each post that appends
//! records ([`Gate::enter`]), and either holds a [`Admission`] while it appends or answers 503 with
//! `Retry-After` ([`Refused`]). What decides are cores that know neither a clock nor a task:
//! [`Adaptive`] and [`Breaker`].

mod adaptive;
mod breaker;
mod gradient;
mod history;
mod kind;
mod line;
mod metrics;
mod pace;
mod refused;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use consort_kernel::Entropy;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use adaptive::{Adaptive, WAIT_AT_MOST};
use breaker::{Breaker, Delay};
pub use kind::{GateKind, UnknownGate};
use line::Line;
use metrics::Counted;
pub use metrics::GateMetrics;
pub use refused::{Reason, Refused};

/// How many posts of one stream a node holds at its door, whatever they wait for. As many as may be
/// in flight: four times the connections that a node serves by default.
const WAITING_AT_MOST: usize = 4096;

/// The gate of one stream on this node; all clones are of the same one.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kind: GateKind,
    entropy: Arc<dyn Entropy>,
    since: Instant,
    state: Mutex<State>,
    waiting: AtomicUsize,
    counted: Counted,
}

#[derive(Debug)]
struct State {
    core: Core,
    in_flight: usize,
    line: Line<Admission>,
}

#[derive(Debug)]
enum Core {
    Adaptive(Box<Adaptive>),
    Breaker(Box<Breaker>),
    Off,
}

/// How a gate stands, for the console and for `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    pub kind: GateKind,
    /// Posts that are being appended.
    pub in_flight: usize,
    /// Posts that are held at the door.
    pub waiting: usize,
    /// How many may be in flight (adaptive).
    pub limit: Option<usize>,
    /// Records a second that may come in, while the stream lags (adaptive).
    pub rate: Option<f64>,
    /// Whether posts are delayed (breaker).
    pub open: Option<bool>,
    /// They are delayed by 0..2^k ms (breaker).
    pub k: Option<u32>,
}

impl Gate {
    /// The gate of `stream`, which shows what it does in `metrics`.
    pub fn new(
        stream: &str,
        kind: GateKind,
        entropy: Arc<dyn Entropy>,
        metrics: &GateMetrics,
    ) -> Gate {
        let core = match kind {
            GateKind::Adaptive => Core::Adaptive(Box::new(Adaptive::new())),
            GateKind::Breaker => Core::Breaker(Box::new(Breaker::new())),
            GateKind::Off => Core::Off,
        };
        let gate = Gate(Arc::new(Shared {
            kind,
            entropy,
            since: Instant::now(),
            state: Mutex::new(State { core, in_flight: 0, line: Line::default() }),
            waiting: AtomicUsize::new(0),
            counted: metrics.counted(stream),
        }));
        metrics.watch(stream, &gate);
        gate
    }

    /// Asks to append so many records. Waits for its turn if that comes soon, and never past
    /// `deadline`. Whoever stops waiting has not come in.
    pub async fn enter(&self, records: u64, deadline: Instant) -> Result<Admission, Refused> {
        let entered = self.turn(records, deadline).await;
        match &entered {
            Ok(_) => self.0.counted.admitted(),
            Err(refused) => self.0.counted.refused(refused.reason),
        }
        entered
    }

    async fn turn(&self, records: u64, deadline: Instant) -> Result<Admission, Refused> {
        let came = Instant::now();
        let wait = {
            let now = self.0.at(came);
            let mut state = self.0.state.lock();
            let wait =
                self.wait(&mut state.core, now, records, deadline.saturating_duration_since(came))?;
            if wait.is_zero() && state.in_flight < state.core.limit(now) {
                state.in_flight += 1;
                return Ok(Admission { gate: Some(self.clone()), entered: came, waited: false });
            }
            wait
        };
        // Apart: most need not wait, and should not take the room for it.
        Box::pin(self.stand(came, wait, deadline)).await
    }

    /// Waits for so long, and then in line if there is no room.
    async fn stand(
        &self,
        came: Instant,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Admission, Refused> {
        if !wait.is_zero() {
            let _waiting = self.waiting()?;
            sleep(wait).await;
        }
        let in_line = {
            let now = self.0.now();
            let mut state = self.0.state.lock();
            if state.in_flight < state.core.limit(now) {
                state.in_flight += 1;
                return Ok(self.admitted_now());
            }
            let most = state.core.line(now);
            state.line.join(most).ok_or_else(|| self.refused(Reason::Latency, Duration::ZERO))?
        };
        let _waiting = self.waiting()?;
        let until = deadline.min(came + WAIT_AT_MOST);
        let passed = timeout(until.saturating_duration_since(Instant::now()), in_line).await;
        match passed {
            Ok(Ok(admission)) => Ok(admission),
            _ => Err(self.refused(Reason::Latency, Duration::ZERO)),
        }
    }

    /// How long a post must wait before it may look for room.
    fn wait(
        &self,
        core: &mut Core,
        now: Duration,
        records: u64,
        left: Duration,
    ) -> Result<Duration, Refused> {
        match core {
            Core::Off => Ok(Duration::ZERO),
            Core::Adaptive(adaptive) => {
                adaptive.ask(now, records, left).map_err(|lag| self.refused(Reason::Lag, lag))
            }
            Core::Breaker(breaker) => match breaker.post(now, left, &*self.0.entropy) {
                Delay::None => Ok(Duration::ZERO),
                Delay::Wait(wait) => Ok(wait),
                Delay::TooLong(wait) => Err(self.refused(Reason::Breaker, wait)),
            },
        }
    }

    /// Tells the stream's lag: the age of its oldest record that is not yet applied, zero if there is
    /// none. It should be told several times a second; what is older than some seconds is ignored.
    pub fn lag(&self, lag: Duration) {
        let now = self.0.now();
        if let Core::Adaptive(adaptive) = &mut self.0.state.lock().core {
            adaptive.lag(now, lag);
        }
    }

    /// How the gate stands now.
    pub fn standing(&self) -> Standing {
        self.0.standing()
    }

    fn admitted_now(&self) -> Admission {
        Admission { gate: Some(self.clone()), entered: Instant::now(), waited: true }
    }

    fn refused(&self, reason: Reason, wait: Duration) -> Refused {
        Refused::new(reason, wait, self.0.entropy.next())
    }

    /// Counts one that waits, if there may be one more.
    fn waiting(&self) -> Result<Waiting<'_>, Refused> {
        let waiting = Waiting(&self.0.waiting);
        if self.0.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_AT_MOST {
            Ok(waiting)
        } else {
            Err(self.refused(Reason::Crowd, Duration::ZERO))
        }
    }

    /// Lets in whoever there is room for.
    fn let_in(&self) {
        loop {
            let now = self.0.now();
            let mut state = self.0.state.lock();
            if state.in_flight >= state.core.limit(now) {
                return;
            }
            let Some(next) = state.line.next() else { return };
            state.in_flight += 1;
            // An admission without a waiter gives its room back, and takes the lock for it.
            drop(state);
            drop(next.send(self.admitted_now()));
        }
    }
}

/// Leave to append. It takes room until [`Admission::done`] or [`Admission::failed`]; dropped, it gives its room
/// back and tells nothing, as befits a client that went away.
#[derive(Debug)]
#[must_use = "an admission that is dropped gives its room back"]
pub struct Admission {
    /// Nothing once it has been given back.
    gate: Option<Gate>,
    entered: Instant,
    waited: bool,
}

impl Admission {
    /// Whether the gate held it before it let it in.
    pub fn has_waited(&self) -> bool {
        self.waited
    }

    /// The same, with the log's time measured from now: what came before says nothing of the log.
    pub fn timed_from_now(mut self) -> Admission {
        self.entered = Instant::now();
        self
    }

    /// So many records have been appended.
    pub fn done(mut self, records: u64) {
        self.leave(|core, now, took, in_flight| {
            if let Core::Adaptive(adaptive) = core {
                adaptive.done(now, took, records, in_flight);
            }
        });
    }

    /// So many records have been appended, in a step of a post with many: how long such a step takes says
    /// little of the posts of single events.
    pub fn done_in_bulk(mut self, records: u64) {
        self.leave(|core, now, _, _| {
            if let Core::Adaptive(adaptive) = core {
                adaptive.came_in_bulk(now, records);
            }
        });
    }

    /// The append failed, or was given up at its deadline.
    pub fn failed(mut self) {
        self.leave(|core, now, took, in_flight| {
            if let Core::Adaptive(adaptive) = core {
                adaptive.failed(now, took, in_flight);
            }
        });
    }

    fn leave(&mut self, tell: impl FnOnce(&mut Core, Duration, Duration, usize)) {
        let Some(gate) = self.gate.take() else { return };
        let left = Instant::now();
        let (now, took) = (gate.0.at(left), left - self.entered);
        let somebody_waits = {
            let mut state = gate.0.state.lock();
            let in_flight = state.in_flight;
            tell(&mut state.core, now, took, in_flight);
            state.in_flight -= 1;
            !state.line.is_empty()
        };
        if somebody_waits {
            gate.let_in();
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.leave(|_, _, _, _| {});
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.at(Instant::now())
    }

    /// The gate's own time at a moment.
    fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.since)
    }

    fn standing(&self) -> Standing {
        let now = self.now();
        let mut state = self.state.lock();
        let mut standing = Standing {
            kind: self.kind,
            in_flight: state.in_flight,
            waiting: self.waiting.load(Ordering::Relaxed),
            limit: None,
            rate: None,
            open: None,
            k: None,
        };
        match &mut state.core {
            Core::Off => {}
            Core::Adaptive(adaptive) => {
                standing.limit = Some(adaptive.limit(now));
                standing.rate = adaptive.rate(now);
            }
            Core::Breaker(breaker) => {
                let (open, k) = breaker.standing(now);
                (standing.open, standing.k) = (Some(open), Some(k));
            }
        }
        standing
    }
}

impl Core {
    /// How many may be in flight.
    fn limit(&self, now: Duration) -> usize {
        match self {
            Core::Adaptive(adaptive) => adaptive.limit(now),
            Core::Breaker(_) | Core::Off => usize::MAX,
        }
    }

    /// How many may wait until fewer are in flight.
    fn line(&self, now: Duration) -> usize {
        match self {
            Core::Adaptive(adaptive) => adaptive.line(now),
            Core::Breaker(_) | Core::Off => 0,
        }
    }
}

/// Counts one post that waits, for as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
