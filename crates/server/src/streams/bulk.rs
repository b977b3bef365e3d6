//! Many events in one request: taken as they come, appended in large steps, bounded in memory.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use consort_cluster::{Appending, Place};
use consort_kernel::{AppendError, Fault, Moment};
use consort_line::{Point, Precision};
use consort_views::{Event, Position, Rejection};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout};

use super::answers::{self, Appended, Bulk};
use super::inflate::{Coding, Inflate};
use super::lines::{Line, Lines, Split};
use super::points::PointLines;
use super::post::unreadable;
use super::sorted::Sorted;
use super::{Entrance, POST_WITHIN};
use crate::gate::{Gate, Pass};
use crate::problem::Problem;

/// Bytes of one request that may be on their way into the log while more is read.
const IN_FLIGHT_BYTES: usize = 4 << 20;

/// A client that pauses has what it sent appended after this time.
const IDLE: Duration = Duration::from_millis(20);

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
            bulk.reject(too_large.to_string());
        }
    }

    /// Whether it is time to send.
    pub(super) fn is_full(&self) -> bool {
        self.sorted.is_full()
    }

    fn has_failed(&self) -> bool {
        self.appended.failure.is_some()
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

/// A body with one JSON event a line.
pub(super) async fn lines(entrance: &Entrance, body: Body) -> Result<Response, Problem> {
    let take = |line: &[u8]| match line.trim_ascii() {
        // An empty line is no event, and no mistake.
        b"" => Ok(None),
        json => entrance.stream.schema.take(json).map(Some),
    };
    let (bulk, appended) =
        events(entrance, body, Inflate::new(Coding::Identity), Lines::default(), take).await?;
    Ok(bulk.answer(appended))
}

/// A body of line protocol, perhaps compressed.
pub(super) async fn points(
    entrance: &Entrance,
    headers: &HeaderMap,
    body: Body,
    precision: Precision,
) -> Result<(Bulk, Appended), Problem> {
    let inflate = Inflate::new(Coding::of(headers)?);
    let mut room = Point::default();
    let take = |line: &[u8]| {
        let mut point = std::mem::take(&mut room).emptied();
        let taken = entrance.stream.schema.take_line(line, &mut point, precision, now);
        room = point.emptied();
        taken
    };
    events(entrance, body, inflate, PointLines::default(), take).await
}

/// When something is received, by the clock of this machine: the time of lines that bring none.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Takes the events of a body as it comes.
async fn events<S: Split>(
    entrance: &Entrance,
    body: Body,
    mut inflate: Inflate,
    mut split: S,
    mut take: impl FnMut(&[u8]) -> Result<Option<Event>, Rejection>,
) -> Result<(Bulk, Appended), Problem> {
    let mut body = body.into_data_stream();
    let mut intake = Intake::new(entrance);
    let mut bulk = Bulk::new("line");
    while !intake.has_failed() {
        let piece = match timeout(IDLE, body.next()).await {
            Ok(piece) => piece,
            Err(_) => {
                split.look_again();
                take_lines(&mut split, &mut take, &mut intake, &mut bulk).await;
                intake.flush().await;
                body.next().await
            }
        };
        let Some(piece) = piece else { break };
        let Ok(piece) = piece else {
            // What came before is appended; the client does not know how much, so its lines need ids.
            intake.finish().await;
            return Err(unreadable());
        };
        inflate.feed(piece);
        loop {
            match inflate.next() {
                Ok(None) => break,
                Ok(Some(piece)) => split.feed(piece),
                Err(problem) => {
                    intake.finish().await;
                    return Err(problem);
                }
            }
            take_lines(&mut split, &mut take, &mut intake, &mut bulk).await;
        }
    }
    let end = if intake.has_failed() { Ok(None) } else { inflate.end() };
    if let Ok(Some(piece)) = &end {
        split.feed(piece.clone());
        take_lines(&mut split, &mut take, &mut intake, &mut bulk).await;
    }
    if let Err(problem) = end {
        intake.finish().await;
        return Err(problem);
    }
    split.look_again();
    take_lines(&mut split, &mut take, &mut intake, &mut bulk).await;
    if let Some(line) = split.last() {
        take_line(line, &mut take, &mut intake, &mut bulk);
    }
    Ok((bulk, intake.finish().await))
}

/// Takes all lines that have come whole.
async fn take_lines(
    split: &mut impl Split,
    take: &mut impl FnMut(&[u8]) -> Result<Option<Event>, Rejection>,
    intake: &mut Intake<'_>,
    bulk: &mut Bulk,
) {
    while let Some(line) = split.next() {
        take_line(line, take, intake, bulk);
        if intake.is_full() {
            intake.flush().await;
        }
    }
}

fn take_line(
    line: Line<'_>,
    take: &mut impl FnMut(&[u8]) -> Result<Option<Event>, Rejection>,
    intake: &mut Intake<'_>,
    bulk: &mut Bulk,
) {
    bulk.begin();
    let reason = match line {
        Line::TooLong => format!("the line is longer than {} bytes", super::lines::LINE_MOST),
        Line::Whole(line, breaks) => match take(line) {
            Ok(taken) => {
                if let Some(event) = taken {
                    intake.take(event, bulk);
                }
                return bulk.pass(breaks);
            }
            Err(rejection) => rejection.to_string(),
        },
    };
    intake.entrance.metrics.rejected.inc();
    bulk.reject(reason);
    if let Line::Whole(_, breaks) = line {
        bulk.pass(breaks);
    }
}
