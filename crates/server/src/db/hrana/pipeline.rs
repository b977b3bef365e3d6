//! Pipelines: requests of one stream in one HTTP request. They run where the leader is if one of them may write, else
//! on a node with a worker.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use consort_db::db::{Database, LeaderPlace};
use consort_db::write::control::{changes_schema, may_write};
use consort_db::write::queue::WriteFailure;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::answer::{AnswerWriter, StreamAnswer, StreamResult};
use super::batch::BatchShape;
use super::errors;
use super::executor::{Executor, RunFailure};
use super::relay::Relay;
use super::request::{PipelineBody, STEPS_MOST, StoredTexts, StreamRequest};
use super::stream::{Baton, HranaStream};
use crate::db::failures::{moved, no_worker, refused, unknown, write_failed};
use crate::db::hop::{HopOutcome, HopRequest};
use crate::db::incoming::{DatabasePath, Incoming};
use crate::db::{DbHttp, attempts};
use crate::peers::{FORWARDED, RoleOwner};
use crate::problem::Problem;

/// `POST /db/{name}/v2/pipeline`, `/v3/pipeline`
pub(super) async fn pipeline(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Response {
    let is_forwarded = request.headers().contains_key(FORWARDED);
    let served = async {
        let (incoming, body) = arrive::<PipelineBody>(&http, path, request).await?;
        if body.requests.len() > STEPS_MOST {
            return Err(refused(format!("a pipeline has at most {STEPS_MOST} requests")));
        }
        let call = StreamCall::new(&http, incoming, body.requests, CallForm::Pipeline);
        call.serve(body.baton.as_deref()).await
    };
    answered(served.await, is_forwarded)
}

/// The node that forwarded a request reads problems; clients read errors of their own form.
pub(super) fn answered(served: Result<Response, Problem>, is_forwarded: bool) -> Response {
    match served {
        Ok(response) => response,
        Err(problem) if is_forwarded => problem.into_response(),
        Err(problem) => errors::answer(&problem),
    }
}

/// Takes a request whole and reads its body.
pub(super) async fn arrive<T: DeserializeOwned + Send + 'static>(
    http: &DbHttp,
    path: DatabasePath,
    request: Request,
) -> Result<(Incoming, T), Problem> {
    let incoming = http.incoming(path, request).await?;
    let body = incoming.hop.body.clone();
    let parse = async move { serde_json::from_slice::<T>(&body) };
    let parsed = http.parse(incoming.hop.body.len(), parse).await;
    let parsed =
        parsed.map_err(|error| refused(format!("the body is no request of Hrana: {error}")));
    Ok((incoming, parsed?))
}

/// Whether an answer is that of a pipeline or of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    Pipeline,
    Cursor,
}

/// A pipeline on its way to the worker that runs it.
pub(super) struct StreamCall<'a> {
    http: &'a DbHttp,
    database: Database,
    hop: HopRequest,
    requests: Vec<StreamRequest>,
    form: CallForm,
    /// When a worker must have taken it.
    take_by: Instant,
}

/// The result of one attempt.
enum Attempt {
    Answered(Response),
    Failed(RunFailure),
}

impl<'a> StreamCall<'a> {
    pub(super) fn new(
        http: &'a DbHttp,
        incoming: Incoming,
        requests: Vec<StreamRequest>,
        form: CallForm,
    ) -> Self {
        let Incoming { database, hop } = incoming;
        let take_by = Instant::now() + hop.wait(database.settings().wait);
        StreamCall { http, database, hop, requests, form, take_by }
    }

    /// Serves the request, with the stream of its baton or a new one.
    pub(super) async fn serve(&self, baton: Option<&str>) -> Result<Response, Problem> {
        let mut stream = match baton {
            None => self.new_stream()?,
            Some(text) => {
                let invalid = || refused("the baton is not one of this server");
                let baton = Baton::parse(text).ok_or_else(invalid)?;
                if Some(&baton.node) != self.http.own_node().as_ref() {
                    return self.serve_at_holder(&baton).await;
                }
                let held = self.http.streams().take(self.database.name(), &baton);
                held.ok_or_else(|| refused("the stream has expired, or its baton was used before"))?
            }
        };
        let response = match stream.has_transaction() {
            true => {
                let attempt = self.run_here(&mut stream, self.take_by).await;
                attempt.map_err(RunFailure::problem)?
            }
            false => self.serve_anywhere(&mut stream).await?,
        };
        self.count(&response, stream.stored());
        Ok(response)
    }

