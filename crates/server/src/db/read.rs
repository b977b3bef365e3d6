//! `POST /db/{name}/read`: queries on one snapshot.
//!
//! A worker of this node serves the read if one can. Otherwise another node gets it in one hop: a node with a reader,
//! then the leader's. A read changes nothing, so one that was not answered is sent to one more node.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use consort_db::DbPosition;
use consort_db::db::Database;
use consort_db::read::ReadFailure;
use tokio::time::Instant;

use super::failures::{moved, no_worker, read_failed, refused};
use super::hop::{HopOutcome, HopRequest};
use super::incoming::{DatabasePath, Incoming};
use super::request::ReadRequest;
use super::{DbHttp, answers, attempts, request};
use crate::peers::RoleOwner;
use crate::problem::Problem;

/// How many nodes may leave a read without an answer before its client hears of it.
const UNANSWERED_MOST: usize = 2;

/// `POST /db/{name}/read`
pub(super) async fn read(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Response, Problem> {
    let Incoming { database, hop } = http.incoming(path, request).await?;
    let after = after(&hop.headers)?;
    let body = hop.body.clone();
    let asked = http.parse(hop.body.len(), async move { request::read_read(&body).await }).await?;
    let take_by = Instant::now() + hop.wait(database.settings().wait);
    let read = DatabaseRead { http: &http, database: &database, asked, after, hop, take_by };
    let response = read.carry_out().await;
    http.counts().read(database.name(), response.status());
    Ok(response)
}

/// The position of `Consort-After`.
fn after(headers: &HeaderMap) -> Result<Option<DbPosition>, Problem> {
    let mut given = headers.get_all(answers::AFTER).iter();
    let Some(position) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(refused("'Consort-After' came twice"));
    }
    let position = position.to_str().unwrap_or_default();
    let position = position.parse::<DbPosition>();
    position.map(Some).map_err(|error| refused(format!("'Consort-After': {error}")))
}

/// Why no node served the read.
enum RoundEnd {
    /// None can at the moment.
    NotServed(Problem),
    /// Nodes that got it did not answer.
    Unanswered(Problem),
}

/// A read on its way to a worker.
struct DatabaseRead<'a> {
    http: &'a DbHttp,
    database: &'a Database,
    asked: ReadRequest,
    after: Option<DbPosition>,
    hop: HopRequest,
    /// When a worker must have taken it.
    take_by: Instant,
}

impl DatabaseRead<'_> {
    async fn carry_out(&self) -> Response {
        loop {
            let problem = match self.round().await {
                Ok(answer) => return answer,
                Err(RoundEnd::NotServed(problem)) => problem,
                // Each of them may take as long as a read may: a client should not wait for more of them.
                Err(RoundEnd::Unanswered(problem)) => return problem.into_response(),
            };
            let is_over = self.hop.is_forwarded()
                || !attempts::wait_for_change(self.database, self.take_by).await;
            if is_over {
                return problem.into_response();
            }
        }
    }

    /// Asks this node, then others.
    async fn round(&self) -> Result<Response, RoundEnd> {
        let others = self.others();
        let mut problem = match self.attempt_here(!others.is_empty()).await {
            Ok(answer) => return Ok(answer),
            Err(failure) if self.hop.is_forwarded() => moved(failure.to_string()),
            Err(failure) => read_failed(&failure),
        };
        let mut unanswered = 0;
        for (n, other) in others.iter().enumerate() {
            let left = self.take_by.saturating_duration_since(Instant::now());
            // The last one gets all that is left.
            let take_by = Instant::now() + if n + 1 == others.len() { left } else { left / 2 };
            let _under_way = self.http.loads().begin(&other.node);
            let read_time = self.database.settings().read_time;
            match self.hop.send(self.http.peers(), other, take_by, read_time).await {
                HopOutcome::Answered(answer) => match answer.status() {
                    StatusCode::SERVICE_UNAVAILABLE if n + 1 < others.len() => {}
                    _ => return Ok(answer),
                },
                HopOutcome::NotTaken(detail) => problem = no_worker(detail),
                HopOutcome::Unknown(detail) => {
                    unanswered += 1;
                    problem = no_worker(detail);
                    if unanswered == UNANSWERED_MOST {
                        return Err(RoundEnd::Unanswered(problem));
                    }
                }
            }
        }
        Err(RoundEnd::NotServed(problem))
    }

    /// The other nodes that may serve it; none if it has made its hop.
    fn others(&self) -> Vec<RoleOwner> {
        if self.hop.is_forwarded() {
            return Vec::new();
        }
        let own = self.http.own_node();
        let view = self.database.view().now();
        self.http.loads().candidates(&view, own.as_deref(), self.http.draw())
    }

    async fn attempt_here(&self, has_others: bool) -> Result<Response, ReadFailure> {
        let left = self.take_by.saturating_duration_since(Instant::now());
        // A worker here may not get as far as the position: another one needs time as well.
        let share: Duration = if has_others { left / 2 } else { left };
        let take_by = Instant::now() + share;
        let job = self.asked.job.clone();
        let read = self.database.read(job, self.asked.consistency, self.after, take_by).await;
        match read {
            Ok(answer) => Ok(answers::read(&answer, self.asked.is_single).await),
            Err(failure @ (ReadFailure::NoWorker | ReadFailure::Behind(_) | ReadFailure::Busy)) => {
                Err(failure)
            }
            Err(failure) => Ok(read_failed(&failure).into_response()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_to_read_after_comes_once_and_is_era_and_index() {
        let headers = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(answers::AFTER, value.parse().unwrap());
            }
            after(&headers).map_err(|problem| problem.detail().to_owned())
        };
        assert_eq!(headers(&[]), Ok(None));
        assert_eq!(headers(&["1-17"]), Ok(Some(DbPosition { era: 1, index: 17 })));
        assert!(headers(&["17"]).unwrap_err().contains("ERA-INDEX"));
        assert!(headers(&["1-17", "1-18"]).unwrap_err().contains("twice"));
    }
}
