//! `POST /streams/{stream}` and the streams' own routes: one event, a list of events, or lines of them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::{PathRejection, RawPathParamsRejection};
use axum::extract::{Path, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use consort_cluster::Place;
use consort_kernel::{Budget, Digest, Records};
use consort_views::{Event, Rejection, Stream, Value};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::json_list::list;
use super::{Entrance, Streams, answers, apart, influx, reader};
use crate::express::Said;
use crate::ingress::{Keyed, POST_WITHIN};
use crate::memory::BodyShare;
use crate::problem::Problem;
use crate::problems;
use crate::views::path_fields;

/// The longest `Idempotency-Key`.
const KEY_MOST: usize = 255;

/// The values that a path gives to fields; none for the others.
pub(super) type Preset = Vec<Option<Value>>;

/// An `Idempotency-Key`, which tells one event from its repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Absent,
    Given(String),
    Malformed,
}

/// How a body holds its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON object, or a list of them.
    Json,
    /// One JSON object a line.
    Lines,
}

impl Form {
    /// By the content type; `None` for one that is not taken. Without one it is JSON.
    pub(super) fn of(said: &Said<'_>) -> Option<Form> {
        let Some(given) = said.content_type else { return Some(Form::Json) };
        let given = visible(given)?.split(';').next()?.trim();
        let is = |names: &[&str]| names.iter().any(|name| given.eq_ignore_ascii_case(name));
        if is(&["application/json", "text/json"]) {
            Some(Form::Json)
        } else if is(&["application/x-ndjson", "application/ndjson", "application/jsonl"]) {
            Some(Form::Lines)
        } else if is(&["application/x-www-form-urlencoded", "text/plain"]) {
            // What curl and simple scripts say of any body they are given.
            Some(Form::Json)
        } else {
            None
        }
    }
}

/// The text of a header, if it is of visible characters.
fn visible(value: &[u8]) -> Option<&str> {
    let is_visible = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    value.iter().all(is_visible).then(|| std::str::from_utf8(value).ok())?
}

/// `POST /streams/{stream}`
pub(super) async fn by_name(
    State(streams): State<Streams>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    let Some(entrance) = streams.entrances().get(&name) else {
        return Err(no_such_stream(streams.entrances().keys().map(String::as_str), &name));
    };
    let (head, body) = request.into_parts();
    match Form::of(&Said::by(&head.headers)) {
        Some(Form::Json) => events(entrance, head, body, entrance.stream.schema.blank()).await,
        Some(Form::Lines) => {
            Key::of(&Said::by(&head.headers)).refuse()?;
            reader::lines(entrance, body, BodyShare::from_extensions(&head.extensions)).await
        }
        None => {
            let detail = "events are taken as application/json (one, or a list) or application/x-ndjson (one a line)";
            Err(not_taken(detail))
        }
    }
}

/// `POST /streams/{stream}` for a stream of lines: whatever the content type says, the body holds lines.
pub(super) async fn to_lines(
    State(entrance): State<Arc<Entrance>>,
    request: Request,
) -> Result<Response, Problem> {
    Key::of(&Said::by(request.headers())).refuse()?;
    let precision = influx::precision(request.uri().query().unwrap_or_default());
    let precision = precision.map_err(|reason| Problem::new(problems::PRECISION, reason))?;
    let (head, body) = request.into_parts();
    let (bulk, appended) = reader::points(&entrance, &head, body, precision).await?;
    Ok(bulk.answer(appended))
}

/// A stream's own route: the path's fields join the body's.
pub(super) async fn by_route(
    State(entrance): State<Arc<Entrance>>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let path = path_fields(path)?;
    let stream = &entrance.stream;
    if Form::of(&Said::by(request.headers())) != Some(Form::Json) {
        let detail = format!(
            "events are taken here as application/json (one, or a list); those of many lines go to \
             /streams/{}",
            stream.name
        );
        return Err(not_taken(detail));
    }
    let preset = preset_by(stream, path.iter().map(|(_, text)| text)).map_err(|rejection| {
        entrance.ingress.metrics().rejected.inc();
        invalid(&rejection)
    })?;
    let (head, body) = request.into_parts();
    events(&entrance, head, body, preset).await
}

/// The values that the path gives to fields.
pub(super) fn preset_by<'a>(
    stream: &Stream,
    path: impl Iterator<Item = &'a str>,
) -> Result<Preset, Rejection> {
    let fields = stream.route.as_ref().map_or(&[][..], |route| &route.fields[..]);
    let mut preset = stream.schema.blank();
    for (field, text) in fields.iter().zip(path) {
        if let Some(at) = stream.schema.find(field) {
            preset[at] = Some(stream.schema.parse(at, text)?);
        }
    }
    Ok(preset)
}

/// One event, or a list of them.
async fn events(
    entrance: &Arc<Entrance>,
    head: Parts,
    body: Body,
    preset: Preset,
) -> Result<Response, Problem> {
    let key = Key::of(&Said::by(&head.headers));
    let share = BodyShare::from_extensions(&head.extensions);
    drop(head);
    let body = whole(body).await?;
    let outcome = match body.len() as u64 <= apart::SMALL {
        true => posted(entrance, key, body, preset, &share).await,
        false => {
            let here = Arc::clone(entrance);
            let work = async move { posted(&here, key, body, preset, &share).await };
            apart::run(&entrance.intake, work).await
        }
    };
    Ok(outcome?.into_response())
}

