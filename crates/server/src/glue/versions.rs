//! `GET /glue/{collection}/{id}/versions`: what changed a document, newest first.

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use consort_glue::check_document_id;
use consort_glue::stored::row::moment_of;
use consort_glue::stored::{Existence, RingContent, RingVersion};
use serde_json::{Value, json};

use super::Glue;
use super::documents::{absent, no_history};
use super::faults::{bad_name, unread};
use super::outcome_answers::body;
use super::parameters::Parameters;
use super::pieces::{DocumentPath, named};
use super::rejects::shown_piece;
use crate::problem::Problem;
use crate::problems;
use crate::tenants::Caller;

/// `GET /glue/{collection}/{id}/versions`
pub(super) async fn list(
    State(glue): State<Glue>,
    path: DocumentPath,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let (name, id) = named(path)?;
    let collection = glue.collection(&name)?;
    check_document_id(&id).map_err(|error| bad_name(problems::INVALID_ID, &error))?;
    let headers = request.headers();
    let tenant = Caller::from_extensions(request.extensions()).tenant(headers)?;
    let parameters = Parameters::read(query.as_deref(), &["limit", "after"])?;
    let (limit, after) = (parameters.limit()?, parameters.number("after")?);
    if collection.definition.history == 0 {
        return Err(no_history());
    }
    collection.wait_for(headers).await?;
    let (reader, tenant) = (&collection.reader, tenant.as_str());
    let head = reader.head(tenant, &id).await.map_err(|error| unread(&error))?;
    if head.existence == Existence::Never {
        return Err(absent(&head, &id));
    }
    let page = reader.versions(tenant, &id, &head, after, limit).await;
    let page = page.map_err(|error| unread(&error))?;
    let format = collection.definition.format;
    let versions: Vec<Value> = page.versions.iter().map(|version| shown(format, version)).collect();
    Ok(body(StatusCode::OK, &json!({ "versions": versions, "next": page.next })))
}

fn shown(format: consort_glue::DocumentFormat, version: &RingVersion) -> Value {
    let mut shown = json!({
        "version": version.tag.version,
        "was": version.tag.version - 1,
        "life": version.tag.life,
        "form": version.form.as_str(),
        "time": moment_of(version.time).to_string(),
        "place": version.place,
    });
    if let Some((source, seq)) = &version.source {
        shown["source"] = source.as_str().into();
        shown["seq"] = (*seq).into();
    }
    if let RingContent::Piece(piece) = &version.content {
        shown["piece"] = shown_piece(format, piece);
    }
    shown
}
