//! Runs the requests of a stream, one after the other, on the workers of this node.

use consort_db::DbPosition;
use consort_db::db::Database;
use consort_db::read::snapshot::ReadSnapshot;
use consort_db::read::{BatchReadOutcome, ReadFailure};
use consort_db::write::batch::{BatchJob, StepOutcome};
use consort_db::write::job::{JobAnswer, JobStatement, SqlValue, StatementResult, WriteJob};
use consort_db::write::queue::{Settled, WriteFailure};
use consort_db::write::transaction::{ClientTransaction, TransactionAnswer, TransactionFailure};
use tokio::time::Instant;

use super::answer::{StreamAnswer, StreamResult};
use super::batch::{BatchShape, leaves_open, with_begin, without_begin};
use super::errors::StreamError;
use super::request::{SqlForm, StatementForm, StreamRequest, sequence_job};
use super::stream::{HranaStream, StreamTransaction};
use crate::db::DbHttp;
use crate::db::failures::{no_worker, read_failed, write_failed};
use crate::db::request::statements_hash;
use crate::problem::Problem;

/// The stream that one pipeline works on.
pub(super) struct Executor<'a> {
    http: &'a DbHttp,
    database: &'a Database,
    stream: &'a mut HranaStream,
    /// When a worker must have taken the first request that needs one.
    take_by: Instant,
    /// Whether an earlier pipeline has left a transaction, which no other node has.
    is_bound: bool,
    /// Whether a request of this pipeline may have changed something.
    has_changed: bool,
    is_closed: bool,
    answered_bytes: usize,
}

/// Why a pipeline ends without results. It has changed nothing.
#[derive(Debug)]
pub(super) enum RunFailure {
    /// The leader must run it, and is not here.
    NeedsLeader,
    /// Another node may run it, or this one in a moment.
    NotTaken(Problem),
    /// It would fail again.
    Refused(Problem),
    /// Whether it has changed something is not known.
    Unknown(String),
}

type BatchResult = Result<(Vec<StepOutcome>, DbPosition), StreamError>;

impl<'a> Executor<'a> {
    pub(super) fn new(
        http: &'a DbHttp,
        database: &'a Database,
        stream: &'a mut HranaStream,
        take_by: Instant,
    ) -> Self {
        Executor {
            is_bound: stream.has_transaction(),
            http,
            database,
            stream,
            take_by,
            has_changed: false,
            is_closed: false,
            answered_bytes: 0,
        }
    }

    /// Whether the stream is closed now.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Runs one request.
    pub(super) async fn run(
        &mut self,
        request: &StreamRequest,
    ) -> Result<StreamResult, RunFailure> {
        if self.is_closed {
            return Ok(Err(StreamError::new("STREAM_CLOSED", "the stream is closed")));
        }
        Ok(match request {
            StreamRequest::Close => {
                self.is_closed = true;
                self.stream.transaction = StreamTransaction::None;
                Ok(StreamAnswer::Close)
            }
            StreamRequest::Execute { stmt } => self.execute(stmt).await?,
            StreamRequest::Batch { batch } => match batch.job(self.stream.stored()) {
                Ok(job) => self.batch_with_rows(job, &batch.wants_rows()).await?,
                Err(error) => Err(error),
            },
            StreamRequest::Sequence(text) => self.sequence(text).await?,
            StreamRequest::Describe(text) => self.describe(text).await?,
            StreamRequest::StoreSql { sql_id, sql } => {
                self.stream.store(*sql_id, sql).map(|()| StreamAnswer::StoreSql)
            }
            StreamRequest::CloseSql { sql_id } => {
                self.stream.forget(*sql_id);
                Ok(StreamAnswer::CloseSql)
            }
            StreamRequest::GetAutocommit => {
                Ok(StreamAnswer::GetAutocommit(!self.stream.has_transaction()))
            }
        })
    }

    async fn execute(&mut self, form: &StatementForm) -> Result<StreamResult, RunFailure> {
        let job = match form.batch(self.stream.stored()) {
            Ok(job) => job,
            Err(error) => return Ok(Err(error)),
        };
        Ok(self.batch(job).await?.and_then(|(mut outcomes, position)| match outcomes.pop() {
            Some(StepOutcome::Done(result)) => {
                let result = with_rows(result, form.wants_rows());
                Ok(StreamAnswer::Execute(result, position))
            }
            Some(StepOutcome::Failed(error)) => Err(StreamError::from(&error)),
            Some(StepOutcome::Skipped) | None => {
                Err(StreamError::new("DEFECT", "the statement has no outcome"))
            }
        }))
    }

