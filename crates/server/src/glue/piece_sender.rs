//! Sends the pieces of one bulk request: bounded in memory, in their order for each partition, and with the lines of
//! those that were not stored.
//!
//! Each partition has a ticket: behind a piece that was refused, taken back, failed or unknown, no further piece of the
//! request is appended to that partition. After the first failure nothing more is sent at all, so that all lines behind
//! it are not stored, and the client can send them again from there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::{Appending, Place, SubmitError, SubmitOptions, Ticket};
use consort_kernel::{Fault, RecordsMut};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::bulk_line::LinePiece;
use super::faults;
use super::line_ranges::LineRanges;
use super::open::OpenCollection;
use super::pieces::may_be_stored;
use super::quota::LEAST_PIECES;
use super::quotas::CountedPieces;
use crate::gate::Admission;
use crate::ingress::{IngressError, POST_WITHIN};
use crate::problem::Problem;
use crate::tenants::TenantName;

/// Bytes of one request that may be on their way into the log: the lists of lines in the answer are bounded by it.
const IN_FLIGHT_BYTES: usize = 4 << 20;

/// Bytes that are collected for one partition before they are sent: a frame of a useful size.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes that are collected for all partitions before they are sent: a request to many partitions fills none of them.
const ALL_BATCHES_BYTES: usize = 1 << 20;

/// How long to wait when the quota or the gate refuses, before they are asked again: a request that streams is slowed
/// down rather than broken off.
const PAUSE: Duration = Duration::from_millis(25);

/// How many places are kept before those that others stand behind are dropped, for each partition.
const PLACES_EACH: usize = 4;

pub(super) struct PieceSender {
    collection: Arc<OpenCollection>,
    batches: BTreeMap<(u32, TenantName), LineBatch>,
    /// Bytes in all batches.
    collected: usize,
    tickets: BTreeMap<u32, Ticket>,
    /// Tasks of their own: each settles quota and gate, whatever the request waits for just then.
    steps: FuturesUnordered<JoinHandle<Step>>,
    in_flight: usize,
    sent: SentPieces,
}

/// What became of the pieces of a request.
#[derive(Debug, Default)]
pub(super) struct SentPieces {
    pub(super) stored: u64,
    pub(super) places: Vec<Place>,
    /// Why nothing more was sent: an unknown outcome before a definite one.
    pub(super) failure: Option<Problem>,
    pub(super) not_stored: LineRanges,
    pub(super) unknown: LineRanges,
}

/// Pieces for one partition and tenant.
#[derive(Default)]
struct LineBatch {
    records: RecordsMut,
    bytes: usize,
    lines: LineRanges,
}

/// What became of a batch.
struct Step {
    pieces: u64,
    bytes: usize,
    lines: LineRanges,
    result: Result<Place, SubmitError>,
}

impl PieceSender {
    pub(super) fn new(collection: Arc<OpenCollection>) -> PieceSender {
        PieceSender {
            collection,
            batches: BTreeMap::new(),
            collected: 0,
            tickets: BTreeMap::new(),
            steps: FuturesUnordered::new(),
            in_flight: 0,
            sent: SentPieces::default(),
        }
    }

    /// Takes the piece of a line, and sends what is ready. It waits only while too much is on its way.
    pub(super) async fn push(&mut self, line: u64, piece: LinePiece) {
        let LinePiece { partition, tenant, record } = piece;
        if self.has_failed() {
            return self.sent.not_stored.merge(one(line));
        }
        let key = (partition, tenant);
        let batch = self.batches.entry(key.clone()).or_default();
        batch.records.push(&record);
        batch.bytes += record.len();
        batch.lines.push(line);
        self.collected += record.len();
        if batch.is_ready(self.collection.quotas.share(partition).pieces) {
            self.send(key).await;
        } else if self.collected >= ALL_BATCHES_BYTES {
            self.flush().await;
        }
    }

    /// Sends all that was taken.
    pub(super) async fn flush(&mut self) {
        while let Some(key) = self.batches.keys().next().cloned() {
            self.send(key).await;
        }
    }

    /// Nothing more is sent.
    pub(super) fn fail(&mut self, problem: Problem) {
        self.sent.failure.get_or_insert(problem);
        for batch in std::mem::take(&mut self.batches).into_values() {
            self.sent.not_stored.merge(batch.lines);
        }
        self.collected = 0;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.sent.failure.is_some()
    }

    /// These lines came behind a failure.
    pub(super) fn pass_over(&mut self, first: u64, last: u64) {
        let mut lines = LineRanges::default();
        lines.push_range(first, last);
        self.sent.not_stored.merge(lines);
    }

    /// Bytes that were taken and are not yet answered.
    pub(super) fn held(&self) -> usize {
        self.collected + self.in_flight
    }

    /// Waits until all that was sent is answered.
    pub(super) async fn finish(mut self) -> SentPieces {
        self.flush().await;
        while let Some(step) = self.steps.next().await {
            self.settle(step);
        }
        self.sent
    }

