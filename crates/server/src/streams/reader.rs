//! Bodies of lines, of JSON or of line protocol: read as they come, in bounded steps.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use consort_kernel::{Budget, Moment};
use consort_line::{Point, Precision};
use consort_views::{Event, Rejection};
use tokio::time::timeout;

use super::Entrance;
use super::answers::{Appended, Bulk};
use super::apart::{self, Pieces};
use super::bulk::Intake;
use super::inflate::{Coding, Inflate};
use super::lines::{LINE_MOST, Line, Lines, Split};
use super::points::PointLines;
use super::post::unreadable;
use crate::memory::BodyShare;
use crate::problem::Problem;

/// A client that pauses has what it sent appended after this time.
const IDLE: Duration = Duration::from_millis(20);

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
    let coding = Coding::from_headers(&head.headers)?;
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
            self.budget.spend(inflate.step_price()).await;
            if !piece.is_empty() {
                self.piece(piece).await;
            }
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
            intake.entrance().ingress.metrics().rejected.inc();
            bulk.reject(|| format!("the line is longer than {LINE_MOST} bytes"));
        }
        Line::Whole(line, breaks) => {
            match take(line) {
                Ok(Some(event)) => intake.take(event, bulk),
                Ok(None) => {}
                Err(rejection) => {
                    intake.entrance().ingress.metrics().rejected.inc();
                    bulk.reject(|| rejection.to_string());
                }
            }
            bulk.pass(breaks);
        }
    }
}

/// When something is received, by the clock of this machine: the time of lines that bring none.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
