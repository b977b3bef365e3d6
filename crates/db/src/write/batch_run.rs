//! Batches and interactive transactions on the leader's writer: each is a group by itself, and leaves the local
//! transaction open until the store has decided.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::batch::{BatchJob, BatchOutcome, StepOutcome};
use super::group::{GroupTerms, GroupWriter, WriterError, too_large};
use super::job::{JobError, JobErrorKind};
use super::schema_job::user_version;
use super::steps::{StepState, StepsEnd};
use crate::entry::EntryPart;
use crate::head::GroupEnd;
use crate::sqlite::scan::{add_changes, content_hash};

/// How often a batch is run again without a statement that ended its transaction; then it fails as a whole (T11).
const RERUNS: usize = 3;

/// A batch that waits for the store.
#[derive(Debug)]
pub struct OpenBatch {
    /// To be told when the group is settled.
    pub outcome: BatchOutcome,
    /// The entries to append; empty if the batch changes nothing. Then the leader looks at the head before it
    /// answers (H9).
    pub entries: Vec<Bytes>,
    /// The end of the entries, for the next head.
    pub end: Option<GroupEnd>,
}

/// The end of one request of an interactive transaction.
#[derive(Debug)]
pub enum TransactionRun {
    /// The transaction goes on.
    Open(Vec<StepOutcome>),
    /// It has ended, with or without changes; the store decides.
    Ended(OpenBatch),
}

impl GroupWriter {
    /// Runs a batch as a group by itself and leaves its transaction open. A transaction that the batch leaves open
    /// is taken back.
    pub fn run_batch(
        &mut self,
        batch: &BatchJob,
        terms: &GroupTerms,
    ) -> Result<OpenBatch, WriterError> {
        self.roll_back()?;
        let is_migration = batch.is_schema_change();
        let mut culprits = BTreeMap::new();
        loop {
            let ran = match is_migration {
                true => self.try_migration(batch, terms),
                false => self.try_batch(batch, terms, &culprits),
            };
            match ran {
                Ok(open) => return Ok(open),
                Err(StepsEnd::Culprit(step, error)) => {
                    self.roll_back_batch(is_migration)?;
                    if is_migration || culprits.len() >= RERUNS {
                        return Ok(unchanged(Err(error.at(step))));
                    }
                    culprits.insert(step, error);
                }
                Err(StepsEnd::Whole(error)) => {
                    self.roll_back_batch(is_migration)?;
                    return Ok(unchanged(Err(error)));
                }
                Err(StepsEnd::Failed(error)) => {
                    self.roll_back_batch(is_migration)?;
                    return Err(error);
                }
            }
        }
    }

    /// Begins an interactive transaction, which has the writer until it ends.
    pub fn begin_transaction(&mut self) -> Result<(), WriterError> {
        self.roll_back()?;
        self.file.begin()?;
        self.file.connection().execute_batch("BEGIN IMMEDIATE")?;
        self.file.forget_last_insert();
        match self.begin_interactive() {
            Ok(state) => {
                self.transaction = Some(state);
                Ok(())
            }
            Err(StepsEnd::Failed(error)) => Err(error),
            Err(StepsEnd::Culprit(..) | StepsEnd::Whole(_)) => Ok(()),
        }
    }

    /// Runs one request of the interactive transaction, for at most `time`.
    pub fn run_in_transaction(
        &mut self,
        batch: &BatchJob,
        terms: &GroupTerms,
        time: Duration,
    ) -> Result<TransactionRun, WriterError> {
        let Some(mut state) = self.transaction.take() else {
            let message = "the transaction has ended";
            let outcome = Err(JobError::new(JobErrorKind::Request, message));
            return Ok(TransactionRun::Ended(unchanged(outcome)));
        };
        self.runner.begin_job(time, &terms.limits);
        let ran = self.run_steps(batch, &mut state, &BTreeMap::new());
        self.runner.end_job();
        let ended = match ran {
            Ok(outcomes) if state.is_in_transaction() => {
                self.transaction = Some(state);
                return Ok(TransactionRun::Open(outcomes));
            }
            Ok(outcomes) => self.close_rows(outcomes, terms),
            Err(end) => Err(end),
        };
        match ended {
            Ok(open) => Ok(TransactionRun::Ended(open)),
            Err(StepsEnd::Culprit(step, error)) => {
                self.roll_back()?;
                Ok(TransactionRun::Ended(unchanged(Err(error.at(step)))))
            }
            Err(StepsEnd::Whole(error)) => {
                self.roll_back()?;
                Ok(TransactionRun::Ended(unchanged(Err(error))))
            }
            Err(StepsEnd::Failed(error)) => {
                self.roll_back()?;
                Err(error)
            }
        }
    }

