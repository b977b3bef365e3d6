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
//!    request began ([`SinkFeed::give_back`]), and B delivers all of it again, the newest revisions last. An
//!    attempt is a task of its own and is not ended with the role, so that it comes to this.
//!
//! What is left is a request that outlives its process on the network for longer than the wait.
//!
//! # Subjects
//!
//! Where the payload has subjects and the sink takes every change, a refused change parks its subject: later changes
//! build on the refused one. All changes of a parked subject are passed over until an operator has it released
//! (`release.rs`). Where the sink takes states, a run of changes is sent as the present states of its subjects.

mod alarm;
mod attempt;
mod batch;
mod give_back;
mod release;

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{Runtime, Tenure};
use consort_kernel::{Entropy, FeedEntry, Most, Name, ReadError, Shard, Store, Wake};

use crate::backoff;
use crate::cell::{Changed, CursorCell, Found, Holder};
use crate::figures::SinkFigures;
use crate::names;
use crate::parked_subject::{ParkedSubjects, asked_releases};
use crate::part::{Timing, deliverer_role};
use crate::says::Says;
use crate::sink::Sink;
use crate::spec::FeedSpec;
use crate::subjects::{SendMode, Subject};

/// What one request brings at most: enough that a connection is worth it, and little enough for any sink.
const BATCH: Most = Most { entries: 1_000, bytes: 1 << 20 };

/// How long it waits for rows before it looks at its cell again, where somebody may have moved it back.
const IDLE: Duration = Duration::from_secs(5);

/// Which of the failures in a row are logged.
const TELL_EVERY: u32 = 20;

/// One feed of one shard on its way to one sink.
#[derive(Debug)]
pub(crate) struct SinkFeed {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) timing: Timing,
    /// Whether no other process can be at work on the store.
    pub(crate) sole: bool,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) sink_name: Name,
    pub(crate) send: SendMode,
    pub(crate) spec: Arc<FeedSpec>,
    /// The list of refused rows.
    pub(crate) parked: Name,
    pub(crate) shard: Shard,
    pub(crate) me: Holder,
    pub(crate) cell: CursorCell,
    pub(crate) figures: Arc<SinkFigures>,
    pub(crate) says: Says,
}

/// The cell of the cursor, and the parked subjects that were read after it. Whoever changes one of the parked subjects
/// changes the cell as well, so a commit that expects the cell vouches for both.
#[derive(Clone, Debug)]
struct SinkFeedState {
    found: Found,
    parked: ParkedSubjects,
}

/// The next thing to do.
enum Step {
    /// Nothing new.
    Nothing,
    /// The cell may have changed: look again.
    Again,
    Deliver(SinkFeedState, Vec<FeedEntry>),
    Release(SinkFeedState, Subject),
}

/// Why a step could not be made.
#[derive(Debug)]
enum Hindrance {
    /// It passes.
    Trouble { reason: String, after: Option<Duration> },
    /// A refused change cannot be parked: too many subjects are.
    Full(String),
    /// Rows were lost: nothing goes on before an operator has decided.
    Loss(String),
}

impl Hindrance {
    fn trouble(reason: impl Into<String>) -> Hindrance {
        Hindrance::Trouble { reason: reason.into(), after: None }
    }
}

/// How an attempt ended.
#[derive(Debug)]
struct Attempted {
    /// The state afterwards; none if it is to be read again.
    state: Option<SinkFeedState>,
    /// Rows that are settled.
    settled: usize,
    hindrance: Option<Hindrance>,
}