    async fn batch_with_rows(
        &mut self,
        job: BatchJob,
        wants_rows: &[bool],
    ) -> Result<StreamResult, RunFailure> {
        let shown = |(outcome, wants_rows): (StepOutcome, &bool)| match outcome {
            StepOutcome::Done(result) => StepOutcome::Done(with_rows(result, *wants_rows)),
            outcome => outcome,
        };
        Ok(self.batch(job).await?.map(|(outcomes, position)| {
            let outcomes = outcomes.into_iter().zip(wants_rows).map(shown).collect();
            StreamAnswer::Batch(outcomes, position)
        }))
    }

    async fn sequence(&mut self, text: &SqlForm) -> Result<StreamResult, RunFailure> {
        let job = match text.text(self.stream.stored()).and_then(sequence_job) {
            Ok(job) => job,
            Err(error) => return Ok(Err(error)),
        };
        Ok(self.batch(job).await?.and_then(|(outcomes, _)| {
            let failed = outcomes.iter().find_map(|outcome| match outcome {
                StepOutcome::Failed(error) => Some(StreamError::from(error)),
                StepOutcome::Done(_) | StepOutcome::Skipped => None,
            });
            failed.map_or(Ok(StreamAnswer::Sequence), Err)
        }))
    }

    async fn describe(&mut self, text: &SqlForm) -> Result<StreamResult, RunFailure> {
        let sql = match text.text(self.stream.stored()) {
            Ok(sql) => sql.to_owned(),
            Err(error) => return Ok(Err(error)),
        };
        match self.database.describe(sql, self.next_take_by()).await {
            Ok(shape) => Ok(Ok(StreamAnswer::Describe(shape))),
            Err(failure) => self.read_failed(&failure).map(Err),
        }
    }

    /// Runs a batch where the stream stands.
    async fn batch(&mut self, job: BatchJob) -> Result<BatchResult, RunFailure> {
        if self.answered_bytes > self.database.settings().max_answer {
            let message =
                "the results of this pipeline are above max_answer: send fewer requests at once";
            return Ok(Err(StreamError::new("RESPONSE_TOO_LARGE", message)));
        }
        let result = match std::mem::take(&mut self.stream.transaction) {
            StreamTransaction::None => self.outside(job).await?,
            StreamTransaction::Write(transaction) => self.in_transaction(transaction, job).await?,
            StreamTransaction::Read(snapshot, until) => {
                self.in_snapshot(snapshot, until, job).await
            }
            StreamTransaction::Lost => {
                let message = "the transaction was rolled back, because its batch ended without COMMIT or ROLLBACK";
                Err(StreamError::new("TRANSACTION_CLOSED", message))
            }
        };
        if let Ok((outcomes, _)) = &result {
            self.answered_bytes += outcomes.iter().map(outcome_bytes).sum::<usize>();
        }
        Ok(result)
    }

    async fn outside(&mut self, job: BatchJob) -> Result<BatchResult, RunFailure> {
        match BatchShape::new(&job) {
            BatchShape::Read => {
                let read = self.database.read_batch(job.clone(), self.next_take_by()).await;
                match read {
                    Ok(BatchReadOutcome::Read(answer)) => {
                        Ok(Ok((answer.outcomes, answer.position)))
                    }
                    Ok(BatchReadOutcome::NotRead) => self.write(job).await,
                    Err(failure) => self.read_failed(&failure).map(Err),
                }
            }
            BatchShape::Statement | BatchShape::Whole => self.write(job).await,
            BatchShape::Interactive { is_readonly } => self.begin(job, is_readonly).await,
        }
    }

