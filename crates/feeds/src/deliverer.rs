//! Delivers one feed of one shard to one sink: at least once, in order, for as long as it takes.
//!
//! # Why an older revision of a row cannot stay behind
//!
//! Sinks such as InfluxDB keep whatever was written last, so a request that arrives late could put an old
//! revision over a newer one. Two deliverers at once come about like this: the first, A, is paused with a
//! request under way; its lease lapses; B takes over, delivers the same rows and newer ones; A's request
//! arrives. Three things stand against it, and no safety of state rests on a clock:
//!
//! 1. B first *claims* the cursor's cell. From then on A cannot move the cursor: whatever A delivered and
//!    could not commit, B delivers again.
//! 2. A looks at the cell before each request and sends only if it still is the holder; look and request
//!    together have a bound on their time. Having claimed, B waits for that long before its first
//!    request. So what A had under way has ended, or was given up, and its connection with it.
//! 3. If A was stopped in between, by the operating system, and sends after all when it wakes, A finds at
//!    the end that the cell is not its own any more. It then moves the cursor *back* to where its
//!    request began ([`Lane::give_back`]), and B delivers all of it again, the newest revisions last. An
//!    attempt is a task of its own and is not ended with the role, so that it comes to this.
//!
//! What is left is a request that outlives its process on the network for longer than the wait.

mod alarm;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consort_cluster::runtime::within;
use consort_cluster::{Runtime, Tenure};
use consort_kernel::{
    ChangeError, Cursor, Entropy, FeedEntry, Most, Name, Note, ReadError, Shard, Store,
};

use crate::backoff;
use crate::bisect::Bisect;
use crate::cell::{Changed, CursorCell, Found, Holder};
use crate::feed;
use crate::figures::SinkFigures;
use crate::parked::Parked;
use crate::part::{Timing, deliverer_role};
use crate::says::Says;
use crate::sink::{Delivery, Failed, Sink};
use crate::spec::FeedSpec;

/// What one request brings at most: enough that a connection is worth it, and little enough for any sink.
const BATCH: Most = Most { entries: 1_000, bytes: 1 << 20 };

/// How long it waits for rows before it looks at its cell again, where somebody may have moved it back.
const IDLE: Duration = Duration::from_secs(5);

/// Which of the failures in a row are logged.
const TELL_EVERY: u32 = 20;

/// How often a deliverer that was replaced tries to give back what it sent. With the longest pauses between
/// them, these take longer than any engine is away.
const GIVE_BACK_TRIES: u32 = 50;

/// One feed of one shard on its way to one sink.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) timing: Timing,
    /// Whether no other process can be at work on the store.
    pub(crate) sole: bool,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) sink_name: Name,
    pub(crate) spec: Arc<FeedSpec>,
    pub(crate) parked: Name,
    pub(crate) shard: Shard,
    pub(crate) me: Holder,
    pub(crate) cell: CursorCell,
    pub(crate) figures: Arc<SinkFigures>,
    pub(crate) says: Says,
}

/// What there is to do next.
enum Step {
    /// Nothing new.
    Nothing,
    /// Somebody else changed the cell, or may have: look again.
    Again,
    Deliver(Found, Vec<FeedEntry>),
}

/// Why a step could not be made.
#[derive(Debug)]
enum Hindrance {
    /// It passes.
    Trouble { reason: String, after: Option<Duration> },
    /// Rows were lost: nothing goes on before an operator has decided.
    Loss(String),
}

/// How an attempt ended.
#[derive(Debug)]
struct Attempted {
    /// The cell afterwards; none if it is somebody else's.
    found: Option<Found>,
    /// Rows that are settled.
    settled: usize,
    hindrance: Option<Hindrance>,
}

/// What became of one request.
enum Sent {
    Taken,
    Refused(String),
    Failed {
        reason: String,
        after: Option<Duration>,
    },
    /// The cell is somebody else's.
    Replaced,
}

