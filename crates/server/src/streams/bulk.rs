//! Many events in one request: taken as they come, appended in large steps, bounded in memory.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use consort_kernel::Moment;
use consort_line::{Point, Precision};
use consort_views::{Event, Rejection};
use futures::StreamExt as _;
use tokio::time::timeout;

use super::answers::{Appended, Bulk};
use super::inflate::{Coding, Inflate};
use super::lines::{Line, Lines, Split};
use super::points::PointLines;
use super::post::unreadable;
use super::{Encoder, Entrance};
use crate::ingress::BulkSender;
use crate::problem::Problem;

/// A client that pauses has what it sent appended after this time.
const IDLE: Duration = Duration::from_millis(20);

/// Events of one request on their way into the log.
pub(super) struct Intake<'a> {
    entrance: &'a Entrance,
    encoder: Encoder,
    sender: BulkSender<'a>,
}

impl<'a> Intake<'a> {
    pub(super) fn new(entrance: &'a Entrance) -> Self {
        Intake { entrance, encoder: Encoder::default(), sender: entrance.ingress.bulk() }
    }

    /// Takes an event, or tells why no log would.
    pub(super) fn take(&mut self, event: Event, bulk: &mut Bulk) {
        match self.encoder.encode(&self.entrance.stream, event) {
            Ok((partition, record)) => self.sender.push(partition, record),
            Err(too_large) => {
                self.entrance.ingress.metrics().rejected.inc();
                bulk.reject(too_large.to_string());
            }
        }
    }

    /// Whether it is time to send.
    pub(super) fn is_full(&self) -> bool {
        self.sender.is_full()
    }

    fn has_failed(&self) -> bool {
        self.sender.has_failed()
    }

    /// Sends what was taken, and waits only while too much is on its way.
    pub(super) async fn flush(&mut self) {
        self.sender.flush().await;
    }

    /// Sends the rest and waits until all of it is answered.
    pub(super) async fn finish(self) -> Appended {
        self.sender.finish().await.into()
    }
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
    intake.entrance.ingress.metrics().rejected.inc();
    bulk.reject(reason);
    if let Line::Whole(_, breaks) = line {
        bulk.pass(breaks);
    }
}