    fn new_stream(&self) -> Result<HranaStream, Problem> {
        let stays_open = !matches!(self.requests.last(), Some(StreamRequest::Close));
        let stream = HranaStream::new(self.http.streams(), stays_open);
        stream.ok_or_else(|| {
            no_worker("this node holds as many open streams as it may: close streams after use")
        })
    }

    /// The stream is on another node.
    async fn serve_at_holder(&self, baton: &Baton) -> Result<Response, Problem> {
        let lost = || refused("the node that held this stream is not there any more");
        if self.hop.is_forwarded() {
            return Err(lost());
        }
        let view = self.database.view().now();
        let node = view.nodes.get(&baton.node).ok_or_else(lost)?;
        let to =
            RoleOwner { node: baton.node.clone(), address: node.address.clone(), is_here: false };
        match self.relay(self.take_by).send(&to).await {
            HopOutcome::Answered(response) => Ok(response),
            HopOutcome::NotTaken(detail) => Err(no_worker(detail)),
            HopOutcome::Unknown(detail) => Err(unknown(detail)),
        }
    }

    /// Tries nodes until one has run the pipeline, or the time is over.
    async fn serve_anywhere(&self, stream: &mut HranaStream) -> Result<Response, Problem> {
        let mut needs_leader = self.needs_leader(stream.stored());
        loop {
            let attempt = match needs_leader {
                true => self.attempt_at_leader(stream).await,
                false => self.attempt_at_reader(stream).await,
            };
            let failure = match attempt {
                Attempt::Answered(response) => return Ok(response),
                Attempt::Failed(failure) => failure,
            };
            match failure {
                RunFailure::NeedsLeader if !needs_leader => {
                    needs_leader = true;
                    continue;
                }
                RunFailure::NeedsLeader | RunFailure::NotTaken(_) => {}
                RunFailure::Refused(_) | RunFailure::Unknown(_) => return Err(failure.problem()),
            }
            // A node that got the request by a hop has no second one: the first node tries again.
            if self.hop.is_forwarded() {
                return Err(moved(failure.problem().detail()));
            }
            if !attempts::wait_for_change(&self.database, self.take_by).await {
                return Err(failure.problem());
            }
        }
    }

    async fn attempt_at_leader(&self, stream: &mut HranaStream) -> Attempt {
        let failed = |problem: Problem| Attempt::Failed(RunFailure::NotTaken(problem));
        match self.database.leader() {
            LeaderPlace::Here(_) => self.attempt_here(stream, self.take_by).await,
            LeaderPlace::Node { .. } if self.hop.is_forwarded() => {
                failed(no_worker("the leader of the database is on another node now"))
            }
            LeaderPlace::Node { node, address } => {
                let to = RoleOwner { node, address, is_here: false };
                let stored = stream.stored().clone();
                self.attempt_at(&to, &stored, self.take_by).await
            }
            LeaderPlace::Nowhere => match self.database.view().now().stopped() {
                Some(reason) => {
                    let problem = write_failed(&WriteFailure::Stopped(reason.to_owned()));
                    Attempt::Failed(RunFailure::Refused(problem))
                }
                None => failed(no_worker(
                    "the database has no leader at the moment; nothing was stored",
                )),
            },
        }
    }

    async fn attempt_at_reader(&self, stream: &mut HranaStream) -> Attempt {
        let others = self.others();
        let share = |left: usize| {
            let now = Instant::now();
            let time = self.take_by.saturating_duration_since(now);
            now + if left == 0 { time } else { time / 2 }
        };
        let mut last = match self.attempt_here(stream, share(others.len())).await {
            Attempt::Failed(failure @ RunFailure::NotTaken(_)) => failure,
            attempt => return attempt,
        };
        let stored = stream.stored().clone();
        for (n, other) in others.iter().enumerate() {
            let _under_way = self.http.loads().begin(&other.node);
            match self.attempt_at(other, &stored, share(others.len() - n - 1)).await {
                // It only reads, so another node may run it as well.
                Attempt::Failed(RunFailure::Unknown(detail)) => {
                    last = RunFailure::NotTaken(no_worker(detail));
                }
                Attempt::Failed(failure @ RunFailure::NotTaken(_)) => last = failure,
                attempt => return attempt,
            }
        }
        Attempt::Failed(last)
    }

