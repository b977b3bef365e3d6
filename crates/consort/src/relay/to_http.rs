//! A target that takes bodies of lines over HTTP, as InfluxDB does: in batches, sent again until they are taken.

use std::time::Duration;

use bytes::Bytes;
use consort_client::{Client, Connection, Method};
use rand::Rng as _;
use tokio::time::Instant;
use url::Url;

use super::Outlet;

/// What one request brings at most: InfluxDB is at its best with some thousands of lines.
const BATCH_BYTES: usize = 512 * 1024;

/// How long a batch waits for more lines, so that requests are few.
const GATHER: Duration = Duration::from_millis(50);

/// How long a request may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Waits between two tries are drawn up to a bound, which doubles from the first to the last of these.
const BACKOFF: Duration = Duration::from_millis(200);
const BACKOFF_MOST: Duration = Duration::from_secs(30);

/// How often the log may speak of a target that does not take its lines.
const SPEAK_EVERY: Duration = Duration::from_secs(30);

/// What became of a batch.
enum Outcome {
    Taken,
    /// It will never be taken as it is.
    Refused(String),
    /// It may be taken later.
    NotNow(String),
}

/// Sends what waits until the queue is closed and empty.
pub(super) async fn deliver(name: String, url: Url, token: Option<String>, outlet: Outlet) {
    let mut target = match connection(&url, token) {
        Ok(target) => target,
        Err(error) => {
            tracing::error!(target = name, error, "lines for this target are dropped");
            while let Some(lines) = outlet.queue.take(BATCH_BYTES).await {
                outlet.metrics.failed.inc_by(lines.len() as u64);
            }
            return;
        }
    };
    let (mut bound, mut spoken) = (BACKOFF, None::<Instant>);
    while outlet.queue.has_lines().await {
        tokio::time::sleep(GATHER).await;
        let Some(lines) = outlet.queue.take(BATCH_BYTES).await else { return };
        let count = lines.len() as u64;
        let told = match target.send(&lines).await {
            Outcome::Taken => {
                outlet.metrics.sent.inc_by(count);
                bound = BACKOFF;
                continue;
            }
            Outcome::Refused(reason) => {
                outlet.metrics.failed.inc_by(count);
                reason
            }
            Outcome::NotNow(reason) => {
                outlet.metrics.retries.inc();
                outlet.queue.put_back(lines);
                let pause = rand::rng().random_range(BACKOFF / 2..=bound);
                tokio::time::sleep(pause).await;
                bound = (bound * 2).min(BACKOFF_MOST);
                reason
            }
        };
        if spoken.is_none_or(|spoken| spoken.elapsed() >= SPEAK_EVERY) {
            tracing::warn!(target = name, reason = told, "a target did not take its lines");
            spoken = Some(Instant::now());
        }
    }
}

/// A connection, and where its requests go.
struct Writing {
    connection: Connection,
    path: String,
    authorization: Option<String>,
}

fn connection(url: &Url, token: Option<String>) -> Result<Writing, String> {
    let mut base = url.clone();
    base.set_path("");
    base.set_query(None);
    base.set_fragment(None);
    let client = Client::new(base.as_str(), None).map_err(|error| error.to_string())?;
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let authorization = token.map(|token| format!("Token {token}"));
    Ok(Writing { connection: Connection::new(client, ANSWER_WITHIN), path, authorization })
}

impl Writing {
    async fn send(&mut self, lines: &[Bytes]) -> Outcome {
        let mut headers = vec![("content-type", "text/plain; charset=utf-8")];
        headers.extend(self.authorization.as_deref().map(|value| ("authorization", value)));
        let sent =
            self.connection.send(Method::POST, &self.path, &headers, lines.join(&b'\n')).await;
        let reply = match sent {
            Ok(reply) => reply,
            Err(error) => return Outcome::NotNow(error.to_string()),
        };
        let status = reply.status;
        if status.is_success() {
            return Outcome::Taken;
        }
        let said = String::from_utf8_lossy(&reply.body[..reply.body.len().min(200)]);
        let reason = format!("{status}: {said}");
        // Too many, too slow, or not who may: somebody will mend that. All else is about the lines themselves.
        match status.as_u16() {
            401 | 403 | 404 | 408 | 429 => Outcome::NotNow(reason),
            400..500 => Outcome::Refused(reason),
            _ => Outcome::NotNow(reason),
        }
    }
}
