//! `GET /glue/{collection}/{id}`: a document, as it is now or at a version.

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use consort_glue::reading::{CurrentDocument, DocumentText, VersionAnswer};
use consort_glue::stored::{DocumentHead, Existence};
use consort_glue::{DocumentFormat, check_document_id};

use super::conditions::{has_already, quoted};
use super::faults::{bad_name, unread};
use super::open::OpenCollection;
use super::parameters::Parameters;
use super::pieces::{DocumentPath, named};
use super::{Glue, STATE};
use crate::problem::Problem;
use crate::problems;
use crate::streams::apart;
use crate::tenants::Caller;

/// `GET` and `HEAD /glue/{collection}/{id}`
pub(super) async fn read(
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
    let parameters = Parameters::read(query.as_deref(), &["version"])?;
    let version = parameters.number("version")?;
    collection.wait_for(headers).await?;
    let current = collection.reader.document(tenant.as_str(), &id).await;
    let current = current.map_err(|error| unread(&error))?;
    match version {
        None => Ok(now(collection, &id, &current, headers)),
        Some(version) => at(collection, (tenant.as_str(), &id), current, version).await,
    }
}

fn now(
    collection: &OpenCollection,
    id: &str,
    current: &CurrentDocument,
    headers: &HeaderMap,
) -> Response {
    let CurrentDocument { head, body } = current;
    let mut response = match body {
        None => absent(head, id).into_response(),
        Some(text) if has_already(headers, text.tag) => {
            let mut response = StatusCode::NOT_MODIFIED.into_response();
            insert(response.headers_mut(), header::ETAG, &quoted(text.tag));
            response
        }
        Some(text) => document(collection.definition.format, text),
    };
    response.headers_mut().insert(STATE, HeaderValue::from_static(head.flow.as_str()));
    response
}

async fn at(
    collection: &OpenCollection,
    (tenant, id): (&str, &str),
    current: CurrentDocument,
    version: u64,
) -> Result<Response, Problem> {
    match collection.at_version(tenant, id, current, version).await? {
        Ok(text) => Ok(document(collection.definition.format, &text)),
        Err(problem) => Err(problem),
    }
}

impl OpenCollection {
    /// A document at a version, or why there is none. Pieces are applied on threads that no other requests share.
    pub(super) async fn at_version(
        &self,
        tenant: &str,
        id: &str,
        current: CurrentDocument,
        version: u64,
    ) -> Result<Result<DocumentText, Problem>, Problem> {
        if current.head.existence == Existence::Never {
            return Ok(Err(absent(&current.head, id)));
        }
        let (reader, history) = (self.reader.clone(), self.definition.history);
        let (tenant, owned) = (tenant.to_owned(), id.to_owned());
        let is_current = version == current.head.version;
        let reading = async move { reader.version(&tenant, &owned, &current, version).await };
        let answer = match is_current {
            true => reading.await,
            false => apart::run(&self.intake, reading).await,
        };
        Ok(match answer.map_err(|error| unread(&error))? {
            VersionAnswer::Document(text) => Ok(text),
            VersionAnswer::Deleted => Err(deleted(id, version)),
            VersionAnswer::Absent { .. } if history == 0 => Err(no_history()),
            VersionAnswer::Absent { first, last } => {
                let detail = format!(
                    "the document '{id}' has no version {version} that is kept; there are {first} to {last}"
                );
                Err(Problem::new(problems::NO_VERSION, detail))
            }
        })
    }
}

fn document(format: DocumentFormat, text: &DocumentText) -> Response {
    let mut response = Response::new(Body::from(text.text.clone()));
    let headers = response.headers_mut();
    let media_type = match format {
        DocumentFormat::Json => "application/json",
        DocumentFormat::Xml => "application/xml",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    insert(headers, header::ETAG, &quoted(text.tag));
    response
}

/// There is no document of this id, or it is deleted.
pub(super) fn absent(head: &DocumentHead, id: &str) -> Problem {
    match head.existence {
        Existence::Deleted => deleted(id, head.version),
        Existence::Never | Existence::Live => {
            let detail = format!("there is no document '{id}' in this collection");
            Problem::new(problems::NO_DOCUMENT, detail)
        }
    }
}

fn deleted(id: &str, version: u64) -> Problem {
    let detail = format!("the document '{id}' was deleted by version {version}");
    Problem::new(problems::DELETED, detail).with("version", version)
}

/// The collection keeps no old versions.
pub(super) fn no_history() -> Problem {
    let detail = "this collection keeps no old versions: set 'history' in its table of the config";
    Problem::new(problems::NO_HISTORY, detail)
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}