    async fn send(&mut self, key: (u32, TenantName)) {
        let Some(batch) = self.batches.remove(&key) else { return };
        self.collected -= batch.bytes;
        while self.in_flight + batch.bytes > IN_FLIGHT_BYTES
            && let Some(step) = self.steps.next().await
        {
            self.settle(step);
        }
        if self.has_failed() {
            return self.sent.not_stored.merge(batch.lines);
        }
        let (partition, tenant) = key;
        match self.enter(partition, &tenant, &batch).await {
            Ok((counted, admission)) => self.enqueue(partition, batch, counted, admission),
            Err(problem) => {
                self.sent.not_stored.merge(batch.lines);
                self.fail(problem);
            }
        }
    }

    /// Asks quota and gate until they let a batch in, or the time of a post is over.
    async fn enter(
        &self,
        partition: u32,
        tenant: &TenantName,
        batch: &LineBatch,
    ) -> Result<(CountedPieces, Admission), Problem> {
        let (pieces, bytes) = (batch.records.len() as u64, batch.bytes as u64);
        let deadline = Instant::now() + POST_WITHIN;
        let is_over = || Instant::now() + PAUSE >= deadline;
        let OpenCollection { quotas, ingress, .. } = &*self.collection;
        let demand = ingress.demand();
        let mut has_waited = false;
        let counted = loop {
            let full = match quotas.admit(partition, tenant, pieces, bytes) {
                Ok(counted) => break counted,
                Err(full) => full,
            };
            if is_over() {
                if full.is_overload() {
                    demand.note_refused(pieces);
                }
                return Err(full.problem());
            }
            has_waited |= full.is_overload();
            tokio::time::sleep(PAUSE).await;
        };
        loop {
            let refused = match ingress.gate().enter(pieces, deadline).await {
                Ok(admission) => {
                    if has_waited || admission.has_waited() {
                        demand.note_delayed(pieces);
                    }
                    return Ok((counted, admission));
                }
                Err(refused) => refused,
            };
            if is_over() {
                demand.note_refused(pieces);
                counted.not_sent();
                return Err(faults::not_appended(IngressError::Overloaded(refused)));
            }
            has_waited = true;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn enqueue(
        &mut self,
        partition: u32,
        batch: LineBatch,
        counted: CountedPieces,
        admission: Admission,
    ) {
        let LineBatch { records, bytes, lines } = batch;
        let pieces = records.len() as u64;
        let ticket = self.tickets.entry(partition).or_default();
        let options = SubmitOptions { ticket: Some(ticket), within: Some(POST_WITHIN) };
        let appending = self.collection.ingress.enqueue(partition, records.freeze(), options);
        self.in_flight += bytes;
        self.steps.push(tokio::spawn(async move {
            let result = append(appending, counted, admission, pieces).await;
            Step { pieces, bytes, lines, result }
        }));
    }

    fn settle(&mut self, step: Result<Step, JoinError>) {
        let Ok(step) = step else {
            let fault = Fault::Retryable("the task that waited for the log failed".into());
            return self.fail(faults::not_stored(&SubmitError::Unknown(fault)));
        };
        let Step { pieces, bytes, lines, result } = step;
        self.in_flight -= bytes;
        let metrics = self.collection.ingress.metrics();
        match result {
            Ok(place) => {
                metrics.accepted.inc_by(pieces);
                self.sent.stored += pieces;
                self.sent.places.push(place);
                if self.sent.places.len() > PLACES_EACH * self.tickets.len() {
                    self.sent.keep_last_places();
                }
            }
            Err(error) => {
                metrics.unappended.inc_by(pieces);
                self.failed(&error, lines);
            }
        }
    }

    fn failed(&mut self, error: &SubmitError, lines: LineRanges) {
        let problem = faults::not_stored(error);
        match may_be_stored(error) {
            true => {
                // A client must hear of an unknown outcome, whatever failed before it.
                if self.sent.unknown.is_empty() {
                    self.sent.failure = None;
                }
                self.sent.unknown.merge(lines);
            }
            false => self.sent.not_stored.merge(lines),
        }
        self.fail(problem);
    }
}

impl LineBatch {
    /// Whether it is time to send: half of what the tenant may have, so that the next batch is collected meanwhile.
    fn is_ready(&self, quota: u64) -> bool {
        let most = (quota / 2).max(LEAST_PIECES);
        self.bytes >= BATCH_BYTES || self.records.len() as u64 >= most
    }
}

impl SentPieces {
    /// Drops the places that others of the same partition and producer stand behind.
    fn keep_last_places(&mut self) {
        self.places =
            consort_views::Position::of(std::mem::take(&mut self.places)).places().to_vec();
    }
}

async fn append(
    appending: Result<Appending, SubmitError>,
    counted: CountedPieces,
    admission: Admission,
    pieces: u64,
) -> Result<Place, SubmitError> {
    let result = match appending {
        Ok(appending) => appending.await,
        Err(error) => Err(error),
    };
    counted.settle(result.as_ref());
    admission.done_in_bulk(if result.is_ok() { pieces } else { 0 });
    result
}

fn one(line: u64) -> LineRanges {
    let mut lines = LineRanges::default();
    lines.push(line);
    lines
}
