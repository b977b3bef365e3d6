//! The nodes that serve a database, asked in turn over kept connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use tokio::time::{Instant, timeout};

use super::error::DbClientError;
use crate::client::Client;
use crate::connection::{Connection, Reply};
use crate::error::{AddressError, ClientError, late};

/// How many connections to a node are kept while no request needs them.
const IDLE_MOST: usize = 64;

/// How long a connection is kept without a request. Nodes close theirs after 75 s; a request that is sent at that
/// moment would be lost.
const IDLE_WITHIN: Duration = Duration::from_secs(30);

/// The largest answer that is read: `max_answer` is usually some megabytes, and JSON may escape each byte.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// One request, which may be sent to several nodes.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
    /// Whether it changes something, so that a lost answer leaves an unknown outcome.
    pub(super) changes_state: bool,
    /// Whether it may be sent again although it may have been carried out.
    pub(super) repeatable: bool,
}

/// The nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    /// The node that is asked first: the one that answered last.
    first: AtomicUsize,
    within: Duration,
}

#[derive(Debug)]
struct Node {
    client: Client,
    /// How long an answer may take at most.
    within: Duration,
    idle: Mutex<Vec<IdleConnection>>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Connection,
    since: Instant,
}

impl Call {
    /// A request that changes nothing.
    pub(super) fn get(path: String) -> Call {
        let (method, headers, body) = (Method::GET, Vec::new(), Bytes::new());
        Call { method, path, headers, body, changes_state: false, repeatable: true }
    }
}

impl Nodes {
    pub(super) fn new(
        urls: &[String],
        token: Option<&str>,
        within: Duration,
    ) -> Result<Nodes, AddressError> {
        if urls.is_empty() {
            let reason = "no address was given".to_owned();
            return Err(AddressError { address: String::new(), reason });
        }
        let node = |url: &String| {
            Ok(Node { client: Client::new(url, token)?, within, idle: Mutex::default() })
        };
        let nodes = urls.iter().map(node).collect::<Result<_, _>>()?;
        Ok(Nodes { nodes, first: AtomicUsize::new(0), within })
    }

    /// Sends the request to one node after another, until one carries it out or refuses it for good. Gives the node's
    /// address and its answer.
    ///
    /// A node that is silent costs half of the time that is left, so the others are asked in time.
    pub(super) async fn send(&self, call: &Call) -> Result<(String, Reply), DbClientError> {
        let deadline = Instant::now() + self.within;
        let count = self.nodes.len();
        let first = self.first.load(Ordering::Relaxed);
        let mut failure: Option<DbClientError> = None;
        for turn in 0..count {
            let at = (first + turn) % count;
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = if turn + 1 == count { left } else { left / 2 };
            let error = match self.nodes[at].send(call, limit).await {
                Ok(reply) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok((self.nodes[at].client.url().to_owned(), reply));
                }
                Err(error) => error,
            };
            let next_may_help = match &error {
                DbClientError::Unavailable(_) => true,
                DbClientError::Unknown(_) | DbClientError::Stored(_) => call.repeatable,
                _ => false,
            };
            if !next_may_help {
                return Err(error);
            }
            // One node's "not stored" does not settle what another node did.
            failure = failure.filter(|known| !matches!(known, DbClientError::Unavailable(_)));
            failure = failure.or(Some(error));
        }
        Err(failure.unwrap_or_else(|| DbClientError::unavailable("no node was asked")))
    }
}

impl Node {
    async fn send(&self, call: &Call, within: Duration) -> Result<Reply, DbClientError> {
        let mut connection = self.take();
        let headers: Vec<_> =
            call.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let sending = connection.send(call.method.clone(), &call.path, &headers, call.body.clone());
        let url = self.client.url();
        let reply = match timeout(within, sending).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(ClientError::Unreachable { url, reason })) => {
                let detail = format!("cannot reach {url}: {reason}");
                return Err(DbClientError::unavailable(detail));
            }
            Ok(Err(error)) => return Err(lost(call, error.to_string())),
            Err(_) => return Err(lost(call, format!("{url} did not answer: {}", late(within)))),
        };
        self.keep(connection);
        if reply.status.is_success() {
            return Ok(reply);
        }
        Err(DbClientError::from_reply(url, &reply, call.changes_state))
    }

    /// A connection that is open, or a new one.
    fn take(&self) -> Connection {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one was used last: if it is too old, all are.
        match idle.pop() {
            Some(last) if last.since.elapsed() < IDLE_WITHIN => last.connection,
            _ => {
                idle.clear();
                Connection::new(self.client.clone(), self.within).with_max_answer(MAX_ANSWER)
            }
        }
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MOST {
            idle.push(IdleConnection { connection, since: Instant::now() });
        }
    }
}

/// The request was sent, and no answer came.
fn lost(call: &Call, detail: String) -> DbClientError {
    match call.changes_state {
        true => DbClientError::unknown(detail),
        false => DbClientError::unavailable(detail),
    }
}
