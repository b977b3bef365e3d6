//! Many events in one request: taken as they come, appended in large steps, bounded in memory and in the work between
//! two yields.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use consort_cluster::{Appending, Place};
use consort_kernel::{AppendError, Budget, Fault, Moment};
use consort_line::{Point, Precision};
use consort_views::{Event, Position, Rejection};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout};

use super::answers::{self, Appended, Bulk};
use super::apart::{self, Pieces};
use super::inflate::{Coding, Inflate};
use super::lines::{Line, Lines, Split};
use super::points::PointLines;
use super::post::unreadable;
use super::sorted::Sorted;
use super::{Entrance, POST_WITHIN};
use crate::gate::{Gate, Pass};
use crate::memory::BodyShare;
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
            bulk.reject(|| too_large.to_string());
        }
    }

    /// Whether it is time to send.
    pub(super) fn is_full(&self) -> bool {
        self.sorted.is_full()
    }

    fn has_failed(&self) -> bool {
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

/// A body with one JSON event a line.
pub(super) async fn lines(
    entrance: &Arc<Entrance>,
    body: Body,
    share: BodyShare,
) -> Result<Response, Problem> {
    let inflate = Inflate::new(Coding::Identity);
    let (bulk, appended) = match apart::is_small(&body) {
        true => {
            let pieces = Pieces::Here(body.into_data_stream());
            json_lines(Arc::clone(entrance), pieces, share, inflate).await?
        }
        false => {
            let work = |pieces| json_lines(Arc::clone(entrance), pieces, share, inflate);
            apart::read(&entrance.intake, body, work).await?
        }
    };
    Ok(bulk.answer(appended))
}

async fn json_lines(
    entrance: Arc<Entrance>,
    pieces: Pieces,
    share: BodyShare,
    inflate: Inflate,
) -> Result<(Bulk, Appended), Problem> {
    let take = |line: &[u8]| match line.trim_ascii() {
        // An empty line is no event, and no mistake.
        b"" => Ok(None),
        json => entrance.stream.schema.take(json).map(Some),
    };
    let (split, intake) = (Lines::default(), Intake::new(&entrance));
    let reader =
        Reader { split, take, intake, bulk: Bulk::new("line"), share, budget: Budget::default() };
    reader.read(pieces, inflate).await
}

/// A body of line protocol, perhaps compressed.
pub(super) async fn points(
    entrance: &Arc<Entrance>,
    head: &Parts,
    body: Body,
    precision: Precision,
) -> Result<(Bulk, Appended), Problem> {
    let coding = Coding::of(&head.headers)?;
    let share = BodyShare::from_extensions(&head.extensions);
    let is_small = coding == Coding::Identity && apart::is_small(&body);
    let work = |pieces| {
        let inflate = Inflate::new(coding);
        lines_of_points(Arc::clone(entrance), pieces, share, inflate, precision)
    };
    match is_small {
        true => work(Pieces::Here(body.into_data_stream())).await,
        false => apart::read(&entrance.intake, body, work).await,
    }
}

async fn lines_of_points(
    entrance: Arc<Entrance>,
    pieces: Pieces,
    share: BodyShare,
    inflate: Inflate,
    precision: Precision,
) -> Result<(Bulk, Appended), Problem> {
    let mut room = Point::default();
    let take = |line: &[u8]| {
        if line.is_empty() {
            return Ok(None);
        }
        let mut point = std::mem::take(&mut room).emptied();
        let taken = entrance.stream.schema.take_line(line, &mut point, precision, now);
        room = point.emptied();
        taken
    };
    let (split, intake) = (PointLines::default(), Intake::new(&entrance));
    let reader =
        Reader { split, take, intake, bulk: Bulk::new("line"), share, budget: Budget::default() };
    reader.read(pieces, inflate).await
}

/// When something is received, by the clock of this machine: the time of lines that bring none.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Takes the events of a body as it comes.
struct Reader<'a, S, T> {
    split: S,
    /// Makes an event of a line.
    take: T,
    intake: Intake<'a>,
    bulk: Bulk,
    share: BodyShare,
    budget: Budget,
}

impl<S: Split, T: FnMut(&[u8]) -> Result<Option<Event>, Rejection>> Reader<'_, S, T> {
    async fn read(
        mut self,
        mut body: Pieces,
        mut inflate: Inflate,
    ) -> Result<(Bulk, Appended), Problem> {
        while !self.intake.has_failed() {
            let piece = match timeout(IDLE, body.next()).await {
                Ok(piece) => piece,
                Err(_) => {
                    self.split.look_again();
                    self.lines().await;
                    self.intake.flush().await;
                    body.next().await
                }
            };
            let Some(piece) = piece else { break };
            let Ok(piece) = piece else {
                // What came before is appended; the client does not know how much, so its lines need ids.
                self.intake.finish().await;
                return Err(unreadable());
            };
            inflate.feed(piece);
            if let Err(problem) = self.inflated(&mut inflate).await {
                return self.cut_off(problem).await;
            }
        }
        if !self.intake.has_failed() {
            match inflate.end() {
                Ok(Some(piece)) => self.piece(piece).await,
                Ok(None) => {}
                Err(problem) => return self.cut_off(problem).await,
            }
        }
        self.split.look_again();
        self.lines().await;
        if let Some(line) = self.split.last() {
            take_line(line, &mut self.take, &mut self.intake, &mut self.bulk);
        }
        Ok((self.bulk, self.intake.finish().await))
    }

    /// Takes the lines of what was fed.
    async fn inflated(&mut self, inflate: &mut Inflate) -> Result<(), Problem> {
        while !self.intake.has_failed()
            && let Some(piece) = inflate.next()?
        {
            self.piece(piece).await;
        }
        Ok(())
    }

    /// Takes the lines of a piece.
    async fn piece(&mut self, piece: Bytes) {
        self.budget.spend(piece.len()).await;
        let held = self.intake.held() + self.split.held() + piece.len();
        if let Err(full) = self.share.hold(held) {
            return self.intake.fail(full.problem());
        }
        self.split.feed(piece);
        self.lines().await;
    }

    /// Takes all lines that have come whole.
    async fn lines(&mut self) {
        while let Some(line) = self.split.next() {
            let length = line.length();
            take_line(line, &mut self.take, &mut self.intake, &mut self.bulk);
            self.budget.spend(length).await;
            if self.intake.is_full() {
                self.intake.flush().await;
            }
        }
    }

    /// The rest of the body is not read. A client whose body is too large hears how much of it was taken.
    async fn cut_off(mut self, problem: Problem) -> Result<(Bulk, Appended), Problem> {
        if problem.status() != StatusCode::PAYLOAD_TOO_LARGE {
            self.intake.finish().await;
            return Err(problem);
        }
        self.intake.flush().await;
        self.intake.fail(problem);
        Ok((self.bulk, self.intake.finish().await))
    }
}

fn take_line(
    line: Line<'_>,
    take: &mut impl FnMut(&[u8]) -> Result<Option<Event>, Rejection>,
    intake: &mut Intake<'_>,
    bulk: &mut Bulk,
) {
    bulk.begin();
    match line {
        Line::TooLong => {
            intake.entrance.metrics.rejected.inc();
            bulk.reject(|| format!("the line is longer than {} bytes", super::lines::LINE_MOST));
        }
        Line::Whole(line, breaks) => {
            match take(line) {
                Ok(Some(event)) => intake.take(event, bulk),
                Ok(None) => {}
                Err(rejection) => {
                    intake.entrance.metrics.rejected.inc();
                    bulk.reject(|| rejection.to_string());
                }
            }
            bulk.pass(breaks);
        }
    }
}