impl Lane {
    /// Works until the tenure ends.
    pub(crate) async fn run(self: Arc<Self>, mut tenure: Tenure) {
        let mut found = None;
        let mut failures = 0;
        let mut counted = None;
        loop {
            let step = tokio::select! {
                biased;
                () = tenure.ending() => break,
                step = self.step(found.take()) => step,
            };
            let hindrance = match step {
                Ok(Step::Again) => continue,
                Ok(Step::Nothing) => {
                    failures = 0;
                    self.figures.note_waiting(&self.spec.feed, self.shard, None);
                    self.says.idle(&self.spec.feed);
                    continue;
                }
                Ok(Step::Deliver(claimed, entries)) => {
                    self.says.in_hand(&self.spec.feed, self.runtime.elapsed());
                    let since = self.says.since(&self.spec.feed);
                    self.figures.note_waiting(&self.spec.feed, self.shard, since);
                    let bytes = entries.iter().map(|entry| entry.entry.len()).sum();
                    let is_full = BATCH.reached(entries.len(), bytes);
                    let attempt = Arc::clone(&self).attempt(claimed, entries);
                    let attempted = self.on_its_own(attempt).await;
                    found = attempted.found;
                    self.says.applied(&self.spec.feed, attempted.settled);
                    if attempted.settled > 0 {
                        failures = 0;
                    }
                    if is_full || attempted.hindrance.is_some() {
                        self.count(&mut counted, found.as_ref()).await;
                    }
                    attempted.hindrance
                }
                Err(hindrance) => Some(hindrance),
            };
            let Some(hindrance) = hindrance else { continue };
            failures += 1;
            let pause = self.tell(hindrance, failures);
            tokio::select! {
                biased;
                () = tenure.ending() => break,
                () = self.runtime.sleep(pause) => {}
            }
        }
        self.figures.note_waiting(&self.spec.feed, self.shard, None);
        self.release().await;
    }

    /// Says what hinders it, and for how long it is to rest.
    fn tell(&self, hindrance: Hindrance, failures: u32) -> Duration {
        let Lane { sink_name, shard, .. } = self;
        let feed = &self.spec.feed;
        match hindrance {
            Hindrance::Trouble { reason, after } => {
                self.figures.note_retry();
                let pause = backoff::wait(failures, self.entropy.next(), after);
                // Once, and from time to time: a sink that is away for long has been told of.
                if failures % TELL_EVERY == 1 {
                    tracing::warn!(sink = %sink_name, %feed, %shard, failures,
                        "rows are not delivered, and will be tried again: {reason}");
                }
                self.says
                    .trouble(feed, Some(format!("{sink_name} does not take {feed}: {reason}")));
                pause
            }
            Hindrance::Loss(reason) => {
                let reason = format!(
                    "{feed} of {shard} cannot be delivered to {sink_name}: {reason}; rows were lost before \
                     they were delivered. `consort resolve {}` goes on, from where it is told",
                    deliverer_role(sink_name, *shard)
                );
                if self.says.stopped(feed, Some(reason.clone())) {
                    tracing::error!("{reason}");
                }
                IDLE
            }
        }
    }

    /// Reads what is next, and makes sure that it is this one's to deliver.
    async fn step(&self, found: Option<Found>) -> Result<Step, Hindrance> {
        let trouble = |reason: String| Hindrance::Trouble { reason, after: None };
        let mut found = match found {
            Some(found) => found,
            None => self.cell.read().await.map_err(trouble)?,
        };
        let cursor = found.stand.cursor();
        let entries = match self.store.feed(self.shard, &self.spec.feed, &cursor, BATCH, IDLE).await
        {
            Ok(entries) => entries,
            // A sink that was declared after the feed was trimmed: what is gone was never meant for it.
            Err(ReadError::Trimmed { first, .. }) if found.is_new() => {
                found = found.beginning_at(first);
                let cursor = found.stand.cursor();
                let read = self.store.feed(self.shard, &self.spec.feed, &cursor, BATCH, IDLE).await;
                read.map_err(|error| trouble(error.to_string()))?
            }
            Err(error @ (ReadError::Refused(_) | ReadError::Engine(_))) => {
                return Err(trouble(error.to_string()));
            }
            Err(error) => return Err(Hindrance::Loss(error.to_string())),
        };
        self.says.stopped(&self.spec.feed, None);
        match entries.is_empty() {
            true => Ok(Step::Nothing),
            false => match self.claim(found).await.map_err(trouble)? {
                Some(claimed) => Ok(Step::Deliver(claimed, entries)),
                None => Ok(Step::Again),
            },
        }
    }

