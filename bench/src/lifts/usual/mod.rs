//! (c) The design everybody writes: a post is published to two queues and answered when both are
//! confirmed; consumers of each queue bring the six views up to date, a Redis command for each update, and
//! acknowledge each message. It is meant to be a good one of its kind: channels are pooled, both
//! publishes are under way at once, and many consumers work at once with messages at hand.

mod consumers;
mod publishers;
mod updates;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use tokio::net::TcpListener;

use super::ride::{Accepted, Body, Place, ROUTE, Ride};
use publishers::Publishers;

/// The counters of its `/metrics`.
pub(super) const ACCEPTED: &str = "usual_accepted_total";
pub(super) const APPLIED: &str = "usual_applied_total";
const QUEUE_LENGTH: &str = "usual_queue_length";

/// Which of the views a queue feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// Days, vertical and lifts of each skier.
    Skiers,
    /// Skiers of each resort, rides of each lift, rides of each hour.
    Resorts,
}

const QUEUES: [Queue; 2] = [Queue::Skiers, Queue::Resorts];

impl Queue {
    fn name(self) -> &'static str {
        match self {
            Queue::Skiers => "skiers",
            Queue::Resorts => "resorts",
        }
    }
}

/// What was counted since the start, for each queue in the order of [`QUEUES`].
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    published: [AtomicU64; 2],
    applied: [AtomicU64; 2],
}

#[derive(Debug, Clone)]
struct Front {
    publishers: Arc<Publishers>,
    counts: Arc<Counts>,
}

/// Serves until the process ends, or a consumer fails.
pub(crate) async fn serve(listen: SocketAddr, redis: &str, amqp: &str) -> Result<()> {
    declare(amqp).await?;
    let counts = Arc::new(Counts::default());
    let publishers = Arc::new(Publishers::open(amqp).await?);
    let mut consumers = consumers::start(redis, amqp, &counts).await?;
    let router = Router::new()
        .route(ROUTE, post(accept))
        .route("/metrics", get(metrics))
        .with_state(Front { publishers, counts });
    let listener = TcpListener::bind(listen).await?;
    tokio::select! {
        served = async { axum::serve(listener, router).await } => Ok(served?),
        Some(ended) = consumers.join_next() => ended?,
    }
}

async fn declare(amqp: &str) -> Result<()> {
    let connection = Connection::connect(amqp, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    for queue in QUEUES {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.name().into(), options, FieldTable::default()).await?;
    }
    connection.close(200, "queues are declared".into()).await?;
    Ok(())
}

async fn accept(
    State(front): State<Front>,
    Path(place): Path<Place>,
    Json(body): Json<Body>,
) -> Result<(StatusCode, Json<Accepted>), (StatusCode, String)> {
    let refused = |error: anyhow::Error| (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}"));
    let message =
        serde_json::to_vec(&Ride { place, body }).map_err(|error| refused(error.into()))?;
    let publish = async |queue: Queue| {
        front.publishers.publish(queue, &message).await?;
        front.counts.published[queue as usize].fetch_add(1, Ordering::Relaxed);
        anyhow::Ok(())
    };
    tokio::try_join!(publish(Queue::Skiers), publish(Queue::Resorts)).map_err(refused)?;
    front.counts.accepted.fetch_add(1, Ordering::Relaxed);
    Ok((StatusCode::CREATED, Json(Accepted { accepted: 1 })))
}

async fn metrics(State(front): State<Front>) -> String {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counts = &front.counts;
    // A post is in all views once both of its messages are; they are applied in much the same order.
    let applied = counts.applied.iter().map(count).min().unwrap_or(0);
    let accepted = count(&counts.accepted);
    let mut text = format!("{ACCEPTED} {accepted}\n{APPLIED} {applied}\n");
    for queue in QUEUES {
        let (published, applied) = (&counts.published, &counts.applied);
        let length =
            count(&published[queue as usize]).saturating_sub(count(&applied[queue as usize]));
        let _ = writeln!(text, "{QUEUE_LENGTH}{{queue=\"{}\"}} {length}", queue.name());
    }
    text + "# EOF\n"
}
