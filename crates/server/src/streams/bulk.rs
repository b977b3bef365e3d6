//! Many events in one request: appended in large steps, and bounded in memory.

use std::time::Duration;

use consort_cluster::{Appending, Place};
use consort_kernel::{AppendError, Fault};
use consort_views::{Event, Position};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::answers::{self, Appended, Bulk};
use super::sorted::Sorted;
use super::{Entrance, POST_WITHIN};
use crate::gate::{Gate, Pass};
use crate::problem::Problem;

/// Bytes of one request that may be on their way into the log while more is read.
const IN_FLIGHT_BYTES: usize = 4 << 20;

/// How long to wait when the gate refuses, before it is asked again: a request that streams is slowed down
/// rather than broken off.
const PAUSE_MOST: Duration = Duration::from_millis(500);

/// Events of one request on their way into the log.
pub(super) struct Intake<'a> {
    entrance: &'a Entrance,
    sorted: Sorted,
    /// Tasks of their own: each tells the gate when it is done, whatever the request waits for just then.
    steps: FuturesUnordered<JoinHandle<Step>>,
    in_flight: usize,
    appended: Appended,
}

/// What became of the records that were sent together.
struct Step {
    bytes: usize,
    /// For each partition, how many records it was sent, and what the log said.
    settled: Vec<(u64, Result<Place, AppendError>)>,
}

impl<'a> Intake<'a> {
    pub(super) fn new(entrance: &'a Entrance) -> Self {
        Intake {
            sorted: Sorted::new(entrance.stream.partitions),
            entrance,
            steps: FuturesUnordered::new(),
            in_flight: 0,
            appended: Appended::default(),
        }
    }

    /// Takes an event, or tells why no log would.
    pub(super) fn take(&mut self, event: Event, bulk: &mut Bulk) {
        if let Err(too_large) = self.sorted.push(&self.entrance.stream, event) {
            self.entrance.metrics.rejected.inc();
            bulk.reject(|| too_large.to_string());
        }
    }

    /// Whether it is time to send.
    pub(super) fn is_full(&self) -> bool {
        self.sorted.is_full()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.appended.failure.is_some()
    }

    /// Nothing more is sent. The first reason is the one that is told.
    pub(super) fn fail(&mut self, problem: Problem) {
        self.appended.failure.get_or_insert(problem);
    }

    /// Bytes of records that are kept, or on their way.
    pub(super) fn held(&self) -> usize {
        self.sorted.bytes + self.in_flight
    }

    pub(super) fn entrance(&self) -> &'a Entrance {
        self.entrance
    }

    /// Sends what was taken, and waits only while too much is on its way.
    pub(super) async fn flush(&mut self) {
        if self.sorted.records == 0 || self.has_failed() {
            return;
        }
        let pass = match enter(&self.entrance.gate, self.sorted.records).await {
            Ok(pass) => pass,
            Err(problem) => {
                self.appended.failure = Some(problem);
                return;
            }
        };
        self.send(pass);
        while self.in_flight > IN_FLIGHT_BYTES
            && let Some(step) = self.steps.next().await
        {
            self.settle(step);
        }
    }

    fn send(&mut self, pass: Pass) {
        let bytes = self.sorted.bytes;
        let sent: Vec<(u64, Result<Appending, AppendError>)> = self
            .sorted
            .take()
            .into_iter()
            .map(|(index, records)| {
                let count = records.len() as u64;
                (count, self.entrance.enqueue(index, records))
            })
            .collect();
        self.in_flight += bytes;
        self.steps.push(tokio::spawn(step(sent, bytes, pass)));
    }

    fn settle(&mut self, step: Result<Step, JoinError>) {
        let Ok(step) = step else {
            let fault = Fault::Retryable("what was sent was lost sight of".into());
            let problem = answers::not_appended(&AppendError::Unknown(fault));
            self.appended.failure.get_or_insert(problem);
            return;
        };
        self.in_flight -= step.bytes;
        for (records, result) in step.settled {
            match result {
                Ok(place) => {
                    self.entrance.metrics.accepted.inc_by(records);
                    self.appended.accepted += records;
                    self.appended.places.push(place);
                }
                Err(error) => {
                    self.entrance.metrics.unappended.inc_by(records);
                    let problem = answers::not_appended(&error);
                    self.appended.failure.get_or_insert(problem);
                }
            }
        }
        // Of many places the last of each partition counts.
        if self.appended.places.len() > 4 * self.entrance.stream.partitions as usize {
            let places = std::mem::take(&mut self.appended.places);
            self.appended.places = Position::of(places).places().to_vec();
        }
    }

    /// Sends the rest and waits until all of it is answered.
    pub(super) async fn finish(mut self) -> Appended {
        self.flush().await;
        while let Some(step) = self.steps.next().await {
            self.settle(step);
        }
        self.appended
    }
}

/// Asks the gate until it lets these records in, or the time of a post is over.
async fn enter(gate: &Gate, records: u64) -> Result<Pass, Problem> {
    let deadline = Instant::now() + POST_WITHIN;
    loop {
        let refused = match gate.enter(records, deadline).await {
            Ok(pass) => return Ok(pass),
            Err(refused) => refused,
        };
        let pause = refused.retry_after.min(PAUSE_MOST);
        if Instant::now() + pause >= deadline {
            return Err(answers::refused(refused));
        }
        tokio::time::sleep(pause).await;
    }
}

async fn step(sent: Vec<(u64, Result<Appending, AppendError>)>, bytes: usize, pass: Pass) -> Step {
    let mut settled = Vec::with_capacity(sent.len());
    let mut appended = 0;
    for (records, appending) in sent {
        let result = match appending {
            Ok(appending) => appending.await,
            Err(error) => Err(error),
        };
        appended += if result.is_ok() { records } else { 0 };
        settled.push((records, result));
    }
    pass.done_in_bulk(appended);
    Step { bytes, settled }
}
