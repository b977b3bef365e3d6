//! Batches and interactive transactions at the leader: each is a group by itself.
//!
//! An interactive transaction has the writer for itself, so its time is bounded in all and between two requests. Every
//! answer within it rests on a look at the head that began after its statements had run, since a deposed leader would
//! answer from old data (H9).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::WorkerEnd;
use super::leading::{Lead, LeadEnd, panic_text};
use super::settling::GroupVerdict;
use crate::head::GroupEnd;
use crate::position::DbPosition;
use crate::write::batch::{BatchJob, BatchOutcome};
use crate::write::batch_run::{OpenBatch, TransactionRun};
use crate::write::group::{GroupTerms, GroupWriter, WriterError};
use crate::write::queue::{Settled, WriteFailure, WriterReply};
use crate::write::transaction::{
    TRANSACTION_IDLE, TransactionAnswer, TransactionReply, TransactionRequest, TransactionStep,
};

/// The position of a settled group or why it has none, and why the lead ends, if it does.
type SettledGroup = (Result<DbPosition, WriteFailure>, Option<LeadEnd>);

/// A leader, as a transaction uses it.
pub(super) trait TransactionLead {
    /// Its writer.
    fn writer(&mut self) -> &mut GroupWriter;

    /// The terms of a group that begins now.
    async fn terms(&self) -> Result<GroupTerms, WriteFailure>;

    /// Has the store take the group that the writer left open, and makes it final in the file. A group without
    /// entries is final once a look shows that the leader still leads.
    async fn settle(&mut self, entries: &[Bytes], end: Option<&GroupEnd>) -> SettledGroup;

    /// Looks at the head, and says where it stands if the leader still leads.
    async fn confirm(&mut self) -> SettledGroup;

    /// Resolves when the worker is to end at once.
    async fn killed(&self);

    /// Why the lead ends after this failure of the writer.
    fn writer_failed(&mut self, error: &WriterError) -> LeadEnd;
}

impl Lead<'_> {
    /// Runs a batch as a group.
    pub(super) async fn batch(
        &mut self,
        job: BatchJob,
        reply: oneshot::Sender<WriterReply<BatchOutcome>>,
    ) -> Result<(), LeadEnd> {
        let (result, end) = match TransactionLead::terms(self).await {
            Err(failure) => (Err(failure), None),
            Ok(terms) => match caught(self, |writer| writer.run_batch(&job, &terms)) {
                Err((failure, end)) => (Err(failure), Some(end)),
                Ok(open) => {
                    let OpenBatch { outcome, entries, end } = open;
                    let (position, end) = self.settle(&entries, end.as_ref()).await;
                    (position.map(|position| Settled { position, outcome }), end)
                }
            },
        };
        // A client that has gone away needs no answer.
        let _ = reply.send(result);
        end.map_or(Ok(()), Err)
    }

    /// Gives the writer to a client until its transaction ends.
    pub(super) async fn transaction(&mut self, request: TransactionRequest) -> Result<(), LeadEnd> {
        let time = self.worker.db.settings().transaction_time;
        run_transaction(self, request, time).await
    }
}

impl TransactionLead for Lead<'_> {
    fn writer(&mut self) -> &mut GroupWriter {
        &mut self.writer
    }

    async fn terms(&self) -> Result<GroupTerms, WriteFailure> {
        Lead::terms(self).await
    }

    async fn settle(&mut self, entries: &[Bytes], end: Option<&GroupEnd>) -> SettledGroup {
        self.settle_group(entries, end, &[]).await
    }

    async fn confirm(&mut self) -> SettledGroup {
        match self.confirm_lead().await {
            GroupVerdict::Stored(head) => (Ok(head.position()), None),
            GroupVerdict::NotStored => (Err(WriteFailure::StoreFault), None),
            GroupVerdict::Deposed | GroupVerdict::StoredAndDeposed | GroupVerdict::Unknown => {
                (Err(WriteFailure::NotLeader), Some(LeadEnd::Deposed))
            }
        }
    }

    async fn killed(&self) {
        self.worker.control.clone().killed().await;
    }

    fn writer_failed(&mut self, error: &WriterError) -> LeadEnd {
        Lead::writer_failed(self, error, error.to_string())
    }
}

