//! `POST /db/{name}/write`: statements that take effect together or not at all.
//!
//! The writer is on one node. Any other node sends the request there, in one hop. An attempt that certainly stored
//! nothing is repeated until `wait` is over; one whose outcome is unknown is repeated only if the request has a key
//! (H23).

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use consort_db::db::{Database, LeaderPlace};
use consort_db::write::job::{JobKey, WriteJob};
use consort_db::write::queue::{Settled, WriteFailure};
use tokio::time::Instant;

use super::failures::{job_refused, moved, no_worker, not_stored, unknown, write_failed};
use super::hop::{HopOutcome, HopRequest};
use super::incoming::{DatabasePath, Incoming};
use super::{DbHttp, answers, attempts, request};
use crate::peers::RoleOwner;
use crate::problem::Problem;
use crate::problems;

/// `POST /db/{name}/write`
pub(super) async fn write(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Response, Problem> {
    let Incoming { database, hop } = http.incoming(path, request).await?;
    let body = hop.body.clone();
    let statements =
        http.parse(hop.body.len(), async move { request::read_write(&body).await }).await?;
    let job = request::write_job(statements, &hop.headers)?;
    let take_by = Instant::now() + hop.wait(database.settings().wait);
    let write = DatabaseWrite { http: &http, database: &database, job, hop, take_by };
    let response = write.carry_out().await;
    http.counts().wrote(database.name(), response.status());
    Ok(response)
}

/// A write on its way to the leader.
struct DatabaseWrite<'a> {
    http: &'a DbHttp,
    database: &'a Database,
    job: WriteJob,
    hop: HopRequest,
    /// When a writer must have taken it.
    take_by: Instant,
}

/// The result of one attempt.
enum Attempt {
    /// The answer for the client.
    Answered(Response),
    /// Nothing was stored, and another attempt may succeed.
    NotStored(Problem),
    /// Whether it is stored is not known.
    Unknown(String),
}