    fn try_batch(
        &mut self,
        batch: &BatchJob,
        terms: &GroupTerms,
        culprits: &BTreeMap<usize, JobError>,
    ) -> Result<OpenBatch, StepsEnd> {
        self.file.begin().map_err(WriterError::from)?;
        self.file.connection().execute_batch("BEGIN IMMEDIATE")?;
        let mut state = StepState::of_batch(false);
        let outcomes = self.run_all(batch, &mut state, culprits, terms.limits.write_time, terms)?;
        self.close_rows(outcomes, terms)
    }

    /// One entry of ordered parts, with the foreign keys off (C7, T10).
    fn try_migration(
        &mut self,
        batch: &BatchJob,
        terms: &GroupTerms,
    ) -> Result<OpenBatch, StepsEnd> {
        self.file.end();
        // Inside a transaction the pragma would do nothing.
        self.file.connection().pragma_update(None, "foreign_keys", false)?;
        self.file.connection().execute_batch("BEGIN IMMEDIATE")?;
        let version_before = user_version(self.file.connection())?;
        let mut state = StepState::of_batch(true);
        let none = BTreeMap::new();
        let outcomes = self.run_all(batch, &mut state, &none, terms.limits.ddl_time, terms)?;
        self.take_rows(&mut state.parts)?;
        self.check_result()?;
        let mut next = self.at;
        next.content = content_hash(self.file.connection())?;
        let version = user_version(self.file.connection())?;
        let version = (version != version_before).then_some(version);
        match self.close(next, state.parts, version, true, terms)? {
            Some((entries, end)) => Ok(OpenBatch { outcome: Ok(outcomes), entries, end }),
            None => Err(StepsEnd::Whole(too_large())),
        }
    }

    fn run_all(
        &mut self,
        batch: &BatchJob,
        state: &mut StepState,
        culprits: &BTreeMap<usize, JobError>,
        time: Duration,
        terms: &GroupTerms,
    ) -> Result<Vec<StepOutcome>, StepsEnd> {
        self.file.forget_last_insert();
        self.runner.begin_job(time, &terms.limits);
        let ran = self.run_steps(batch, state, culprits);
        self.runner.end_job();
        let outcomes = ran?;
        self.end_steps(state)?;
        Ok(outcomes)
    }

    fn close_rows(
        &mut self,
        outcomes: Vec<StepOutcome>,
        terms: &GroupTerms,
    ) -> Result<OpenBatch, StepsEnd> {
        let changeset = self.recorded()?;
        let mut next = self.at;
        add_changes(&mut next.content, &changeset).map_err(WriterError::from)?;
        let parts = if changeset.is_empty() { vec![] } else { vec![EntryPart::Rows(changeset)] };
        match self.close(next, parts, None, false, terms)? {
            Some((entries, end)) => Ok(OpenBatch { outcome: Ok(outcomes), entries, end }),
            None => Err(StepsEnd::Whole(too_large())),
        }
    }

    fn roll_back_batch(&mut self, is_migration: bool) -> Result<(), WriterError> {
        self.roll_back()?;
        self.after_schema(is_migration)
    }
}

fn unchanged(outcome: BatchOutcome) -> OpenBatch {
    OpenBatch { outcome, entries: Vec::new(), end: None }
}