impl SinkFeed {
    /// Works until the tenure ends.
    pub(crate) async fn run(self: Arc<Self>, mut tenure: Tenure) {
        let (mut state, mut failures, mut counted) = (None, 0, None);
        loop {
            let step = tokio::select! {
                biased;
                () = tenure.ending() => break,
                step = self.step(state.take()) => step,
            };
            let (attempted, has_more) = match step {
                Ok(Step::Again) => continue,
                Ok(Step::Nothing) => {
                    failures = 0;
                    self.figures.note_waiting(&self.spec.feed, self.shard, None);
                    self.says.idle(&self.spec.feed);
                    continue;
                }
                Ok(Step::Deliver(claimed, entries)) => self.deliver(claimed, entries).await,
                Ok(Step::Release(claimed, subject)) => {
                    let release = Arc::clone(&self).release(claimed, subject);
                    (self.on_its_own(release).await, false)
                }
                Err(hindrance) => {
                    let hindrance = Some(hindrance);
                    (Attempted { state: None, settled: 0, hindrance }, false)
                }
            };
            state = attempted.state;
            self.says.applied(&self.spec.feed, attempted.settled);
            if attempted.settled > 0 {
                failures = 0;
                self.figures.note_full(&self.spec.feed, self.shard, false);
            }
            if let Some(state) =
                state.as_ref().filter(|_| has_more || attempted.hindrance.is_some())
            {
                self.count(&mut counted, &state.found).await;
            }
            let Some(hindrance) = attempted.hindrance else { continue };
            failures += 1;
            let pause = self.tell(hindrance, failures);
            let asked = self.release_watch(state.as_ref());
            tokio::select! {
                biased;
                () = tenure.ending() => break,
                () = changed(asked) => {}
                () = self.runtime.sleep(pause) => {}
            }
        }
        self.figures.note_waiting(&self.spec.feed, self.shard, None);
        self.release_cursor().await;
    }

    /// Makes an attempt. Also tells whether more rows wait behind it.
    async fn deliver(
        self: &Arc<Self>,
        claimed: SinkFeedState,
        entries: Vec<FeedEntry>,
    ) -> (Attempted, bool) {
        self.says.in_hand(&self.spec.feed, self.runtime.elapsed());
        let since = self.says.since(&self.spec.feed);
        self.figures.note_waiting(&self.spec.feed, self.shard, since);
        let bytes = entries.iter().map(|entry| entry.entry.len()).sum();
        let has_more = BATCH.reached(entries.len(), bytes);
        let attempt = Arc::clone(self).attempt(claimed, entries);
        (self.on_its_own(attempt).await, has_more)
    }

