//! Leading: the writer takes jobs from its queue, runs them in groups, and answers when the store has them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::{StoreTime, TokioRuntime};
use consort_kernel::{Key, Most};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::following::is_out_of_room;
use super::loading::{LoadedFile, cursor_of};
use super::settling::{GroupToStore, GroupVerdict, SettleBounds};
use super::shared::{ServedFile, boot_time};
use super::{FollowEnd, RETRY_PAUSE, Worker, WorkerEnd};
use crate::entry::GROUP_BYTES;
use crate::follow::Follower;
use crate::head::{DbHead, GroupEnd, HeadSight};
use crate::position::DbPosition;
use crate::settings::{GROUP_CHANGE_BYTES, GROUP_JOBS, GROUP_TIME};
use crate::store::encode_files;
use crate::supervise::elect::{UNFIT_AFTER_YIELD, successor};
use crate::write::commit::{HeadCommit, HeadVerdict};
use crate::write::group::{GroupRun, GroupTerms, GroupWriter, OpenGroup, WriterError};
use crate::write::job::{JobOutcome, WriteJob};
use crate::write::queue::{QueuedTask, Settled, WriteFailure, WriterReply, WriterTask, job_queue};
use crate::write::schema_file::SchemaFile;

/// How often an idle leader looks at the head.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a leader writes its cell.
const CELL_EVERY: Duration = Duration::from_secs(1);
/// How often giving the lead up is tried.
const VACATE_ATTEMPTS: u32 = 20;

/// A leader at work.
pub(super) struct Lead<'a> {
    pub(super) worker: &'a mut Worker,
    pub(super) writer: GroupWriter,
    pub(super) head: DbHead,
    pub(super) claim: u64,
    file: ServedFile,
    jobs: mpsc::Receiver<QueuedTask>,
    /// A job that was taken from the queue and belongs to the next group.
    carried: Option<QueuedTask>,
    time: StoreTime,
    is_checkpointing: bool,
}

/// Why a lead ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeadEnd {
    /// Another worker leads.
    Deposed,
    /// The worker gives the lead up for this reason.
    Yield(String),
    /// The worker ends in this way.
    End(WorkerEnd),
}

/// Jobs of one group, and where their outcomes go.
type Replies = Vec<WriteReply>;
type WriteReply = oneshot::Sender<WriterReply<JobOutcome>>;

impl Worker {
    /// Leads until the lead ends. Gives back the file, to follow with; or tells why this worker ends or must load.
    pub(super) async fn lead(
        &mut self,
        head: DbHead,
        mut loaded: LoadedFile,
    ) -> Result<LoadedFile, FollowEnd> {
        let claim = head.holder.as_ref().map_or(0, |holder| holder.claim);
        if let Err(end) = self.catch_up(&head, &mut loaded).await {
            self.vacate(&head, claim).await;
            return Err(end);
        }
        let LoadedFile { file, follower } = loaded;
        drop(follower);
        let max_size = self.db.settings().max_size;
        let writer = match GroupWriter::open(&file.path, head.era, max_size) {
            Ok(writer) => writer,
            Err(error) => {
                self.vacate(&head, claim).await;
                return Err(FollowEnd::End(WorkerEnd::Failed(error.to_string())));
            }
        };
        tracing::info!(
            database = self.db.name(),
            worker = self.cell.id,
            epoch = head.epoch,
            index = head.index,
            "this worker leads"
        );
        let (sender, jobs) = job_queue();
        self.local.set_jobs(Some(sender));
        self.local.say(|status| status.trouble = None);
        let store = std::sync::Arc::clone(self.db.store().store());
        let time = StoreTime::new(store, TokioRuntime::current());
        let mut lead = Lead {
            worker: self,
            writer,
            head,
            claim,
            file: file.clone(),
            jobs,
            carried: None,
            time,
            is_checkpointing: false,
        };
        let end = lead.run().await;
        let head = lead.head.clone();
        drop(lead);
        self.local.set_jobs(None);
        self.end_lead(end, &head, claim, file).await
    }