/// All of a body, which the guard on it bounds; its own fault is told by the door. It is put together as it comes:
/// a copy of all of it at the end would be one long step.
async fn whole(body: Body) -> Result<Bytes, Problem> {
    let mut pieces = body.into_data_stream();
    let Some(first) = pieces.next().await else { return Ok(Bytes::new()) };
    let first = first.map_err(|_| unreadable())?;
    let (mut all, mut budget) = (BytesMut::from(first), Budget::default());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| unreadable())?;
        all.extend_from_slice(&piece);
        budget.spend(piece.len()).await;
    }
    Ok(all.freeze())
}

/// What is answered to events that were posted.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// That the one event is stored, and where.
    Accepted(Place),
    Other(Response),
}

impl IntoResponse for Outcome {
    fn into_response(self) -> Response {
        match self {
            Outcome::Accepted(place) => answers::accepted(&place),
            Outcome::Other(response) => response,
        }
    }
}

/// The events in a body that has come.
pub(super) async fn posted(
    entrance: &Entrance,
    key: Key,
    body: Bytes,
    preset: Preset,
    share: &BodyShare,
) -> Result<Outcome, Problem> {
    if body.trim_ascii_start().first() == Some(&b'[') {
        key.refuse()?;
        // Apart, or every single event would take the room that a list needs.
        return Box::pin(list(entrance, &body, &preset, share)).await.map(Outcome::Other);
    }
    let key = key.given()?;
    let mut event = entrance.stream.schema.fill(&body, preset).map_err(|rejection| {
        entrance.ingress.metrics().rejected.inc();
        invalid(&rejection)
    })?;
    // The connection reads on while this waits for the log, and needs the room that the body takes.
    drop(body);
    let keyed = key.is_some();
    event.id = key.or_else(|| entrance.stream.id_in(&event));
    one(entrance, event, keyed).await
}

/// Appends one event, whose id is the request's key if it is `keyed`.
async fn one(entrance: &Entrance, event: Event, keyed: bool) -> Result<Outcome, Problem> {
    let Entrance { stream, ingress, .. } = entrance;
    let deadline = Instant::now() + POST_WITHIN;
    let records = Records::one(|bytes| event.encode_to(bytes));
    let record = records.get(0).unwrap_or_default();
    let partition = stream.partition_for(&event, record);
    let key = event.id.filter(|_| keyed);
    // The record is the event in its canonical form: whitespace, the order of fields, and the route make no
    // difference to it.
    let keyed = key.as_deref().map(|key| Keyed { key, digest: Digest::of(record) });
    let appended = ingress.append(partition, records, keyed, deadline).await;
    appended.map(Outcome::Accepted).map_err(answers::failed)
}

impl Key {
    /// The one in these headers. Nothing is kept of the headers themselves: a connection needs the room that
    /// they take.
    pub(super) fn of(said: &Said<'_>) -> Key {
        let Some(given) = said.idempotency_key else { return Key::Absent };
        match visible(given) {
            Some(key) if (1..=KEY_MOST).contains(&key.len()) => Key::Given(key.to_owned()),
            _ => Key::Malformed,
        }
    }

    fn given(self) -> Result<Option<String>, Problem> {
        match self {
            Key::Absent => Ok(None),
            Key::Given(key) => Ok(Some(key)),
            Key::Malformed => {
                let detail =
                    format!("'Idempotency-Key' must be 1 to {KEY_MOST} visible ASCII characters");
                Err(Problem::new(problems::IDEMPOTENCY_KEY, detail))
            }
        }
    }

    /// A list of events needs an id in each.
    fn refuse(self) -> Result<(), Problem> {
        if self == Key::Absent {
            return Ok(());
        }
        let detail = "'Idempotency-Key' goes with a single event; for several, name a field that holds each \
                      event's id as the stream's 'id'";
        Err(Problem::new(problems::IDEMPOTENCY_KEY, detail))
    }
}

/// There is no stream of this name, but those that are `known`.
pub(crate) fn no_such_stream<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Problem {
    let known: Vec<String> = known.map(|name| format!("'{name}'")).collect();
    let shown: String = name.chars().take(100).collect();
    let detail = match known.is_empty() {
        true => format!("there is no stream '{shown}': this node's config declares none"),
        false => format!("there is no stream '{shown}'; there are {}", known.join(", ")),
    };
    Problem::new(problems::NO_SUCH_STREAM, detail)
}

fn not_taken(detail: impl Into<String>) -> Problem {
    Problem::new(problems::CONTENT_TYPE, detail)
}

fn invalid(rejection: &Rejection) -> Problem {
    Problem::new(problems::INVALID_EVENT, rejection.to_string())
}

pub(crate) fn unreadable() -> Problem {
    Problem::new(problems::BODY, "the request body ended before its end").closing()
}
