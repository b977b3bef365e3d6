//! `/once/{name}/{path…}`: who asks for what, and what they get.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use consort_once::{Answer, Generation, OnceKey};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::json;

use super::asked::Asked;
use super::refusals;
use super::reply::{self, reply};
use super::upstream::Question;
use super::{PREFIX, Room, Spaces, parameters, purge};
use crate::problem::Problem;
use crate::problems;

/// The path that purges, for POST.
const PURGE: &str = "purge";

/// `GET /once`
pub(super) async fn list(State(spaces): State<Spaces>) -> Json<serde_json::Value> {
    let shown = spaces.rooms().map(|room| {
        let name = room.space.name.as_str();
        json!({"name": name, "path": format!("{PREFIX}{name}/")})
    });
    Json(json!({ "once": shown.collect::<Vec<_>>() }))
}

/// `GET /once/{name}/{path…}`
pub(super) async fn get(
    State(spaces): State<Spaces>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let (room, path) = spaces.find(head.uri.path())?;
    let asked = asked(room, path, &head)?;
    answer(&spaces, room, asked, &head.headers, None).await
}

/// `POST /once/{name}/{path…}`, or a purge.
pub(super) async fn post(
    State(spaces): State<Spaces>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let (room, path) = spaces.find(head.uri.path())?;
    if path == PURGE {
        return purge::by_body(&spaces, room, read(&head.headers, body).await?).await;
    }
    let asked = asked(room, path, &head)?;
    let parameters = canonical(&read(&head.headers, body).await?)?;
    answer(&spaces, room, asked, &head.headers, Some(parameters)).await
}

/// `DELETE /once/{name}/{path…}`: the key of the GET, or with a body that of the POST.
pub(super) async fn delete(
    State(spaces): State<Spaces>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let (room, path) = spaces.find(head.uri.path())?;
    let asked = asked(room, path, &head)?;
    let body = read(&head.headers, body).await?;
    let parameters = if body.is_empty() { None } else { Some(canonical(&body)?) };
    let passed = room.passed(&head.headers);
    let key = room.key(&asked, parameters.as_deref(), &passed);
    purge::by_key(&spaces, room, &key).await
}

async fn answer(
    spaces: &Spaces,
    room: &Arc<Room>,
    asked: Asked,
    headers: &HeaderMap,
    parameters: Option<String>,
) -> Result<Response, Problem> {
    let passed = room.passed(headers);
    let key = room.key(&asked, parameters.as_deref(), &passed);
    let wanted = headers.get(reply::GENERATION).map(generation).transpose()?;
    let found = match wanted {
        Some(generation) => spaces.once().get_generation(&key, &generation).await,
        None => {
            let Asked { path, query, .. } = asked;
            let question =
                Question { path, query, headers: passed, body: parameters.map(Bytes::from) };
            compute(spaces, room, &key, question).await
        }
    };
    let found = found.map_err(|error| {
        room.counts.failed(&error);
        refusals::unanswered(&room.space, error)
    })?;
    room.counts.answered(found.source);
    reply(&found, asked.position, headers, room.vary.as_ref())
}

async fn compute(
    spaces: &Spaces,
    room: &Arc<Room>,
    key: &OnceKey,
    question: Question,
) -> Result<Answer, consort_once::OnceError> {
    let asking = Arc::clone(room);
    let ask = move || {
        // Copied when it is asked, which is seldom, and not when it is found.
        let (room, question) = (Arc::clone(&asking), question.clone());
        async move { room.upstream.ask(&room.space, &question).await }
    };
    spaces.once().get(key, &room.terms, ask).await
}

fn asked(room: &Room, path: &str, head: &Parts) -> Result<Asked, Problem> {
    let asked = Asked::of(path, head.uri.query().unwrap_or_default());
    let asked = asked.map_err(|reason| refusals::unaskable(&reason))?;
    let fits = room.space.upstream.fits(&asked);
    fits.map_err(|misfit| refusals::misfit(&room.space, misfit))?;
    Ok(asked)
}

fn generation(given: &HeaderValue) -> Result<Generation, Problem> {
    let text = String::from_utf8_lossy(given.as_bytes());
    text.parse().map_err(|error| {
        let detail = format!("'Consort-Generation' cannot be read: {error}");
        Problem::new(problems::GENERATION, detail)
    })
}

/// The body, within its bound.
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    if !is_json(headers) {
        let detail = "parameters are taken as application/json";
        return Err(Problem::new(problems::CONTENT_TYPE, detail));
    }
    let collected = Limited::new(body, parameters::LARGEST).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|error| match error.is::<LengthLimitError>() {
        true => {
            let most = parameters::LARGEST;
            let detail = format!("the parameters have more than {most} bytes; send fewer");
            Problem::new(problems::PARAMETERS_TOO_LARGE, detail).closing()
        }
        false => Problem::new(problems::BODY, "the request body ended before its end").closing(),
    })
}

/// What curl and simple scripts say of any body is taken for JSON as well.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return true };
    let given = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    ["application/json", "text/json", "application/x-www-form-urlencoded", "text/plain"]
        .iter()
        .any(|name| given.eq_ignore_ascii_case(name))
}

fn canonical(body: &[u8]) -> Result<String, Problem> {
    parameters::canonical(body).map_err(|reason| {
        let detail = format!("the body must be a JSON object of parameters: {reason}");
        Problem::new(problems::PARAMETERS, detail)
    })
}

/// How many values were purged.
pub(super) fn purged(number: u64) -> Response {
    Json(json!({ "purged": number })).into_response()
}