    async fn end_lead(
        &mut self,
        end: LeadEnd,
        head: &DbHead,
        claim: u64,
        file: ServedFile,
    ) -> Result<LoadedFile, FollowEnd> {
        match end {
            LeadEnd::Deposed => {
                tracing::info!(
                    database = self.db.name(),
                    worker = self.cell.id,
                    "another worker leads"
                );
            }
            LeadEnd::Yield(reason) => {
                tracing::warn!(database = self.db.name(), worker = self.cell.id, %reason, "the lead is given up");
                self.yielded_until = Some(Instant::now() + UNFIT_AFTER_YIELD);
                self.local.say(|status| status.trouble = Some(reason));
                self.vacate(head, claim).await;
            }
            LeadEnd::End(end) => {
                if end == WorkerEnd::Drained {
                    self.vacate(head, claim).await;
                }
                return Err(FollowEnd::End(end));
            }
        }
        let follower = Follower::open(&file.path, head.era);
        match follower {
            Ok(follower) => {
                let loaded = LoadedFile { file, follower };
                self.publish(&loaded);
                Ok(loaded)
            }
            Err(error) => Err(FollowEnd::End(WorkerEnd::Failed(error.to_string()))),
        }
    }

    /// Applies the feed up to the index that was claimed, and compares the file with the head.
    async fn catch_up(&mut self, head: &DbHead, loaded: &mut LoadedFile) -> Result<(), FollowEnd> {
        let mut pending = Vec::new();
        while loaded.follower.state().index < head.index {
            if self.control.is_killed() {
                return Err(FollowEnd::End(WorkerEnd::Killed));
            }
            if self.control.is_draining() {
                return Err(FollowEnd::End(WorkerEnd::Drained));
            }
            let last: Option<&consort_kernel::FeedEntry> = pending.last();
            let cursor = last.map_or(cursor_of(loaded.follower.state()), |last| last.cursor());
            let most = Most { entries: crate::follow::APPLY_ENTRIES, bytes: GROUP_BYTES };
            match self.db.store().entries(head.era, &cursor, most, Duration::ZERO).await {
                // The head vouches for entries that the feed does not have: the next look finds out.
                Ok(entries) if entries.is_empty() => sleep(RETRY_PAUSE).await,
                Ok(entries) => pending.extend(entries),
                Err(consort_kernel::ReadError::Engine(_)) => sleep(RETRY_PAUSE).await,
                Err(_) => return Err(FollowEnd::Reload),
            }
            let entries: Vec<_> = pending.iter().map(|entry| entry.entry.clone()).collect();
            let applied = loaded.follower.apply(&entries).map_err(|error| {
                tracing::error!(database = self.db.name(), %error, "an entry cannot be applied");
                FollowEnd::Reload
            })?;
            pending.drain(..applied);
            self.publish(loaded);
        }
        let at = loaded.follower.state();
        match at.index == head.index
            && at.digest == head.digest
            && at.chain == head.chain
            && at.content == head.content
        {
            true => Ok(()),
            false => {
                tracing::error!(
                    database = self.db.name(),
                    worker = self.cell.id,
                    "this worker's file differs from the head: it is loaded anew"
                );
                self.failed_at = Some(at.position());
                Err(FollowEnd::Reload)
            }
        }
    }

    /// Gives the lead up, to the follower that catches up soonest (H28).
    async fn vacate(&mut self, head: &DbHead, claim: u64) {
        let view = self.db.view().now();
        let others: Vec<_> = self.followers(&view, head.index);
        let others: Vec<_> = others.into_iter().filter(|f| f.id != self.cell.id).collect();
        let Ok(put) = head.vacated(claim, successor(&others)) else { return };
        let mut commit = HeadCommit::new(head.clone(), put);
        for _ in 0..VACATE_ATTEMPTS {
            let answer = self.db.store().replace_head(&commit.expect, &commit.put).await;
            match commit.settle(&answer) {
                HeadVerdict::Repeat | HeadVerdict::MayRepeat => sleep(RETRY_PAUSE).await,
                HeadVerdict::Stored => {
                    self.judge(self.seen, Some(&commit.put));
                    break;
                }
                HeadVerdict::NotStored | HeadVerdict::AskFeed { .. } => break,
            }
        }
        self.db.view().refresh();
    }
}

