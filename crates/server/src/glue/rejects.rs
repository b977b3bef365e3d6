//! `GET /glue/{collection}/rejects`: pieces that were rejected, and messages of queues that are no pieces.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use consort_glue::reading::{ListedReject, RejectCursor, RejectPage, RejectRequest};
use consort_glue::stored::RejectedContent;
use consort_glue::stored::row::moment_of;
use consort_glue::{DocumentFormat, check_document_id};
use consort_kernel::Budget;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Glue;
use super::faults::{bad_name, feed_unread, unread};
use super::listing::selection;
use super::parameters::{Parameters, refused};
use super::queue::newest_refused;
use crate::problem::Problem;
use crate::problems;
use crate::tenants::{Caller, TenantScope};

/// How many refused messages of queues are shown.
const REFUSED_SHOWN: usize = 100;

/// `GET /glue/{collection}/rejects`
pub(super) async fn list(
    State(glue): State<Glue>,
    name: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    let collection = glue.collection(&name)?;
    let headers = request.headers();
    let scope = Caller::from_extensions(request.extensions()).scope(headers)?;
    let parameters = Parameters::read(query.as_deref(), &["limit", "after", "id"])?;
    let id = parameters.text("id").map(str::to_owned);
    if let Some(id) = &id {
        check_document_id(id).map_err(|error| bad_name(problems::INVALID_ID, &error))?;
    }
    let after = match parameters.text("after") {
        None => RejectCursor::default(),
        Some(text) => RejectCursor::decode(text, collection.store.shards())
            .map_err(|_| refused("after", "must be the 'next' of the page before", text))?,
    };
    let is_first = after == RejectCursor::default();
    let request =
        RejectRequest { tenants: selection(&scope), id, after, limit: parameters.limit()? };
    collection.wait_for(headers).await?;
    let page = collection.reader.rejects(&request).await.map_err(|error| unread(&error))?;
    let refused = match is_first && request.id.is_none() && !collection.queues.is_empty() {
        true => newest_refused(collection, |tenant| scope.contains(tenant), REFUSED_SHOWN).await,
        false => Ok(Vec::new()),
    };
    let refused = refused.map_err(|error| feed_unread(&error))?;
    let text = written(&page, collection.definition.format, &scope, &refused).await;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

async fn written(
    page: &RejectPage,
    format: DocumentFormat,
    scope: &TenantScope,
    refused: &[Value],
) -> String {
    let (mut text, mut budget) = (String::from("{\"rejects\":["), Budget::default());
    let mut is_first = true;
    // The list of one document is of one tenant: entries of others were left out where they were read.
    for reject in page.rejects.iter().filter(|reject| scope.contains(&reject.entry.tenant)) {
        let before = text.len();
        if !std::mem::take(&mut is_first) {
            text.push(',');
        }
        text.push_str(&shown(format, reject).to_string());
        budget.spend(text.len() - before).await;
    }
    let next = page.next.as_ref().map(RejectCursor::encode);
    text.push_str(&format!("],\"next\":{}", json!(next)));
    if !refused.is_empty() {
        text.push_str(&format!(",\"refused\":{}", json!(refused)));
    }
    text.push('}');
    text
}

fn shown(format: DocumentFormat, reject: &ListedReject) -> Value {
    let ListedReject { entry, piece } = reject;
    let mut shown = json!({
        "place": entry.place,
        "id": entry.id,
        "tenant": entry.tenant,
        "version": entry.version,
        "reason": entry.reason.as_str(),
        "detail": entry.detail,
        "time": moment_of(entry.time).to_string(),
    });
    if let Some(form) = entry.form {
        shown["form"] = form.as_str().into();
    }
    if let Some((source, seq)) = &entry.source {
        shown["source"] = source.as_str().into();
        shown["seq"] = (*seq).into();
    }
    if let Some(last) = entry.missing_to {
        shown["missing_to"] = last.into();
    }
    match (piece, &entry.content) {
        (Some(piece), _) => shown["piece"] = shown_piece(format, piece),
        (None, RejectedContent::InLog(bytes)) => shown["piece_bytes"] = (*bytes).into(),
        (None, _) => {}
    }
    shown
}

/// A piece as rows show it: JSON, or XML as a text. Bytes that are no JSON, which no good piece has, are a text as well.
pub(super) fn shown_piece(format: DocumentFormat, piece: &[u8]) -> Value {
    let text = String::from_utf8_lossy(piece);
    match format {
        DocumentFormat::Xml => text.into(),
        DocumentFormat::Json => {
            let parsed = serde_json::from_slice::<&RawValue>(piece);
            let value = parsed.and_then(|raw| serde_json::from_str(raw.get()));
            value.unwrap_or_else(|_| text.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use consort_glue::Reason;
    use consort_glue::stored::RejectEntry;
    use consort_kernel::Timestamp;

    use super::*;
    use crate::yields::counting_yields;

    #[tokio::test]
    async fn a_page_of_large_rejects_is_written_in_steps() {
        let entry = RejectEntry {
            place: "0-0-1-0".parse().unwrap(),
            tenant: "default".to_owned(),
            id: "a".to_owned(),
            version: 1,
            reason: Reason::MALFORMED,
            detail: "x".repeat(64 << 10),
            form: None,
            content: RejectedContent::None,
            source: None,
            missing_to: None,
            time: Timestamp(0),
        };
        let page =
            RejectPage { rejects: vec![ListedReject { entry, piece: None }; 20], next: None };
        let writing = written(&page, DocumentFormat::Json, &TenantScope::All, &[]);
        let (text, yields) = counting_yields(writing).await;
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((shown["rejects"].as_array().map(Vec::len), yields), (Some(20), 20));
    }
}