    /// Runs a batch on the writer.
    async fn write(&mut self, job: BatchJob) -> Result<BatchResult, RunFailure> {
        let Some(leader) = self.database.local_leader().map(|leader| leader.id()) else {
            return self.write_failed(&WriteFailure::NotLeader).map(Err);
        };
        if let Some(error) = self.refuse_suspect(&job) {
            return Ok(Err(error));
        }
        let take_by = self.next_take_by();
        let written = match &job.steps[..] {
            [only] if only.condition.is_none() => {
                let job = WriteJob { statements: vec![only.statement.clone()], key: None };
                let written = self.database.write(job, take_by).await;
                written.map(|settled| Settled {
                    position: settled.position,
                    outcome: settled.outcome.map(first_result).map_or_else(
                        |error| Ok(vec![StepOutcome::Failed(error)]),
                        |result| Ok(vec![StepOutcome::Done(result)]),
                    ),
                })
            }
            _ => self.database.batch(job.clone(), take_by).await,
        };
        match &written {
            Err(WriteFailure::Panicked(_)) => {
                self.http.suspects().note_panicked(hash(&job), leader);
            }
            Err(WriteFailure::Unknown) => self.http.suspects().note_silent(hash(&job), leader),
            _ => {}
        }
        match written {
            Ok(Settled { position, outcome }) => {
                self.has_changed = true;
                let outcomes = match outcome {
                    Ok(outcomes) => outcomes,
                    Err(error) => return Ok(Err(StreamError::from(&error))),
                };
                if leaves_open(&job, &outcomes) {
                    self.stream.transaction = StreamTransaction::Lost;
                }
                Ok(Ok((outcomes, position)))
            }
            Err(failure) => self.write_failed(&failure).map(Err),
        }
    }

    /// Begins a transaction that goes on over requests, and runs the rest of the batch in it.
    async fn begin(&mut self, job: BatchJob, is_readonly: bool) -> Result<BatchResult, RunFailure> {
        let time = self.database.settings().transaction_time;
        if time.is_zero() {
            let message = "interactive transactions are off for this database (transaction_time)";
            return Ok(Err(StreamError::new("TRANSACTIONS_OFF", message)));
        }
        let take_by = self.next_take_by();
        let position = match is_readonly {
            true => match self.database.open_snapshot(take_by).await {
                Ok(snapshot) => {
                    let position = snapshot.position();
                    let until = Instant::now() + time;
                    self.stream.transaction = StreamTransaction::Read(Box::new(snapshot), until);
                    position
                }
                Err(failure) => return self.read_failed(&failure).map(Err),
            },
            false => match self.database.begin_transaction(take_by).await {
                Ok(Settled { position, outcome }) => {
                    self.stream.transaction = StreamTransaction::Write(outcome);
                    position
                }
                Err(failure) => return self.write_failed(&failure).map(Err),
            },
        };
        let rest = without_begin(job);
        if rest.steps.is_empty() {
            return Ok(Ok((with_begin(Vec::new()), position)));
        }
        let ran = match std::mem::take(&mut self.stream.transaction) {
            StreamTransaction::Write(transaction) => self.in_transaction(transaction, rest).await?,
            StreamTransaction::Read(snapshot, until) => {
                self.in_snapshot(snapshot, until, rest).await
            }
            StreamTransaction::None | StreamTransaction::Lost => Ok((Vec::new(), position)),
        };
        Ok(ran.map(|(outcomes, position)| (with_begin(outcomes), position)))
    }

    async fn in_transaction(
        &mut self,
        transaction: ClientTransaction,
        job: BatchJob,
    ) -> Result<BatchResult, RunFailure> {
        match transaction.run(job).await {
            Ok(TransactionAnswer { settled, is_open }) => {
                match is_open {
                    true => self.stream.transaction = StreamTransaction::Write(transaction),
                    false => self.has_changed = true,
                }
                let position = settled.position;
                let outcomes = settled.outcome.map(|outcomes| (outcomes, position));
                Ok(outcomes.map_err(|error| StreamError::from(&error)))
            }
            Err(failure @ TransactionFailure::RolledBack) => {
                Ok(Err(StreamError::new("TRANSACTION_TIMEOUT", failure.to_string())))
            }
            Err(TransactionFailure::Failed(WriteFailure::Unknown)) => {
                Err(RunFailure::Unknown(WriteFailure::Unknown.to_string()))
            }
            Err(TransactionFailure::Failed(failure)) => Ok(Err(StreamError::from(&failure))),
        }
    }