    /// Makes this one the holder of the cell. None if the cell is to be looked at again.
    async fn claim(&self, found: Found) -> Result<Option<Found>, String> {
        let before = found.stand.holder;
        if before == Some(self.me) {
            return Ok(Some(found));
        }
        let stand = found.stand.held_by(Some(self.me));
        let Changed::Done(claimed) = self.cell.change(&found, stand, &[]).await? else {
            return Ok(None);
        };
        let alive = before.filter(|holder| !self.sole || holder.process == self.me.process);
        if alive.is_none() {
            return Ok(Some(claimed));
        }
        // The one before may have begun a request just before the claim.
        let time = self.timing.request_within + self.timing.slack;
        tracing::info!(sink = %self.sink_name, feed = %self.spec.feed, shard = %self.shard, ?time,
            "the deliverer before may have a request under way: waiting it out");
        self.runtime.sleep(time).await;
        Ok(None)
    }

    /// Runs an attempt to its end, even if the caller goes away.
    async fn on_its_own(
        &self,
        attempt: impl Future<Output = Attempted> + Send + 'static,
    ) -> Attempted {
        let (done, ended) = tokio::sync::oneshot::channel();
        let work = async move {
            // Nobody may be waiting for it.
            let _ = done.send(attempt.await);
        };
        // Not ended when this is dropped.
        drop(self.runtime.start("delivery", Box::pin(work)));
        ended.await.unwrap_or_else(|_| {
            let reason = "an attempt ended without an outcome".into();
            let hindrance = Some(Hindrance::Trouble { reason, after: None });
            Attempted { found: None, settled: 0, hindrance }
        })
    }

    /// Delivers the entries, as far as it goes, and moves the cursor behind what is settled.
    async fn attempt(self: Arc<Self>, claimed: Found, entries: Vec<FeedEntry>) -> Attempted {
        let changes: Vec<Result<Delivery, ChangeError>> =
            entries.iter().map(|entry| self.delivery(entry)).collect();
        let mut bisect = Bisect::new(changes.len());
        let mut notes = Vec::new();
        let sent = AtomicBool::new(false);
        let mut hindrance = None;
        while let Some(range) = bisect.next() {
            match self.send(&claimed, &changes[range.clone()], &sent).await {
                Sent::Taken => bisect.taken(),
                Sent::Refused(reason) => {
                    if let Some(at) = bisect.refused() {
                        notes.push(self.park(&entries[at], &changes[at], &reason));
                    }
                }
                Sent::Failed { reason, after } => {
                    hindrance = Some(Hindrance::Trouble { reason, after });
                    break;
                }
                Sent::Replaced => {
                    self.give_back(&claimed, &sent).await;
                    return Attempted { found: None, settled: 0, hindrance: None };
                }
            }
        }
        let settled = bisect.done();
        let Some(last) = settled.checked_sub(1).map(|at| &entries[at]) else {
            return Attempted { found: Some(claimed), settled: 0, hindrance };
        };
        let stand = claimed.stand.moved_to(&last.cursor());
        match self.cell.change(&claimed, stand, &notes).await {
            Ok(Changed::Done(found)) => {
                self.figures.note(settled - notes.len(), notes.len());
                Attempted { found: Some(found), settled, hindrance }
            }
            Ok(Changed::Stale) => {
                self.give_back(&claimed, &sent).await;
                Attempted { found: None, settled: 0, hindrance: None }
            }
            // Whether it was moved is seen when the cell is read again; what was delivered comes again else.
            Err(reason) => {
                let hindrance = Some(Hindrance::Trouble { reason, after: None });
                Attempted { found: None, settled: 0, hindrance }
            }
        }
    }

    fn delivery(&self, entry: &FeedEntry) -> Result<Delivery, ChangeError> {
        let change = self.spec.payload.decode(&entry.entry)?;
        Ok(Delivery { feed: Arc::clone(&self.spec), number: entry.number, change })
    }

