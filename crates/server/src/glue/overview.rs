//! `GET /glue`: the collections, with their counters.

use std::collections::BTreeMap;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use consort_glue::TenantCounter;
use consort_glue::reading::TenantCounts;
use serde_json::{Map, Value, json};

use super::Glue;
use super::faults::unread;
use super::open::OpenCollection;
use super::outcome_answers::body;
use super::parameters::Parameters;
use super::piece_request::accept_patch;
use crate::problem::Problem;
use crate::tenants::{Caller, TENANT, TenantScope};

/// `GET /glue`. Without `Consort-Tenant` the operator sees all tenants together.
pub(super) async fn all(State(glue): State<Glue>, request: Request) -> Result<Response, Problem> {
    Parameters::read(request.uri().query(), &[])?;
    let caller = Caller::from_extensions(request.extensions());
    let scope = match (&caller, request.headers().contains_key(TENANT)) {
        (Caller::Operator, false) => TenantScope::All,
        _ => caller.scope(request.headers())?,
    };
    let mut shown = Vec::new();
    for collection in glue.0.collections.values() {
        shown.push(one(collection, &scope).await?);
    }
    Ok(body(StatusCode::OK, &json!({ "collections": shown })))
}

async fn one(collection: &OpenCollection, scope: &TenantScope) -> Result<Value, Problem> {
    let counts = collection.reader.counts().await.map_err(|error| unread(&error))?;
    let counts: BTreeMap<String, TenantCounts> =
        counts.into_iter().filter(|(tenant, _)| scope.contains(tenant)).collect();
    let mut sum = TenantCounts::default();
    counts.values().for_each(|one| sum.add(one));
    let definition = &collection.definition;
    let mut shown = json!({
        "collection": definition.name,
        "format": definition.format.as_str(),
        "partitions": definition.partitions,
        "max_document": definition.max_document,
        "history": definition.history,
        "takes": accept_patch(definition.format),
        "feed": format!("/feeds/glue/{}", definition.name),
        "counters": counters(&sum),
    });
    if *scope == TenantScope::All {
        let tenants = counts.iter().map(|(tenant, one)| (tenant.clone(), counters(one)));
        shown["tenants"] = Value::Object(tenants.collect());
        shown["queues"] = json!(collection.queues);
    }
    Ok(shown)
}

fn counters(counts: &TenantCounts) -> Value {
    let all = TenantCounter::ALL.iter();
    let shown = all.map(|counter| (counter.as_str().to_owned(), counts.get(*counter).into()));
    Value::Object(shown.collect::<Map<_, _>>())
}
