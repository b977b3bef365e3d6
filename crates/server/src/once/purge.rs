//! Letting go of answers before their time: by key, or by a tag that the upstream gave them.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use consort_once::{OnceError, OnceKey};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answers::purged;
use super::asked::Asked;
use super::refusals;
use super::{Room, Spaces, parameters};
use crate::problem::Problem;
use crate::problems;

const WANTED: &str = "the body must be {\"key\": \"path?query\"}, with \"body\" and \"headers\" where the answer \
                      was asked for with them, or {\"tag\": \"…\"}";

/// What to let go of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Purge<'a> {
    /// Path and query, as they are asked for.
    key: Option<String>,
    /// The parameters, if it was a POST.
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    /// Those headers that the upstream got.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    tag: Option<String>,
}

/// `POST /once/{name}/purge`
pub(super) async fn by_body(
    spaces: &Spaces,
    room: &Room,
    body: Bytes,
) -> Result<Response, Problem> {
    let purge: Purge<'_> = serde_json::from_slice(&body)
        .map_err(|error| Problem::new(problems::PURGE, format!("{WANTED}: {error}")))?;
    match purge {
        Purge { key: None, body: None, headers, tag: Some(tag) }
            if headers.is_empty() && !tag.is_empty() =>
        {
            let purging = spaces.once().purge_tag(&room.space.name, &tag).await;
            purging.map(purged).map_err(|error| unpurged(room, error))
        }
        Purge { key: Some(key), body, headers, tag: None } => {
            let key = key_of(room, &key, body, headers)?;
            by_key(spaces, room, &key).await
        }
        _ => Err(Problem::new(problems::PURGE, WANTED)),
    }
}

/// Lets go of one answer.
pub(super) async fn by_key(
    spaces: &Spaces,
    room: &Room,
    key: &OnceKey,
) -> Result<Response, Problem> {
    let purging = spaces.once().purge(key).await;
    purging.map(|there| purged(there.into())).map_err(|error| unpurged(room, error))
}

fn unpurged(room: &Room, error: OnceError) -> Problem {
    room.counts.failed(&error);
    refusals::unanswered(&room.space, error)
}

fn key_of(
    room: &Room,
    key: &str,
    body: Option<&RawValue>,
    headers: BTreeMap<String, String>,
) -> Result<OnceKey, Problem> {
    let (path, query) = key.split_once('?').unwrap_or((key, ""));
    let path = path.strip_prefix('/').unwrap_or(path);
    let asked = Asked::of(path, query).map_err(|reason| refusals::unaskable(&reason))?;
    let body = body.map(|body| parameters::canonical(body.get().as_bytes())).transpose();
    let body = body
        .map_err(|reason| Problem::new(problems::PURGE, format!("{WANTED}: the body: {reason}")))?;
    let mut given = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || {
            Problem::new(problems::PURGE, format!("{WANTED}: the header '{name}' cannot be sent"))
        };
        let value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        given.insert(HeaderName::try_from(&name).map_err(|_| wrong())?, value);
    }
    Ok(room.key(&asked, body.as_deref(), &room.passed(&given)))
}