    /// Sends one request, if the cell still is this one's.
    async fn send(
        &self,
        claimed: &Found,
        changes: &[Result<Delivery, ChangeError>],
        sent: &AtomicBool,
    ) -> Sent {
        let failed = |reason: String| Sent::Failed { reason, after: None };
        let changes: Result<Vec<Delivery>, ChangeError> = changes.iter().cloned().collect();
        let changes = match changes {
            Ok(changes) => changes,
            // A change of a later release is whole: a node of that release can deliver it.
            Err(error @ ChangeError::Version(_)) => {
                return failed(format!("{error}; upgrade the node"));
            }
            Err(error) => return Sent::Refused(error.to_string()),
        };
        let sending = async {
            match self.cell.read().await {
                Ok(now) if now == *claimed => {}
                Ok(_) => return Sent::Replaced,
                Err(reason) => return failed(reason),
            }
            sent.store(true, Ordering::Relaxed);
            match self.sink.deliver(&changes).await {
                Ok(()) => Sent::Taken,
                Err(Failed::Refused { reason }) => Sent::Refused(reason),
                Err(Failed::Retry { reason, after }) => Sent::Failed { reason, after },
            }
        };
        let time = self.timing.request_within;
        let late = || failed(format!("no answer within {time:?}"));
        within(&*self.runtime, time, sending).await.unwrap_or_else(late)
    }

    fn park(
        &self,
        entry: &FeedEntry,
        change: &Result<Delivery, ChangeError>,
        reason: &str,
    ) -> Note {
        let Lane { sink_name, shard, .. } = self;
        let feed = &self.spec.feed;
        tracing::warn!(sink = %sink_name, %feed, %shard, number = entry.number,
            "a row is refused for good, and parked: {reason}");
        let shown =
            change.as_ref().ok().map(|delivery| delivery.change.payload_line().into_owned());
        let parked = Parked::new(feed, entry.number, reason, shown);
        Note { feed: self.parked.clone(), entry: parked.encode() }
    }

    /// Has the rows of a replaced attempt delivered again by whoever came after, if any of them were sent:
    /// the request may have arrived behind newer ones.
    async fn give_back(&self, claimed: &Found, sent: &AtomicBool) {
        if !sent.load(Ordering::Relaxed) {
            return;
        }
        let Lane { sink_name, shard, .. } = self;
        let feed = &self.spec.feed;
        for tries in 1..=GIVE_BACK_TRIES {
            match self.move_back(&claimed.stand.cursor()).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(reason) => {
                    let pause = backoff::wait(tries, self.entropy.next(), None);
                    tracing::warn!(sink = %sink_name, %feed, %shard, ?pause,
                        "another delivers now, and could not be told to deliver the last rows again: {reason}");
                    self.runtime.sleep(pause).await;
                }
            }
        }
        tracing::error!(sink = %sink_name, %feed, %shard, from = claimed.stand.next,
            "a deliverer that was replaced could not have its last rows delivered again: the sink may hold \
             an older revision of some of them");
    }

    /// Moves the cursor back to `from`, or to the oldest row there is. False if it was changed meanwhile.
    ///
    /// The cell is changed even if the cursor has not come further yet: the successor may have its own request
    /// answered, with ours arriving behind it, and be about to move the cursor. It is refused then, and
    /// delivers again.
    async fn move_back(&self, from: &Cursor) -> Result<bool, String> {
        let now = self.cell.read().await?;
        let first = feed::first(&*self.store, self.shard, &self.spec.feed).await;
        let first = first.map_err(|error| error.to_string())?;
        let oldest = from.last.map_or(from.next, |(number, _)| number);
        let from = if oldest < first { Cursor::at(first) } else { *from };
        let changed = self.cell.change(&now, now.stand.given_back(&from), &[]).await?;
        Ok(matches!(changed, Changed::Done(_)))
    }

    /// Tells whoever comes next that no request is under way. If that fails, the next one waits.
    async fn release(&self) {
        let releasing = async {
            let found = self.cell.read().await?;
            if found.stand.holder == Some(self.me) {
                let stand = found.stand.held_by(None);
                self.cell.change(&found, stand, &[]).await?;
            }
            Ok::<_, String>(())
        };
        if let Err(reason) = releasing.await {
            tracing::debug!(sink = %self.sink_name, feed = %self.spec.feed, "not released: {reason}");
        }
    }
}