    /// Says what hinders it, and for how long it is to rest.
    fn tell(&self, hindrance: Hindrance, failures: u32) -> Duration {
        let SinkFeed { sink_name, shard, .. } = self;
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
            Hindrance::Full(reason) => {
                if self.says.full(feed, Some(reason.clone())) {
                    tracing::error!(sink = %sink_name, %feed, %shard, "{reason}");
                }
                self.figures.note_full(feed, *shard, true);
                backoff::wait(failures, self.entropy.next(), None)
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

    /// Whether a refused change parks its subject.
    fn parks_subjects(&self) -> bool {
        self.send == SendMode::Pieces && self.spec.payload.subjects().is_some()
    }

    async fn load(&self) -> Result<SinkFeedState, String> {
        let found = self.cell.read().await?;
        let SinkFeed { store, shard, sink_name, spec, .. } = self;
        let parked = match self.parks_subjects() {
            true => ParkedSubjects::load(&**store, *shard, sink_name, &spec.feed).await?,
            false => ParkedSubjects::default(),
        };
        self.says.parked(&spec.feed, parked.waiting());
        Ok(SinkFeedState { found, parked })
    }

    /// Wakes when an operator asks for a release, if there is something to release.
    fn release_watch(&self, state: Option<&SinkFeedState>) -> Option<Wake> {
        let waiting = state.map_or(0, |state| state.parked.waiting());
        let key = names::release_news(&self.sink_name, &self.spec.feed);
        (waiting > 0).then(|| self.store.watch(self.shard, &key))
    }

    /// Finds the next thing to do, and makes sure that this sink feed may do it.
    async fn step(&self, state: Option<SinkFeedState>) -> Result<Step, Hindrance> {
        let mut state = match state {
            Some(state) => state,
            None => self.load().await.map_err(Hindrance::trouble)?,
        };
        let SinkFeed { store, shard, sink_name, spec, .. } = self;
        // First the watch, then the look: a request in between wakes the wait.
        let wake = self.release_watch(Some(&state));
        if wake.is_some() {
            let asked = asked_releases(&**store, *shard, sink_name, &spec.feed).await;
            let asked = asked.map_err(Hindrance::trouble)?;
            let is_parked = |subject: &Subject| {
                state.parked.get(subject).is_some_and(|cell| cell.sent.is_none())
            };
            if let Some(subject) = asked.into_iter().find(is_parked) {
                let claimed = self.claim(state).await.map_err(Hindrance::trouble)?;
                return Ok(claimed.map_or(Step::Again, |state| Step::Release(state, subject)));
            }
        }
        let entries = tokio::select! {
            biased;
            entries = self.read(&mut state.found) => entries?,
            () = changed(wake) => return Ok(Step::Again),
        };
        self.says.stopped(&spec.feed, None);
        if entries.is_empty() {
            return Ok(Step::Nothing);
        }
        let claimed = self.claim(state).await.map_err(Hindrance::trouble)?;
        Ok(claimed.map_or(Step::Again, |state| Step::Deliver(state, entries)))
    }

    /// Reads behind the cursor, and waits for rows if there are none.
    async fn read(&self, found: &mut Found) -> Result<Vec<FeedEntry>, Hindrance> {
        let read = |cursor| async move {
            self.store.feed(self.shard, &self.spec.feed, &cursor, BATCH, IDLE).await
        };
        match read(found.stand.cursor()).await {
            Ok(entries) => Ok(entries),
            // A sink that was declared after the feed was trimmed: the trimmed rows were never meant for it.
            Err(ReadError::Trimmed { first, .. }) if found.is_new() => {
                *found = found.clone().beginning_at(first);
                let read = read(found.stand.cursor()).await;
                read.map_err(|error| Hindrance::trouble(error.to_string()))
            }
            Err(error @ (ReadError::Refused(_) | ReadError::Engine(_))) => {
                Err(Hindrance::trouble(error.to_string()))
            }
            Err(error) => Err(Hindrance::Loss(error.to_string())),
        }
    }

    /// Makes this sink feed the holder of the cell. None if the cell is to be looked at again.
    async fn claim(&self, state: SinkFeedState) -> Result<Option<SinkFeedState>, String> {
        let SinkFeedState { found, parked } = state;
        let before = found.stand.holder;
        if before == Some(self.me) {
            return Ok(Some(SinkFeedState { found, parked }));
        }
        let stand = found.stand.held_by(Some(self.me));
        let Changed::Done(found) = self.cell.change(&found, stand, Vec::new()).await? else {
            return Ok(None);
        };
        let alive = before.filter(|holder| !self.sole || holder.process == self.me.process);
        if alive.is_none() {
            // The cell was as it was found, so the parked subjects that were read after it are still the same.
            return Ok(Some(SinkFeedState { found, parked }));
        }
        // The holder before may have begun a request just before the claim.
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
            let hindrance = Hindrance::trouble("an attempt ended without an outcome");
            Attempted { state: None, settled: 0, hindrance: Some(hindrance) }
        })
    }

    /// Tells the next deliverer that no request is under way. If that fails, the next one waits.
    async fn release_cursor(&self) {
        let releasing = async {
            let found = self.cell.read().await?;
            if found.stand.holder == Some(self.me) {
                let stand = found.stand.held_by(None);
                self.cell.change(&found, stand, Vec::new()).await?;
            }
            Ok::<_, String>(())
        };
        if let Err(reason) = releasing.await {
            tracing::debug!(sink = %self.sink_name, feed = %self.spec.feed, "not released: {reason}");
        }
    }
}

/// Waits for the wake; for ever if there is none.
async fn changed(wake: Option<Wake>) {
    match wake {
        Some(mut wake) => wake.changed().await,
        None => std::future::pending().await,
    }
}
