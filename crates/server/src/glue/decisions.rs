//! `POST /glue/{collection}/{id}/retry` and `…/discard`: what becomes of the piece that halted a document.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::Bytes;
use consort_cluster::SubmitError;
use consort_cluster::worker::Control;
use consort_glue::stored::word::{MAX_REPLACEMENT, PART, Replacement};
use consort_glue::stored::{GlueWord, WordAction};
use consort_glue::{DocumentFormat, PieceForm, PiecePlace, check_document_id};
use consort_kernel::{Partition, RecordsMut};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Glue;
use super::faults::{bad_name, not_stored, refused};
use super::parameters::{self, Parameters};
use super::pieces::{DocumentPath, check, named};
use crate::ingress::POST_WITHIN;
use crate::problem::Problem;
use crate::problems;
use crate::streams::{apart, unreadable};
use crate::tenants::Caller;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision<'a> {
    place: PiecePlace,
    form: Option<String>,
    #[serde(borrow)]
    piece: Option<&'a RawValue>,
}

/// `POST /glue/{collection}/{id}/retry`
pub(super) async fn retry(
    State(glue): State<Glue>,
    path: DocumentPath,
    request: Request,
) -> Result<Response, Problem> {
    decide(glue, path, request, true).await
}

/// `POST /glue/{collection}/{id}/discard`
pub(super) async fn discard(
    State(glue): State<Glue>,
    path: DocumentPath,
    request: Request,
) -> Result<Response, Problem> {
    decide(glue, path, request, false).await
}

async fn decide(
    glue: Glue,
    path: DocumentPath,
    request: Request,
    is_retry: bool,
) -> Result<Response, Problem> {
    let deadline = Instant::now() + POST_WITHIN;
    let (name, id) = named(path)?;
    let collection = glue.collection(&name)?;
    check_document_id(&id).map_err(|error| bad_name(problems::INVALID_ID, &error))?;
    let (head, body) = request.into_parts();
    let tenant = Caller::from_extensions(&head.extensions).tenant(&head.headers)?;
    let wait = match Parameters::read(head.uri.query(), &["wait"])?.text("wait") {
        None => false,
        Some("applied") => true,
        Some(other) => return Err(parameters::refused("wait", "must be 'applied'", other)),
    };
    needs_json(&head.headers)?;
    let body = body.collect().await.map_err(|_| unreadable())?.to_bytes();
    let format = collection.definition.format;
    let reading = async move { action(format, &body, is_retry) };
    let action = apart::run(&collection.intake, reading).await?;
    let mut word = GlueWord::new(tenant.as_str(), &*id, action);
    word.wanted = wait;
    let index = collection.reader.partition(tenant.as_str(), &id);
    let control = Control::Word { part: PART.to_owned(), text: word.encode() };
    let mut records = RecordsMut::default();
    records.push(&control.encode());
    let waiting = wait.then(|| {
        let shard = collection.reader.shard_of_partition(index);
        collection.outcomes.register(shard)
    });
    let partition = Partition::new(collection.ingress.stream().clone(), index);
    let appended = collection.appender.control(&partition, records.freeze()).await;
    let place = appended.map_err(|error| not_stored(&SubmitError::from(error)))?;
    Ok(collection.answer(&id, waiting, &place, deadline).await)
}

/// No form on a web page can send JSON.
fn needs_json(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match given.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Problem::new(
            problems::CONTENT_TYPE,
            "a decision is application/json: {\"place\": \"PARTITION-ERA-OFFSET-RECORD\"}",
        )),
    }
}

fn action(format: DocumentFormat, body: &[u8], is_retry: bool) -> Result<WordAction, Problem> {
    let bad = |detail: String| Problem::new(problems::MALFORMED, detail);
    let decision: Decision<'_> = serde_json::from_slice(body).map_err(|error| {
        bad(format!(
            "a decision is {{\"place\": …}}, and for a retry perhaps form and piece: {error}"
        ))
    })?;
    let Decision { place, form, piece } = decision;
    let replacement = match (form, piece) {
        (None, None) => None,
        (Some(form), piece) if is_retry => Some(replacement(format, &form, piece)?),
        (None, Some(_)) if is_retry => {
            return Err(bad("a replacement has a 'form' as well".into()));
        }
        _ => return Err(bad("a discard has the place alone".into())),
    };
    Ok(match is_retry {
        true => WordAction::Retry { place, replacement },
        false => WordAction::Discard { place },
    })
}

fn replacement(
    format: DocumentFormat,
    form: &str,
    piece: Option<&RawValue>,
) -> Result<Replacement, Problem> {
    let bad = |detail: String| Problem::new(problems::MALFORMED, detail);
    let known = PieceForm::parse(form);
    let form = known.ok_or_else(|| bad(format!("there is no form '{form:.50}' of pieces")))?;
    let content = super::bulk_line::content(format, form, piece).map_err(bad)?;
    if content.len() > MAX_REPLACEMENT {
        let detail = format!("a replacement has at most {MAX_REPLACEMENT} bytes");
        return Err(Problem::new(problems::PIECE_TOO_LARGE, detail));
    }
    check(format, form, &content).map_err(|rejection| refused(&rejection))?;
    Ok(Replacement { form, content: Bytes::from(content.into_owned()) })
}