impl Lead<'_> {
    async fn run(&mut self) -> LeadEnd {
        let (mut kill, mut drain) = (self.worker.control.clone(), self.worker.control.clone());
        let (mut look_due, mut cell_due) = (Instant::now(), Instant::now());
        loop {
            let end = tokio::select! {
                biased;
                () = kill.killed() => return LeadEnd::End(WorkerEnd::Killed),
                () = drain.draining() => return LeadEnd::End(WorkerEnd::Drained),
                () = sleep_until(cell_due) => {
                    cell_due = Instant::now() + CELL_EVERY;
                    self.tick().await
                }
                () = sleep_until(look_due) => {
                    look_due = Instant::now() + LOOK_EVERY;
                    self.look().await
                }
                task = next_task(&mut self.carried, &mut self.jobs) => self.take(task).await,
            };
            if let Err(end) = end {
                return end;
            }
        }
    }

    async fn take(&mut self, first: QueuedTask) -> Result<(), LeadEnd> {
        if !first.take() {
            return Ok(());
        }
        match first.task {
            WriterTask::Write(job, tell) => {
                let (mut jobs, mut replies) = (vec![job], vec![tell]);
                self.take_more(&mut jobs, &mut replies, first.bytes);
                self.write(jobs, replies).await
            }
            WriterTask::SchemaFile(file, tell) => self.schema_file(file, tell).await,
            WriterTask::Batch(job, tell) => self.batch(job, tell).await,
            WriterTask::Transaction(request) => self.transaction(request).await,
        }
    }

    /// Takes the jobs that wait, up to the bounds of a group.
    fn take_more(&mut self, jobs: &mut Vec<WriteJob>, replies: &mut Replies, mut bytes: usize) {
        while jobs.len() < GROUP_JOBS && (bytes as u64) < GROUP_CHANGE_BYTES {
            let Ok(queued) = self.jobs.try_recv() else { return };
            if !matches!(queued.task, WriterTask::Write(..)) {
                self.carried = Some(queued);
                return;
            }
            if !queued.take() {
                continue;
            }
            bytes += queued.bytes;
            if let WriterTask::Write(job, tell) = queued.task {
                jobs.push(job);
                replies.push(tell);
            }
        }
    }

    /// Runs jobs in groups until each has its outcome.
    async fn write(
        &mut self,
        mut jobs: Vec<WriteJob>,
        mut replies: Replies,
    ) -> Result<(), LeadEnd> {
        while !jobs.is_empty() {
            let terms = match self.terms().await {
                Ok(terms) => terms,
                Err(failure) => {
                    fail(replies, &failure);
                    return Ok(());
                }
            };
            let writer = &mut self.writer;
            let ran = catch_unwind(AssertUnwindSafe(|| writer.run(&jobs, &terms)));
            match ran {
                Ok(Ok(GroupRun::Open(group))) => {
                    let done = group.outcomes.len().min(jobs.len());
                    jobs.drain(..done);
                    let told: Replies = replies.drain(..done).collect();
                    self.settle_writes(group, told, &[]).await.inspect_err(|_| {
                        fail(std::mem::take(&mut replies), &WriteFailure::NotLeader);
                    })?;
                }
                Ok(Ok(GroupRun::RunAlone)) => return self.write_alone(jobs, replies).await,
                Ok(Err(error)) => {
                    let reason = error.to_string();
                    fail(replies, &WriteFailure::File(reason.clone()));
                    return Err(self.writer_failed(&error, reason));
                }
                Err(panic) => {
                    let reason = panic_text(&*panic);
                    fail(replies, &WriteFailure::Panicked(reason.clone()));
                    return Err(LeadEnd::Yield(format!("a job made the writer panic: {reason}")));
                }
            }
        }
        Ok(())
    }

    /// Runs each job as a group of its own.
    async fn write_alone(&mut self, jobs: Vec<WriteJob>, replies: Replies) -> Result<(), LeadEnd> {
        let mut rest = jobs.into_iter().zip(replies);
        while let Some((job, reply)) = rest.next() {
            // One job never asks to be run alone, so this goes no deeper.
            let ran = Box::pin(self.write(vec![job], vec![reply])).await;
            if ran.is_err() {
                fail(rest.map(|(_, reply)| reply).collect(), &WriteFailure::NotLeader);
                return ran;
            }
        }
        Ok(())
    }

    /// A failed file: nothing of the group was stored.
    pub(super) fn writer_failed(&mut self, error: &WriterError, reason: String) -> LeadEnd {
        if let WriterError::Sqlite(error) = error
            && is_out_of_room(error)
        {
            return LeadEnd::Yield(format!("there is no room on the leader's disk: {reason}"));
        }
        LeadEnd::Yield(reason)
    }

    /// Runs a file of the schema. Its name goes into a cell beside its entry, for nodes that start.
    async fn schema_file(&mut self, file: SchemaFile, reply: WriteReply) -> Result<(), LeadEnd> {
        let terms = match self.terms().await {
            Ok(terms) => terms,
            Err(failure) => {
                fail(vec![reply], &failure);
                return Ok(());
            }
        };
        let ran = self.writer.run_schema_file(&file, &terms);
        let ran = ran.and_then(|group| Ok((group, self.writer.schema_files()?)));
        match ran {
            Ok((group, files)) => {
                let key = self.worker.db.store().cells().schema();
                let beside = [(key, encode_files(&files))];
                self.settle_writes(group, vec![reply], &beside).await
            }
            Err(error) => {
                let reason = error.to_string();
                fail(vec![reply], &WriteFailure::File(reason.clone()));
                Err(self.writer_failed(&error, reason))
            }
        }
    }

    async fn settle_writes(
        &mut self,
        group: OpenGroup,
        replies: Replies,
        beside: &[(Key, Bytes)],
    ) -> Result<(), LeadEnd> {
        let OpenGroup { outcomes, entries, end } = group;
        let (result, end) = self.settle_group(&entries, end.as_ref(), beside).await;
        match result {
            Ok(position) => {
                for (tell, outcome) in replies.into_iter().zip(outcomes) {
                    // A client that has gone away needs no answer.
                    let _ = tell.send(Ok(Settled { position, outcome }));
                }
            }
            Err(failure) => fail(replies, &failure),
        }
        end.map_or(Ok(()), Err)
    }

    /// Has the store take a group that the writer left open, and makes it final here. The position of its end, or
    /// why it has none; and why the lead ends, if it does.
    pub(super) async fn settle_group(
        &mut self,
        entries: &[Bytes],
        end: Option<&GroupEnd>,
        beside: &[(Key, Bytes)],
    ) -> (Result<DbPosition, WriteFailure>, Option<LeadEnd>) {
        let verdict = match end {
            // An answer without a write is an observation: it needs a look at the head, too (H9).
            None => self.confirm_lead().await,
            Some(end) => {
                let bounds = SettleBounds {
                    give_up: self.worker.db.settings().wait,
                    stop: self.worker.lease(),
                };
                let (head, claim) = (self.head.clone(), self.claim);
                let group = GroupToStore { entries, end, beside };
                self.worker.settle(&head, claim, &group, bounds).await
            }
        };
        match verdict {
            GroupVerdict::Stored(head) => {
                self.head = *head;
                let position = self.head.position();
                // The acknowledgement depends on the store alone (C5).
                let kept = self.writer.commit();
                self.publish(position);
                let end = kept.err().map(|error| {
                    LeadEnd::Yield(format!("the leader's file could not be committed: {error}"))
                });
                (Ok(position), end)
            }
            GroupVerdict::StoredAndDeposed => {
                let era = self.head.era;
                let index = self.head.index + entries.len() as u64;
                // The follower finds the group in the feed if this fails.
                let _ = self.writer.commit();
                (Ok(DbPosition { era, index }), Some(LeadEnd::Deposed))
            }
            GroupVerdict::Deposed => {
                self.rolled_back(WriteFailure::NotLeader, Some(LeadEnd::Deposed))
            }
            GroupVerdict::NotStored => self.rolled_back(WriteFailure::StoreFault, None),
            GroupVerdict::Unknown => {
                let end = match self.worker.control.is_killed() {
                    true => LeadEnd::End(WorkerEnd::Killed),
                    false => LeadEnd::Deposed,
                };
                self.rolled_back(WriteFailure::Unknown, Some(end))
            }
        }
    }

    fn rolled_back(
        &mut self,
        failure: WriteFailure,
        end: Option<LeadEnd>,
    ) -> (Result<DbPosition, WriteFailure>, Option<LeadEnd>) {
        match self.writer.roll_back() {
            Ok(()) => (Err(failure), end),
            Err(error) => {
                let yielded = LeadEnd::Yield(format!("the leader's file failed: {error}"));
                (Err(failure), Some(end.unwrap_or(yielded)))
            }
        }
    }

    /// Whether this claim still stands, by a look that begins now.
    pub(super) async fn confirm_lead(&mut self) -> GroupVerdict {
        let start = Instant::now();
        loop {
            let began = boot_time();
            match self.worker.db.store().head().await {
                Ok(Some(head)) if head.is_led_by(self.claim) => {
                    self.worker.local.looked(began);
                    return GroupVerdict::Stored(Box::new(head));
                }
                Ok(_) => return GroupVerdict::Deposed,
                Err(_) if start.elapsed() >= self.worker.db.settings().wait => {
                    return GroupVerdict::NotStored;
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }

    pub(super) async fn terms(&self) -> Result<GroupTerms, WriteFailure> {
        let time = self.time.now().await.map_err(|_| WriteFailure::StoreFault)?;
        Ok(GroupTerms {
            epoch: self.head.epoch,
            time,
            limits: self.worker.db.settings().job_limits(),
            group_time: GROUP_TIME,
            group_bytes: GROUP_CHANGE_BYTES,
        })
    }

    fn publish(&mut self, position: DbPosition) {
        self.worker.local.say(|status| status.applied = position);
    }

    /// Looks at the head: a leader that is deposed must know, and default reads need looks.
    async fn look(&mut self) -> Result<(), LeadEnd> {
        let (before, began) = (self.worker.seen, boot_time());
        let Ok(head) = self.worker.db.store().head().await else { return Ok(()) };
        match self.worker.judge(before, head.as_ref()) {
            HeadSight::LostTail => {
                self.worker.stop_database("the head went back in its history").await;
                return Err(LeadEnd::Deposed);
            }
            HeadSight::OtherHistory | HeadSight::Stopped => return Err(LeadEnd::Deposed),
            HeadSight::Forward => {}
        }
        match head.is_some_and(|head| head.is_led_by(self.claim)) {
            true => {
                self.worker.local.looked(began);
                Ok(())
            }
            false => Err(LeadEnd::Deposed),
        }
    }

    async fn tick(&mut self) -> Result<(), LeadEnd> {
        self.is_checkpointing = self.worker.checkpoint(&self.file.path, self.is_checkpointing);
        let position = self.head.position();
        let fitness = self.worker.fitness();
        match self.worker.write_cell(position, fitness).await {
            true => Ok(()),
            false => {
                let failed = WorkerEnd::Failed("others took it for dead".into());
                Err(LeadEnd::End(failed))
            }
        }
    }
}

async fn next_task(
    carried: &mut Option<QueuedTask>,
    jobs: &mut mpsc::Receiver<QueuedTask>,
) -> QueuedTask {
    match carried.take() {
        Some(task) => task,
        None => match jobs.recv().await {
            Some(task) => task,
            // The sender lives as long as the lead.
            None => std::future::pending().await,
        },
    }
}

fn fail(replies: Replies, failure: &WriteFailure) {
    for tell in replies {
        let _ = tell.send(Err(failure.clone()));
    }
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