    async fn in_snapshot(
        &mut self,
        mut snapshot: Box<ReadSnapshot>,
        until: Instant,
        job: BatchJob,
    ) -> BatchResult {
        let over = |reason: String| StreamError::new("TRANSACTION_TIMEOUT", reason);
        if Instant::now() >= until {
            return Err(over(
                "the transaction took longer than transaction_time and has ended".into(),
            ));
        }
        let limits = self.database.settings().read_limits();
        let take_by = self.next_take_by();
        match snapshot.run_batch(job, limits, take_by).await {
            Ok(answer) => {
                if answer.is_in_transaction {
                    self.stream.transaction = StreamTransaction::Read(snapshot, until);
                }
                Ok((answer.outcomes, answer.position))
            }
            Err(failure) => Err(over(format!("the transaction has ended: {failure}"))),
        }
    }

    /// Whether another node may run the whole pipeline, because nothing of it is left here.
    fn may_move(&self) -> bool {
        !self.is_bound && !self.has_changed && !self.stream.has_transaction()
    }

    fn read_failed(&self, failure: &ReadFailure) -> Result<StreamError, RunFailure> {
        let problem = read_failed(failure);
        match failure {
            ReadFailure::Job(_) => Ok(StreamError::from(failure)),
            _ if !self.may_move() => Ok(StreamError::from(failure)),
            ReadFailure::NoWorker | ReadFailure::Behind(_) | ReadFailure::Busy => {
                Err(RunFailure::NotTaken(problem))
            }
            _ => Err(RunFailure::Refused(problem)),
        }
    }

    fn write_failed(&self, failure: &WriteFailure) -> Result<StreamError, RunFailure> {
        match failure {
            WriteFailure::Unknown => Err(RunFailure::Unknown(failure.to_string())),
            _ if !self.may_move() => Ok(StreamError::from(failure)),
            WriteFailure::NotLeader => Err(RunFailure::NeedsLeader),
            failure => Err(RunFailure::Refused(write_failed(failure))),
        }
    }

    /// The wait is for each request: those before it may have run for a while.
    fn next_take_by(&mut self) -> Instant {
        let later = Instant::now() + self.database.settings().wait;
        std::mem::replace(&mut self.take_by, later)
    }

    fn refuse_suspect(&self, job: &BatchJob) -> Option<StreamError> {
        let suspects = self.http.suspects();
        if suspects.is_empty() {
            return None;
        }
        let view = self.database.view().now();
        let lives = |id: u64| view.workers.iter().any(|worker| worker.id == id);
        let message = "this request was in flight when two leaders of the database ended, so it is refused for ten minutes";
        suspects.is_refused(&hash(job), lives).then(|| StreamError::new("DB_WRITER", message))
    }
}

impl RunFailure {
    /// The answer for the client, if no other attempt follows.
    pub(super) fn problem(self) -> Problem {
        match self {
            RunFailure::NeedsLeader => {
                no_worker("the leader of the database is not on this node; nothing was stored")
            }
            RunFailure::NotTaken(problem) | RunFailure::Refused(problem) => problem,
            RunFailure::Unknown(detail) => crate::db::failures::unknown(detail),
        }
    }
}

fn hash(job: &BatchJob) -> [u8; 32] {
    let statements: Vec<JobStatement> =
        job.steps.iter().map(|step| step.statement.clone()).collect();
    statements_hash(&statements)
}

fn first_result(answer: JobAnswer) -> StatementResult {
    match answer {
        JobAnswer::New(results) | JobAnswer::Known { results: Some(results), .. } => {
            results.into_iter().next().unwrap_or_default()
        }
        JobAnswer::Known { results: None, .. } => StatementResult::default(),
    }
}

fn with_rows(result: StatementResult, wants_rows: bool) -> StatementResult {
    match wants_rows {
        true => result,
        false => StatementResult { rows: Vec::new(), ..result },
    }
}

/// The memory of the rows of a step, about.
fn outcome_bytes(outcome: &StepOutcome) -> usize {
    let value = |value: &SqlValue| match value {
        SqlValue::Text(bytes) | SqlValue::Blob(bytes) => bytes.len() + 32,
        SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) => 32,
    };
    match outcome {
        StepOutcome::Done(result) => result.rows.iter().flatten().map(value).sum(),
        StepOutcome::Failed(_) | StepOutcome::Skipped => 0,
    }
}
