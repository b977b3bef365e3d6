//! `GET /glue/{collection}/{id}/diff`: the difference of two versions, as a JSON Patch.

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use consort_glue::json::{JsonDocument, diff};
use consort_glue::{DocumentFormat, check_document_id};

use super::Glue;
use super::faults::{bad_name, store_failed, unread};
use super::parameters::Parameters;
use super::pieces::{DocumentPath, named};
use crate::problem::Problem;
use crate::problems;
use crate::streams::apart;
use crate::tenants::Caller;

/// `GET /glue/{collection}/{id}/diff?from=3&to=7`
pub(super) async fn between(
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
    let parameters = Parameters::read(query.as_deref(), &["from", "to"])?;
    if collection.definition.format == DocumentFormat::Xml {
        let detail = "a difference is a JSON Patch, and this collection has XML documents: read both versions";
        return Err(Problem::new(problems::NO_DIFFERENCE, detail));
    }
    let Some(from) = parameters.number("from")? else {
        let detail = "'from' is the version that the difference begins with";
        return Err(Problem::new(problems::INVALID_QUERY, detail));
    };
    let to: Option<u64> = parameters.number("to")?;
    collection.wait_for(headers).await?;
    let tenant = tenant.as_str();
    let current = collection.reader.document(tenant, &id).await.map_err(|error| unread(&error))?;
    let to = to.unwrap_or(current.head.version);
    let older = collection.at_version(tenant, &id, current.clone(), from).await??;
    let newer = collection.at_version(tenant, &id, current, to).await??;
    let work = async move { difference(&older.text, &newer.text) };
    let patch = apart::run(&collection.intake, work).await?;
    let mut response = Response::new(Body::from(patch));
    let media_type = HeaderValue::from_static("application/json-patch+json");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    Ok(response)
}

fn difference(older: &[u8], newer: &[u8]) -> Result<Vec<u8>, Problem> {
    let read = |text: &[u8]| JsonDocument::parse(text).map_err(store_failed);
    Ok(diff(&read(older)?, &read(newer)?))
}
