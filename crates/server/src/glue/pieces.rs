//! `PUT`, `PATCH` and `DELETE /glue/{collection}/{id}`: one piece.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use consort_cluster::{Place, SubmitError};
use consort_glue::bounds::MAX_PIECE;
use consort_glue::outcomes::OutcomeWait;
use consort_glue::stored::record::Condition;
use consort_glue::stored::{OutcomeEntry, OutcomeKey};
use consort_glue::{DocumentFormat, PieceForm, Rejection, check_piece, json};
use consort_kernel::{Budget, Records};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::open::OpenCollection;
use super::piece_request::{PieceRequest, accept_patch};
use super::{Glue, dry_run, faults, outcome_answers};
use crate::ingress::{IngressError, POST_WITHIN};
use crate::problem::Problem;
use crate::problems;
use crate::streams::{apart, unreadable};
use crate::tenants::Caller;

const ACCEPT_PATCH: &str = "accept-patch";

/// The path of a document.
pub(super) type DocumentPath = Result<Path<(String, String)>, PathRejection>;

/// `PUT /glue/{collection}/{id}`
pub(super) async fn put(
    State(glue): State<Glue>,
    path: DocumentPath,
    request: Request,
) -> Result<Response, Problem> {
    change(glue, path, request).await
}

/// `PATCH /glue/{collection}/{id}`
pub(super) async fn patch(
    State(glue): State<Glue>,
    path: DocumentPath,
    request: Request,
) -> Result<Response, Problem> {
    change(glue, path, request).await
}

/// `DELETE /glue/{collection}/{id}`
pub(super) async fn delete(
    State(glue): State<Glue>,
    path: DocumentPath,
    request: Request,
) -> Result<Response, Problem> {
    change(glue, path, request).await
}

/// Collection and id of a path.
pub(super) fn named(path: DocumentPath) -> Result<(String, String), Problem> {
    path.map(|Path(named)| named).map_err(|_| {
        let detail = "the id is UTF-8 in percent code, as one segment of the path";
        Problem::new(problems::INVALID_ID, detail)
    })
}

async fn change(glue: Glue, path: DocumentPath, request: Request) -> Result<Response, Problem> {
    let deadline = Instant::now() + POST_WITHIN;
    let (name, id) = named(path)?;
    let collection = Arc::clone(glue.collection(&name)?);
    let (head, body) = request.into_parts();
    let caller = Caller::from_extensions(&head.extensions);
    let format = collection.definition.format;
    let (uri, headers) = (&head.uri, &head.headers);
    let read = PieceRequest::read(format, id, &head.method, uri.query(), headers, &caller);
    let piece = match read {
        Ok(piece) => piece,
        Err(problem) if problem.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            return Ok(not_taken(problem, format));
        }
        Err(problem) => return Err(problem),
    };
    let content = whole(body).await?;
    let piece = Arc::new(piece);
    let checked = check_apart(&collection, Arc::clone(&piece), content.clone()).await;
    checked.map_err(|rejection| faults::refused(&rejection))?;
    if piece.dry_run {
        return dry_run::answer(&collection, &piece, &content).await;
    }
    collection.refuse_early(&piece).await?;
    collection.append(&piece, content, deadline).await
}

fn not_taken(problem: Problem, format: DocumentFormat) -> Response {
    let mut response = problem.into_response();
    let value = HeaderValue::from_static(accept_patch(format));
    response.headers_mut().insert(ACCEPT_PATCH, value);
    response
}

/// All of a piece. One that is too large is refused where it grows beyond the bound.
async fn whole(body: Body) -> Result<Bytes, Problem> {
    let mut pieces = body.into_data_stream();
    let (mut all, mut budget) = (BytesMut::new(), Budget::default());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| unreadable())?;
        if all.len() + piece.len() > MAX_PIECE {
            return Err(too_large());
        }
        all.extend_from_slice(&piece);
        budget.spend(piece.len()).await;
    }
    Ok(all.freeze())
}

fn too_large() -> Problem {
    let detail = format!("a piece has at most {MAX_PIECE} bytes; send it as several smaller ones");
    Problem::new(problems::PIECE_TOO_LARGE, detail)
}