    /// The other nodes that may serve reads; none if the request has made its hop.
    fn others(&self) -> Vec<RoleOwner> {
        if self.hop.is_forwarded() {
            return Vec::new();
        }
        let own = self.http.own_node();
        let view = self.database.view().now();
        self.http.loads().candidates(&view, own.as_deref(), self.http.draw())
    }

    async fn attempt_here(&self, stream: &mut HranaStream, take_by: Instant) -> Attempt {
        let stored = stream.stored().clone();
        match self.run_here(stream, take_by).await {
            Ok(response) => Attempt::Answered(response),
            Err(failure) => {
                // The next attempt begins as this one did.
                stream.set_stored(stored);
                Attempt::Failed(failure)
            }
        }
    }

    async fn attempt_at(&self, to: &RoleOwner, stored: &StoredTexts, take_by: Instant) -> Attempt {
        match self.relay(take_by).send_moved(to, stored).await {
            HopOutcome::Answered(response) => Attempt::Answered(response),
            HopOutcome::NotTaken(detail) => {
                Attempt::Failed(RunFailure::NotTaken(no_worker(detail)))
            }
            HopOutcome::Unknown(detail) => Attempt::Failed(RunFailure::Unknown(detail)),
        }
    }

    /// Runs all requests on this node. The stream is held afterwards, unless it is closed.
    async fn run_here(
        &self,
        stream: &mut HranaStream,
        take_by: Instant,
    ) -> Result<Response, RunFailure> {
        let node = self.http.own_node();
        let node = node.ok_or_else(|| {
            RunFailure::NotTaken(no_worker("this node has not joined its cluster yet"))
        })?;
        let mut executor = Executor::new(self.http, &self.database, stream, take_by);
        let mut results = Vec::with_capacity(self.requests.len());
        for request in &self.requests {
            results.push(executor.run(request).await?);
        }
        let is_closed = executor.is_closed();
        let baton = (!is_closed).then(|| {
            let stream = std::mem::take(stream);
            let draw = || self.http.draw();
            self.http.streams().hold(self.database.name(), stream, &node, draw).to_string()
        });
        Ok(self.write_answer(baton.as_deref(), &results).await)
    }

    async fn write_answer(&self, baton: Option<&str>, results: &[StreamResult]) -> Response {
        match (self.form, results) {
            (CallForm::Cursor, [only]) => AnswerWriter::default().cursor(baton, only).await,
            (CallForm::Cursor, _) => {
                AnswerWriter::default().cursor(baton, &Ok(StreamAnswer::Sequence)).await
            }
            (CallForm::Pipeline, results) => AnswerWriter::default().pipeline(baton, results).await,
        }
    }

    /// Whether the leader must run it, as far as the texts tell.
    fn needs_leader(&self, stored: &StoredTexts) -> bool {
        let needs = |request: &StreamRequest| match request {
            StreamRequest::Batch { batch } => {
                batch.job(stored).is_ok_and(|job| BatchShape::new(&job).needs_leader())
            }
            StreamRequest::Execute { stmt } => {
                stmt.batch(stored).is_ok_and(|job| BatchShape::new(&job).needs_leader())
            }
            request => request.texts(stored).into_iter().any(may_write),
        };
        self.requests.iter().any(needs)
    }

    fn relay(&self, take_by: Instant) -> Relay<'_> {
        let stored = StoredTexts::new();
        let texts = self.requests.iter().flat_map(|request| request.texts(&stored));
        Relay {
            peers: self.http.peers(),
            database: &self.database,
            hop: &self.hop,
            take_by,
            requests: self.requests.len(),
            is_schema_change: texts.into_iter().any(changes_schema),
        }
    }

    fn count(&self, response: &Response, stored: &StoredTexts) {
        let (counts, name) = (self.http.counts(), self.database.name());
        match self.needs_leader(stored) {
            true => counts.wrote(name, response.status()),
            false => counts.read(name, response.status()),
        }
    }
}
