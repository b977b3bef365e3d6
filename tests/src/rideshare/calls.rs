//! Calls of RideShare, and what is expected of their answers.

use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Barrier;

/// How long a call may take. It bounds a hang, and measures nothing.
const CALL_WITHIN: Duration = Duration::from_secs(60);

/// A process of RideShare, as its clients see it.
#[derive(Clone, Debug)]
pub struct Caller {
    url: String,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body; null if it is empty.
    pub body: Value,
    reply: Reply,
}

/// What is expected of an answer.
#[derive(Clone, Debug)]
pub enum Expected {
    /// This body.
    Body(Value),
    /// No body at all.
    Empty,
    /// A problem.
    Problem,
    /// A problem that names these methods.
    Allow(&'static str),
}

impl Caller {
    /// Calls the process at this address.
    pub fn new(url: String) -> Caller {
        Caller { url }
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes one call.
    ///
    /// # Panics
    ///
    /// If there is no answer.
    pub async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        let answer = self.try_call(method, path, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {}{path}: {error}", self.url))
    }

    /// Makes one call, which may remain without an answer.
    pub async fn try_call(&self, method: &str, path: &str, body: &str) -> Result<Answer, String> {
        let client = Client::new(&self.url, None).map_err(|error| error.to_string())?;
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        let mut connection = Connection::new(client, CALL_WITHIN);
        let reply = connection.send(method, path, &[], body.to_owned()).await;
        let reply = reply.map_err(|error| error.to_string())?;
        let body = match reply.body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?,
        };
        Ok(Answer { status: reply.status.as_u16(), body, reply })
    }

    /// Reads a path that answers 200, and gives its body.
    ///
    /// # Panics
    ///
    /// If it answers something else.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, "").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// Makes one call, and checks its answer.
    ///
    /// # Panics
    ///
    /// If the answer is not the expected one.
    pub async fn check(
        &self,
        (method, path, body): (&str, &str, &str),
        status: u16,
        expected: &Expected,
    ) {
        let answer = self.call(method, path, body).await;
        let call = format!("{method} {path} {body}");
        let call: String = call.chars().take(300).collect();
        assert_eq!(answer.status, status, "{call}: {}", answer.body);
        answer.is(expected, &call);
    }

    /// Makes the same call from so many clients at the same moment, and gives the statuses in order.
    pub async fn race(&self, clients: usize, (method, path, body): (&str, &str, &str)) -> Vec<u16> {
        let starting = Barrier::new(clients);
        let call = async || {
            starting.wait().await;
            self.call(method, path, body).await.status
        };
        let mut statuses = join_all((0..clients).map(|_| call())).await;
        statuses.sort_unstable();
        statuses
    }
}

impl Answer {
    /// A header; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.reply.header(name).unwrap_or_default()
    }

    fn is(&self, expected: &Expected, call: &str) {
        match expected {
            Expected::Body(body) => assert_eq!(&self.body, body, "{call}"),
            Expected::Empty => assert!(self.reply.body.is_empty(), "{call}: {}", self.body),
            Expected::Problem => self.is_problem(call),
            // An answer to HEAD has no body.
            Expected::Allow(methods) => assert_eq!(self.header("allow"), *methods, "{call}"),
        }
    }

    fn is_problem(&self, call: &str) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{call}");
        assert_eq!(self.body["status"], self.status, "{call}: {}", self.body);
        let detail = self.body["detail"].as_str().unwrap_or_default();
        assert!(!detail.is_empty(), "{call}: {}", self.body);
    }
}

/// A password that is one.
pub const PASSWORD: &str = "3d725109c7e7c0bfb9d709836735b56d943d263f";

/// A time that is to come.
pub const FUTURE: &str = "01-06-2099:00-30-14";

/// The body that creates a user.
pub fn user(name: &str) -> String {
    json!({ "username": name, "password": PASSWORD }).to_string()
}

/// The body that creates a ride.
pub fn ride(creator: &str, source: u64, destination: u64) -> String {
    json!({ "created_by": creator, "timestamp": FUTURE, "source": source, "destination": destination })
        .to_string()
}

/// The body that joins a ride.
pub fn rider(name: &str) -> String {
    json!({ "username": name }).to_string()
}