impl DatabaseWrite<'_> {
    async fn carry_out(&self) -> Response {
        if let Some(refusal) = self.refuse_suspect() {
            return refusal.into_response();
        }
        let mut open: Option<String> = None;
        loop {
            let attempt = match self.database.leader() {
                LeaderPlace::Here(worker) => self.attempt_here(worker.id()).await,
                LeaderPlace::Node { node, address } => self.attempt_at(node, address).await,
                LeaderPlace::Nowhere => self.no_leader(),
            };
            let problem = match attempt {
                Attempt::Answered(response) => return settled(response, open),
                Attempt::NotStored(problem) => problem,
                Attempt::Unknown(detail) => {
                    let problem = unknown(detail.clone());
                    if self.job.key.is_none() {
                        return problem.into_response();
                    }
                    open = Some(detail);
                    problem
                }
            };
            // A node that got the request by a hop has no second one: the first node tries again.
            if self.hop.is_forwarded()
                || !attempts::wait_for_change(self.database, self.take_by).await
            {
                return settled(problem.into_response(), open);
            }
        }
    }

    async fn attempt_here(&self, leader: u64) -> Attempt {
        let written = self.database.write(self.job.clone(), self.take_by).await;
        match &written {
            Err(WriteFailure::Panicked(_)) => {
                self.http.suspects().note_panicked(self.hash(), leader);
            }
            Err(WriteFailure::Unknown) => self.http.suspects().note_silent(self.hash(), leader),
            _ => self.absolve(),
        }
        match written {
            Ok(settled) => match settled.outcome {
                Ok(outcome) => {
                    let position = settled.position;
                    let settled = Settled { position, outcome };
                    Attempt::Answered(answers::written(settled).await)
                }
                Err(error) => Attempt::Answered(job_refused(&error).into_response()),
            },
            Err(WriteFailure::NotLeader) => self.not_here(),
            Err(WriteFailure::Unknown) => Attempt::Unknown(WriteFailure::Unknown.to_string()),
            Err(failure) => Attempt::Answered(write_failed(&failure).into_response()),
        }
    }

    async fn attempt_at(&self, node: String, address: String) -> Attempt {
        if self.hop.is_forwarded() {
            return self.not_here();
        }
        let leader = self.database.view().now().leader().map(|leader| leader.id);
        let to = RoleOwner { node, address, is_here: false };
        let run_time = self.run_time();
        match self.hop.send(self.http.peers(), &to, self.take_by, run_time).await {
            HopOutcome::Answered(response) => {
                self.absolve();
                Attempt::Answered(response)
            }
            HopOutcome::NotTaken(detail) => Attempt::NotStored(no_worker(detail)),
            HopOutcome::Unknown(detail) => {
                if let Some(leader) = leader {
                    self.http.suspects().note_silent(self.hash(), leader);
                }
                Attempt::Unknown(detail)
            }
        }
    }

    fn no_leader(&self) -> Attempt {
        let name = self.database.name();
        match self.database.view().now().stopped() {
            Some(reason) => {
                let failure = WriteFailure::Stopped(reason.to_owned());
                Attempt::Answered(write_failed(&failure).into_response())
            }
            None if self.hop.is_forwarded() => self.not_here(),
            None => Attempt::NotStored(no_worker(format!(
                "the database '{name}' has no leader at the moment; nothing was stored, send the request again"
            ))),
        }
    }

    /// This node's leader is gone. The mark tells the node that forwarded the request to look again.
    fn not_here(&self) -> Attempt {
        let name = self.database.name();
        let detail =
            format!("the leader of '{name}' is not on this node any more; nothing was stored");
        Attempt::NotStored(match self.hop.is_forwarded() {
            true => moved(detail),
            false => no_worker(detail),
        })
    }

    fn run_time(&self) -> Duration {
        let settings = self.database.settings();
        match self.job.is_schema_change() {
            true => settings.ddl_time,
            false => settings.write_time,
        }
    }

    fn hash(&self) -> [u8; 32] {
        match &self.job.key {
            Some(JobKey { hash, .. }) => *hash,
            None => request::statements_hash(&self.job.statements),
        }
    }

    fn absolve(&self) {
        let suspects = self.http.suspects();
        if !suspects.is_empty() {
            suspects.clear(&self.hash());
        }
    }

    fn refuse_suspect(&self) -> Option<Problem> {
        let suspects = self.http.suspects();
        if suspects.is_empty() {
            return None;
        }
        let view = self.database.view().now();
        let lives = |id: u64| view.workers.iter().any(|worker| worker.id == id);
        let detail = "this request was in flight when two leaders of the database ended, one after the other, so it \
                      is refused for ten minutes; the logs of the leaders' nodes have the details";
        suspects
            .is_refused(&self.hash(), lives)
            .then(|| not_stored(Problem::new(problems::DB_WRITER, detail)))
    }
}

/// The answer, if no attempt before it is open. An error after an open attempt says nothing about that attempt: it may
/// still be carried out.
fn settled(response: Response, open: Option<String>) -> Response {
    match open {
        Some(detail) if !response.status().is_success() => {
            let detail =
                format!("{detail}; repeats with the same key did not settle it: send it again");
            unknown(detail).into_response()
        }
        _ => response,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn h23_after_an_open_attempt_only_a_success_settles_a_write() {
        let open = || Some("the hop broke".to_owned());
        for (status, open, expected) in [
            (StatusCode::OK, None, StatusCode::OK),
            (StatusCode::OK, open(), StatusCode::OK),
            (StatusCode::CONFLICT, None, StatusCode::CONFLICT),
            (StatusCode::CONFLICT, open(), StatusCode::SERVICE_UNAVAILABLE),
            (StatusCode::SERVICE_UNAVAILABLE, open(), StatusCode::SERVICE_UNAVAILABLE),
        ] {
            let was_open = open.is_some();
            let answer = settled(status.into_response(), open);
            assert_eq!(answer.status(), expected, "{status}, open: {was_open}");
        }
    }
}
