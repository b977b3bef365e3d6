//! `GET /glue/{collection}`: the documents, ordered by id.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use consort_glue::DocumentFormat;
use consort_glue::reading::{DocumentPage, ListRequest, ListedDocument, TenantSelection};
use consort_glue::stored::Existence;
use consort_glue::stored::row::moment_of;
use consort_kernel::Budget;
use serde_json::{Value, json};

use super::faults::{feed_unread, unread};
use super::parameters::{Parameters, refused};
use super::{CURSOR, Glue};
use crate::problem::Problem;
use crate::tenants::{Caller, TenantScope};

/// `GET /glue/{collection}`
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
    let parameters =
        Parameters::read(query.as_deref(), &["limit", "after", "documents", "deleted"])?;
    let after = match parameters.text("after") {
        None => None,
        Some(text) => Some(place(&scope, text)?),
    };
    let list = ListRequest {
        after,
        limit: parameters.limit()?,
        deleted: parameters.flag("deleted")?,
        texts: parameters.flag("documents")?,
        tenants: selection(&scope),
    };
    collection.wait_for(headers).await?;
    // Before the scan: a change that the scan does not show has a row behind the cursor.
    let cursor = match list.after {
        Some(_) => None,
        None => Some(collection.feed.newest().await.map_err(|error| feed_unread(&error))?),
    };
    let page = collection.reader.list(&list).await.map_err(|error| unread(&error))?;
    let all = scope == TenantScope::All;
    let text = written(&page, collection.definition.format, all).await;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cursor) = cursor
        && let Ok(cursor) = HeaderValue::try_from(cursor.encode())
    {
        headers.insert(CURSOR, cursor);
    }
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}

/// The tenants of a list.
pub(super) fn selection(scope: &TenantScope) -> TenantSelection {
    match scope {
        TenantScope::All => TenantSelection::All,
        TenantScope::One(tenant) => TenantSelection::One(tenant.to_string()),
    }
}

/// A place in the list of these tenants.
fn place(scope: &TenantScope, text: &str) -> Result<(String, String), Problem> {
    let place = DocumentPage::decode_after(text);
    place.filter(|(tenant, _)| scope.contains(tenant)).ok_or_else(|| {
        refused("after", "must be the 'next' of the page before, for the same tenant", text)
    })
}

/// Writes a page, and lets others run meanwhile: documents stand in it as they are stored, and none is parsed.
async fn written(page: &DocumentPage, format: DocumentFormat, all: bool) -> String {
    let (mut text, mut budget) = (String::from("{\"documents\":["), Budget::default());
    for (at, document) in page.documents.iter().enumerate() {
        let before = text.len();
        if at > 0 {
            text.push(',');
        }
        write_one(&mut text, document, format, all);
        budget.spend(text.len() - before).await;
    }
    let next = page.next.as_ref().map(DocumentPage::encode_after);
    text.push_str(&format!("],\"next\":{}}}", json!(next)));
    text
}

fn write_one(text: &mut String, listed: &ListedDocument, format: DocumentFormat, all: bool) {
    let ListedDocument { tenant, id, head, text: document } = listed;
    let state = match head.existence {
        Existence::Deleted => "deleted",
        Existence::Live | Existence::Never => head.flow.as_str(),
    };
    let mut shown = json!({
        "id": id,
        "life": head.life,
        "version": head.version,
        "state": state,
        "time": moment_of(head.time).to_string(),
        "bytes": head.size,
    });
    if all {
        shown["tenant"] = tenant.as_str().into();
    }
    let shown = shown.to_string();
    let Some(document) = document else { return text.push_str(&shown) };
    text.push_str(&shown[..shown.len() - 1]);
    text.push_str(",\"document\":");
    let document = String::from_utf8_lossy(&document.text);
    match format {
        DocumentFormat::Json => text.push_str(&document),
        DocumentFormat::Xml => text.push_str(&Value::from(document.as_ref()).to_string()),
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use consort_glue::reading::DocumentText;
    use consort_glue::stored::DocumentHead;

    use super::*;
    use crate::yields::counting_yields;

    #[tokio::test]
    async fn a_page_of_large_documents_is_written_in_steps() {
        let text = json!("x".repeat(64 << 10)).to_string().into();
        let listed = ListedDocument {
            tenant: "default".to_owned(),
            id: "a".to_owned(),
            head: DocumentHead::default(),
            text: Some(DocumentText { tag: "0-0-1-0.1".parse().unwrap(), text }),
        };
        let page = DocumentPage { documents: vec![listed; 20], next: None };
        let (text, yields) = counting_yields(written(&page, DocumentFormat::Json, false)).await;
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((shown["documents"].as_array().map(Vec::len), yields), (Some(20), 20));
    }
}