/// Runs an interactive transaction for at most `time`. On every way out but a commit, nothing of it is left.
pub(super) async fn run_transaction(
    lead: &mut impl TransactionLead,
    request: TransactionRequest,
    time: Duration,
) -> Result<(), LeadEnd> {
    let TransactionRequest { opened, mut steps } = request;
    let ended = run_steps(lead, opened, &mut steps, Instant::now() + time).await;
    // A request that came too late has certainly not been run.
    steps.close();
    while let Ok(TransactionStep::Run(_, reply)) = steps.try_recv() {
        let _ = reply.send(Err(WriteFailure::NotTaken));
    }
    ended
}

async fn run_steps(
    lead: &mut impl TransactionLead,
    opened: oneshot::Sender<WriterReply<()>>,
    steps: &mut mpsc::Receiver<TransactionStep>,
    deadline: Instant,
) -> Result<(), LeadEnd> {
    if let Err((failure, end)) = begin(lead).await {
        let _ = opened.send(Err(failure));
        return end.map_or(Ok(()), Err);
    }
    let (position, end) = lead.confirm().await;
    let goes_on = position.is_ok();
    let is_told = opened.send(position.map(|position| Settled { position, outcome: () })).is_ok();
    if !goes_on || !is_told {
        return roll_back(lead, end);
    }
    loop {
        let step_by = deadline.min(Instant::now() + TRANSACTION_IDLE);
        let step = tokio::select! {
            biased;
            () = lead.killed() => return roll_back(lead, Some(LeadEnd::End(WorkerEnd::Killed))),
            step = timeout_at(step_by, steps.recv()) => step,
        };
        // The client has gone away, or its time is over.
        let Ok(Some(TransactionStep::Run(batch, reply))) = step else {
            return roll_back(lead, None);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let (answer, end) = run_step(lead, &batch, left).await;
        let is_open = answer.as_ref().is_ok_and(|answer| answer.is_open);
        let is_told = reply.send(answer).is_ok();
        if !is_open || !is_told || end.is_some() {
            return roll_back(lead, end);
        }
    }
}

async fn begin(lead: &mut impl TransactionLead) -> Result<(), (WriteFailure, Option<LeadEnd>)> {
    lead.terms().await.map_err(|failure| (failure, None))?;
    caught(lead, GroupWriter::begin_transaction).map_err(|(failure, end)| (failure, Some(end)))
}

async fn run_step(
    lead: &mut impl TransactionLead,
    batch: &BatchJob,
    left: Duration,
) -> (TransactionReply, Option<LeadEnd>) {
    let terms = match lead.terms().await {
        Ok(terms) => terms,
        Err(failure) => return (Err(failure), None),
    };
    let ran = caught(lead, |writer| writer.run_in_transaction(batch, &terms, left));
    let (outcome, is_open, (position, end)) = match ran {
        Err((failure, end)) => return (Err(failure), Some(end)),
        Ok(TransactionRun::Open(outcomes)) => (Ok(outcomes), true, lead.confirm().await),
        Ok(TransactionRun::Ended(OpenBatch { outcome, entries, end })) => {
            (outcome, false, lead.settle(&entries, end.as_ref()).await)
        }
    };
    let answer = |position| {
        let settled = Settled { position, outcome };
        TransactionAnswer { settled, is_open }
    };
    (position.map(answer), end)
}

/// Whatever is still open is taken back: after a commit that is nothing.
fn roll_back(lead: &mut impl TransactionLead, end: Option<LeadEnd>) -> Result<(), LeadEnd> {
    let rolled_back = lead.writer().roll_back();
    match (end, rolled_back) {
        (Some(end), _) => Err(end),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => Err(lead.writer_failed(&error)),
    }
}

/// Does something on the writer. A panic ends the lead, as a failed file does (H31).
fn caught<T>(
    lead: &mut impl TransactionLead,
    work: impl FnOnce(&mut GroupWriter) -> Result<T, WriterError>,
) -> Result<T, (WriteFailure, LeadEnd)> {
    let writer = lead.writer();
    match catch_unwind(AssertUnwindSafe(|| work(writer))) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err((WriteFailure::File(error.to_string()), lead.writer_failed(&error))),
        Err(panic) => {
            let reason = panic_text(&*panic);
            let end = LeadEnd::Yield(format!("a job made the writer panic: {reason}"));
            Err((WriteFailure::Panicked(reason), end))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use consort_kernel::Timestamp;
    use tokio::sync::watch;

    use super::*;
    use crate::write::batch::{BatchStep, StepOutcome};
    use crate::write::group::{GroupRun, OpenGroup};
    use crate::write::job::{JobArgs, JobLimits, JobStatement, SqlValue, WriteJob};

    /// A leader whose looks and commits go as a test says.
    struct ScriptedLead {
        _folder: tempfile::TempDir,
        writer: GroupWriter,
        looks: VecDeque<Result<(), WriteFailure>>,
        commits: VecDeque<Result<(), WriteFailure>>,
        killed: watch::Sender<bool>,
        seen: Vec<&'static str>,
    }

    impl TransactionLead for ScriptedLead {
        fn writer(&mut self) -> &mut GroupWriter {
            &mut self.writer
        }

        async fn terms(&self) -> Result<GroupTerms, WriteFailure> {
            Ok(terms())
        }

        async fn settle(&mut self, _: &[Bytes], end: Option<&GroupEnd>) -> SettledGroup {
            if end.is_none() {
                let (position, end) = self.confirm().await;
                self.writer.commit().unwrap();
                return (position, end);
            }
            self.seen.push("commit");
            match self.commits.pop_front().unwrap_or(Ok(())) {
                Ok(()) => {
                    self.writer.commit().unwrap();
                    (Ok(self.writer.state().position()), None)
                }
                Err(failure) => {
                    self.writer.roll_back().unwrap();
                    (Err(failure), Some(LeadEnd::Deposed))
                }
            }
        }

        async fn confirm(&mut self) -> SettledGroup {
            self.seen.push("look");
            match self.looks.pop_front().unwrap_or(Ok(())) {
                Ok(()) => (Ok(self.writer.state().position()), None),
                Err(failure) => (Err(failure), Some(LeadEnd::Deposed)),
            }
        }

        async fn killed(&self) {
            let _ = self.killed.subscribe().wait_for(|killed| *killed).await;
        }

        fn writer_failed(&mut self, error: &WriterError) -> LeadEnd {
            LeadEnd::Yield(error.to_string())
        }
    }

    fn terms() -> GroupTerms {
        GroupTerms {
            epoch: 1,
            time: Timestamp(1),
            limits: JobLimits::default(),
            group_time: Duration::MAX,
            group_bytes: u64::MAX,
        }
    }

    fn statement(sql: &str) -> JobStatement {
        JobStatement { sql: sql.into(), args: JobArgs::Positional(vec![]), changes: None }
    }

    fn lead() -> ScriptedLead {
        let folder = tempfile::tempdir().unwrap();
        let writer = GroupWriter::open(&folder.path().join("file"), 1, 1 << 30).unwrap();
        let mut lead = ScriptedLead {
            _folder: folder,
            writer,
            looks: VecDeque::new(),
            commits: VecDeque::new(),
            killed: watch::Sender::new(false),
            seen: Vec::new(),
        };
        write(&mut lead, "CREATE TABLE t (a INTEGER PRIMARY KEY)");
        lead
    }

    fn write(lead: &mut ScriptedLead, sql: &str) -> Vec<Vec<SqlValue>> {
        let job = WriteJob { statements: vec![statement(sql)], key: None };
        let Ok(GroupRun::Open(OpenGroup { mut outcomes, .. })) = lead.writer.run(&[job], &terms())
        else {
            panic!("{sql} does not run");
        };
        lead.writer.commit().unwrap();
        match outcomes.remove(0) {
            Ok(crate::write::job::JobAnswer::New(mut results)) => results.remove(0).rows,
            other => panic!("{other:?}"),
        }
    }

    fn count(lead: &mut ScriptedLead) -> i64 {
        match write(lead, "SELECT count(*) FROM t")[0][0] {
            SqlValue::Integer(count) => count,
            ref other => panic!("{other:?}"),
        }
    }

    /// The client's side: its answers, until the transaction has ended.
    type Client = tokio::task::JoinHandle<Vec<Result<bool, WriteFailure>>>;

    /// A client that sends these requests, each after a pause.
    fn client(requests: &[&str], pause: Duration) -> (TransactionRequest, Client) {
        let (opened, is_opened) = oneshot::channel::<WriterReply<()>>();
        let (sender, steps) = mpsc::channel(1);
        let requests: Vec<BatchJob> = requests
            .iter()
            .map(|sql| {
                let step = BatchStep { statement: statement(sql), condition: None };
                BatchJob { steps: vec![step] }
            })
            .collect();
        let client = tokio::spawn(async move {
            let mut answers = vec![is_opened.await.unwrap().map(|_| true)];
            for batch in requests {
                tokio::time::sleep(pause).await;
                let (reply, replied) = oneshot::channel();
                if sender.send(TransactionStep::Run(batch, reply)).await.is_err() {
                    break;
                }
                let Ok(answer) = replied.await else { break };
                answers.push(answer.map(|answer| {
                    let outcome = answer.settled.outcome.unwrap();
                    assert!(matches!(outcome[0], StepOutcome::Done(_)), "{outcome:?}");
                    answer.is_open
                }));
            }
            answers
        });
        (TransactionRequest { opened, steps }, client)
    }

    const TIME: Duration = Duration::from_secs(5);
    const AT_ONCE: Duration = Duration::ZERO;
    const INSERT: &str = "INSERT INTO t VALUES (1)";

    #[tokio::test(start_paused = true)]
    async fn h9_every_answer_but_that_of_a_commit_rests_on_a_look_at_the_head() {
        let mut lead = lead();
        let (request, client) = client(&[INSERT, "SELECT a FROM t", "COMMIT"], AT_ONCE);
        assert_eq!(run_transaction(&mut lead, request, TIME).await, Ok(()));
        assert_eq!(client.await.unwrap(), [Ok(true), Ok(true), Ok(true), Ok(false)]);
        assert_eq!(lead.seen, ["look", "look", "look", "commit"]);
        assert_eq!(count(&mut lead), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn h9_a_deposed_leader_answers_nothing_from_old_data() {
        let deposed = || Err(WriteFailure::NotLeader);
        let cases: [(&[&str], _, _, usize); 4] = [
            (&[], vec![deposed()], vec![], 0),
            (&["SELECT a FROM t"], vec![Ok(()), deposed()], vec![], 1),
            (&[INSERT, "ROLLBACK"], vec![Ok(()), Ok(()), deposed()], vec![], 2),
            (&[INSERT, "COMMIT"], vec![], vec![deposed()], 2),
        ];
        for (requests, looks, commits, good) in cases {
            let mut lead = lead();
            (lead.looks, lead.commits) = (looks.into(), commits.into());
            let (request, client) = client(requests, AT_ONCE);
            let ended = run_transaction(&mut lead, request, TIME).await;
            assert_eq!(ended, Err(LeadEnd::Deposed), "{requests:?}");
            let answers = client.await.unwrap();
            assert_eq!(answers[good], Err(WriteFailure::NotLeader), "{requests:?}");
            assert_eq!(answers.len(), good + 1, "{requests:?}");
            assert_eq!(count(&mut lead), 0, "{requests:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_has_the_writer_for_a_bounded_time() {
        let selects = ["SELECT 1"; 20];
        let cases = [
            ("idle", vec![INSERT, "COMMIT"], TRANSACTION_IDLE * 2, 1),
            ("in all", [&[INSERT], &selects[..]].concat(), TRANSACTION_IDLE / 2, 10),
        ];
        for (name, requests, pause, answers) in cases {
            let mut lead = lead();
            let (request, client) = client(&requests, pause);
            let began = Instant::now();
            assert_eq!(run_transaction(&mut lead, request, TIME).await, Ok(()), "{name}");
            assert!(began.elapsed() <= TIME, "{name}");
            assert_eq!(client.await.unwrap().len(), answers, "{name}");
            assert_eq!(count(&mut lead), 0, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_whose_client_or_worker_ends_is_taken_back() {
        let mut lead = lead();
        let (request, client_) = client(&[INSERT], AT_ONCE);
        assert_eq!(run_transaction(&mut lead, request, TIME).await, Ok(()));
        assert_eq!(client_.await.unwrap(), [Ok(true), Ok(true)]);
        assert_eq!(count(&mut lead), 0);
        let (request, client_) = client(&[INSERT, "COMMIT"], TRANSACTION_IDLE / 2);
        lead.killed.send_replace(true);
        let ended = run_transaction(&mut lead, request, TIME).await;
        assert_eq!(ended, Err(LeadEnd::End(WorkerEnd::Killed)));
        assert_eq!(client_.await.unwrap(), [Ok(true)]);
        assert_eq!(count(&mut lead), 0);
    }
}
