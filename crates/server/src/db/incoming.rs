//! What all requests for a database share: its name in the path, and a body that is read whole.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use bytes::{Bytes, BytesMut};
use consort_db::db::Database;
use consort_kernel::Budget;
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use super::DbHttp;
use super::failures::{not_stored, refused};
use super::hop::HopRequest;
use crate::cluster::needs_json;
use crate::problem::Problem;
use crate::problems;
use crate::streams::{apart, unreadable};

/// How much of an unknown name an answer repeats.
const NAME_SHOWN: usize = 64;

/// The longest body of an operator's order. Most have some dozens of bytes.
const ORDER_MOST: usize = 1024;

/// The path of a database.
pub(super) type DatabasePath = Result<Path<String>, PathRejection>;

/// A request for a database that has arrived.
pub(super) struct Incoming {
    pub(super) database: Database,
    pub(super) hop: HopRequest,
}

impl DbHttp {
    /// The database that a path names.
    pub(super) fn database(&self, path: DatabasePath) -> Result<Database, Problem> {
        let name = path.map_or_else(|_| String::new(), |Path(name)| name);
        self.named(&name)
    }

    /// The database of this name.
    pub(super) fn named(&self, name: &str) -> Result<Database, Problem> {
        let databases = self.databases();
        if let Some(database) = databases.get(name) {
            return Ok(database.clone());
        }
        let known: Vec<String> =
            databases.iter().map(|database| format!("'{}'", database.name())).collect();
        let known = match known.is_empty() {
            true => "this node's config declares none".to_owned(),
            false => format!("there are {}", known.join(", ")),
        };
        let shown: String = name.chars().take(NAME_SHOWN).collect();
        let detail = format!("there is no database '{shown}'; {known}");
        Err(not_stored(Problem::new(problems::DB_NOT_FOUND, detail)))
    }

    /// Takes a request whole, body included. It takes no parameters: one that was meant would be missed in silence.
    pub(super) async fn incoming(
        &self,
        path: DatabasePath,
        request: Request,
    ) -> Result<Incoming, Problem> {
        let database = self.database(path)?;
        let (head, body) = request.into_parts();
        if head.uri.query().is_some_and(|query| !query.is_empty()) {
            return Err(refused("this request takes no parameters; its body says everything"));
        }
        let body = whole(body).await?;
        let hop = HopRequest { method: head.method, uri: head.uri, headers: head.headers, body };
        Ok(Incoming { database, hop })
    }

    /// Takes an operator's order: a small JSON body that says it is JSON.
    pub(super) async fn order<T: DeserializeOwned>(
        &self,
        path: DatabasePath,
        request: Request,
        form: &str,
    ) -> Result<(Incoming, T), Problem> {
        let incoming = self.incoming(path, request).await?;
        let order = incoming.hop.order(ORDER_MOST, form)?;
        Ok((incoming, order))
    }

    /// Reads a body: a small one here, any other on threads that no other requests share.
    pub(super) async fn parse<T: Send + 'static>(
        &self,
        length: usize,
        parsing: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match length as u64 <= apart::SMALL {
            true => parsing.await,
            false => apart::run(self.intake(), parsing).await,
        }
    }
}

impl HopRequest {
    /// The body of an order, which no form of a web page can send.
    pub(super) fn order<T: DeserializeOwned>(&self, most: usize, form: &str) -> Result<T, Problem> {
        needs_json(&self.headers).map_err(not_stored)?;
        if self.body.len() > most {
            return Err(refused(format!("the body has at most {most} bytes")));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| refused(format!("the body must be {form}: {error}")))
    }
}

/// All of a body. The door bounds it.
async fn whole(body: Body) -> Result<Bytes, Problem> {
    let mut pieces = body.into_data_stream();
    let (mut first, mut all, mut budget) = (Bytes::new(), BytesMut::new(), Budget::default());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| not_stored(unreadable()))?;
        budget.spend(piece.len()).await;
        // Most bodies come in one piece, which is not copied.
        match (first.is_empty(), all.is_empty()) {
            (true, true) => first = piece,
            (false, true) => {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&piece);
            }
            _ => all.extend_from_slice(&piece),
        }
    }
    Ok(if first.is_empty() { all.freeze() } else { first })
}
