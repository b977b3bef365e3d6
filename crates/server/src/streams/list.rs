//! `GET /streams` and `GET /streams/{stream}`: what the events of a stream are, and how they come in.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use consort_views::{Stream, Unknown};
use serde_json::{Value, json};

use super::{PATH, Streams, WRITE_V1, WRITE_V2, no_such_stream, path_of};
use crate::problem::Problem;

/// The ways into a stream besides HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherWays {
    /// Where it takes datagrams.
    pub udp: Option<SocketAddr>,
    /// The RabbitMQ queue that it is filled from. Its broker is not named: addresses of brokers carry
    /// passwords.
    pub amqp_queue: Option<String>,
}

/// All streams, as they are shown.
struct Listing {
    streams: Streams,
    others: BTreeMap<String, OtherWays>,
}

/// `GET /streams` and what is below it; `others` by the names of the streams.
pub fn list_routes(streams: &Streams, others: BTreeMap<String, OtherWays>) -> Router {
    let listing = Arc::new(Listing { streams: streams.clone(), others });
    let mut routes = Router::new().route("/streams", get(all)).route(PATH, get(by_name));
    // The path of a stream of lines is one of its own, and would hide the common one.
    for (name, entrance) in streams.entrances() {
        if entrance.stream.schema.form().is_line() {
            let shown = |State((listing, name)): State<(Arc<Listing>, String)>| async move {
                one(&listing, &name)
            };
            let state = (Arc::clone(&listing), name.clone());
            routes = routes.route(&path_of(name), get(shown).with_state(state));
        }
    }
    routes.with_state(listing)
}

async fn all(State(listing): State<Arc<Listing>>) -> Json<Value> {
    let streams = listing.streams.entrances().values();
    let shown = streams.map(|entrance| listing.shown(&entrance.stream));
    Json(json!({ "streams": shown.collect::<Vec<_>>() }))
}

async fn by_name(
    State(listing): State<Arc<Listing>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    one(&listing, &name)
}

fn one(listing: &Listing, name: &str) -> Result<Json<Value>, Problem> {
    let entrances = listing.streams.entrances();
    match entrances.get(name) {
        Some(entrance) => Ok(Json(listing.shown(&entrance.stream))),
        None => Err(no_such_stream(entrances.keys().map(String::as_str), name)),
    }
}

impl Listing {
    fn shown(&self, stream: &Stream) -> Value {
        let schema = &stream.schema;
        let fields = schema.fields();
        let named = |at: usize| fields[at].name.as_str();
        let types =
            fields.iter().map(|field| json!({"name": field.name, "type": field.ty.written()}));
        let others = self.others.get(stream.name.as_str()).cloned().unwrap_or_default();
        json!({
            "stream": stream.name.as_str(),
            "form": schema.form().to_string(),
            "fields": types.collect::<Vec<_>>(),
            "other_fields": match schema.unknown() {
                Unknown::Reject => "rejected",
                Unknown::Ignore => "ignored",
            },
            "key": stream.key.iter().map(|&at| named(at)).collect::<Vec<_>>(),
            "id": stream.id.map(named),
            "ids_for": stream.ids_for.as_secs_f64(),
            "time": stream.time.map(named),
            "partitions": stream.partitions,
            "retain": stream.retain.as_secs_f64(),
            "routes": routes_of(stream),
            "udp": others.udp.map(|address| address.to_string()),
            "amqp_queue": others.amqp_queue,
        })
    }
}

/// The requests that bring events.
fn routes_of(stream: &Stream) -> Vec<String> {
    let name = &stream.name;
    let mut routes = vec![format!("POST {}", path_of(name.as_str()))];
    routes.extend(stream.route.as_ref().map(ToString::to_string));
    if stream.schema.form().is_line() {
        routes.push(format!("POST {WRITE_V1}?db={name}"));
        routes.push(format!("POST {WRITE_V2}?bucket={name}"));
    }
    routes
}