/// Checks a piece by itself: a small one here, any other on threads that no other requests share.
async fn check_apart(
    collection: &OpenCollection,
    piece: Arc<PieceRequest>,
    content: Bytes,
) -> Result<(), Rejection> {
    let (format, form) = (collection.definition.format, piece.form);
    match content.len() as u64 <= apart::SMALL {
        true => check(format, form, &content),
        false => apart::run(&collection.intake, async move { check(format, form, &content) }).await,
    }
}

/// Checks a piece as far as the piece alone decides.
pub(super) fn check(
    format: DocumentFormat,
    form: PieceForm,
    content: &[u8],
) -> Result<(), Rejection> {
    match form {
        // In both formats a delete has no content.
        PieceForm::Delete => json::check(form, content),
        _ => check_piece(format, form, content),
    }
}

impl OpenCollection {
    /// Refuses a piece whose condition can never hold any more. One with a key or a number may repeat a piece that
    /// succeeded, so the log judges it.
    async fn refuse_early(&self, piece: &PieceRequest) -> Result<(), Problem> {
        let Some(Condition::Is(tag)) = piece.condition else { return Ok(()) };
        if piece.key.is_some() || piece.source.is_some() {
            return Ok(());
        }
        // Where the head cannot be read, the log judges as well.
        let Ok(head) = self.reader.head(piece.tenant.as_str(), &piece.id).await else {
            return Ok(());
        };
        match head.tag() {
            Some(now) if now.life == tag.life && now.version > tag.version => {
                Err(outcome_answers::outdated(&head, tag))
            }
            _ => Ok(()),
        }
    }

    /// Appends a piece, through quota, gate and queue, and answers.
    async fn append(
        &self,
        piece: &PieceRequest,
        content: Bytes,
        deadline: Instant,
    ) -> Result<Response, Problem> {
        let partition = self.reader.partition(piece.tenant.as_str(), &piece.id);
        let record = piece.record(&content).encode();
        let bytes = record.len() as u64;
        let counted = self.quotas.admit(partition, &piece.tenant, 1, bytes);
        let counted = counted.map_err(|full| {
            self.ingress.metrics().rejected.inc();
            if full.is_overload() {
                self.ingress.demand().note_refused(1);
            }
            full.problem()
        })?;
        // Before the append: the outcome may be written before the log's answer is here.
        let shard = self.reader.shard_of_partition(partition);
        let waiting = piece.wait.then(|| self.outcomes.register(shard));
        let records = Records::one(|buffer| buffer.extend_from_slice(&record));
        drop((record, content));
        let (place, stored) = match self.ingress.append(partition, records, None, deadline).await {
            Ok(place) => {
                let stored = counted.stored(&place);
                (place, stored)
            }
            Err(error) => {
                match &error {
                    IngressError::Append(error) => counted.settle(Err(error)),
                    IngressError::Overloaded(_) | IngressError::Key(_) => counted.not_sent(),
                }
                return Err(faults::not_appended(error));
            }
        };
        let Some(entry) = outcome(waiting, &place, deadline).await else {
            return Ok(outcome_answers::accepted(&place));
        };
        if let Some(stored) = stored {
            stored.settled();
        }
        Ok(outcome_answers::settled(&piece.id, &entry, Some(&place)))
    }

    /// The answer to a word that is in the log, when its outcome has come, or the time is over.
    pub(super) async fn answer(
        &self,
        id: &str,
        waiting: Option<OutcomeWait>,
        place: &Place,
        deadline: Instant,
    ) -> Response {
        match outcome(waiting, place, deadline).await {
            None => outcome_answers::accepted(place),
            Some(entry) => outcome_answers::settled(id, &entry, Some(place)),
        }
    }
}

/// What became of a record, if someone waits for it and it comes in time.
async fn outcome(
    waiting: Option<OutcomeWait>,
    place: &Place,
    deadline: Instant,
) -> Option<OutcomeEntry> {
    let within: Duration = deadline.saturating_duration_since(Instant::now());
    waiting?.outcome(outcome_key(place), within).await
}

/// What tells the outcome of the record at this place from others.
fn outcome_key(place: &Place) -> OutcomeKey {
    OutcomeKey {
        partition: place.partition.index,
        producer: place.producer.0,
        sequence: place.sequence,
        record: place.record,
    }
}

/// Whether a failed append may have stored its records.
pub(super) fn may_be_stored(error: &SubmitError) -> bool {
    matches!(error, SubmitError::Unknown(_))
}
