//! Reading on while the worker applies what it has: how much at once, and not too early.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Cursor, Log, LogEntry, Most, Partition, Timestamp};

use super::stand::Stand;
use super::{Setback, Worker};
use crate::runtime::Runtime;
use crate::tenure::Tenure;

/// How long one read waits for frames. It only bounds how late other things are noticed: a frame that
/// comes ends the wait.
const READ_WAIT: Duration = Duration::from_secs(1);

/// How often a reader that is not to read yet looks what has come. A look that finds nothing ends the wait: the
/// load is over, or so light that there is little to merge.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a batch that is being filled waits for the next frames: a broker needs a moment to deliver.
const GATHER_WAIT: Duration = Duration::from_millis(5);

/// And for how long at most it is filled: where frames come without a pause there is always one more.
const GATHER_FOR: Duration = Duration::from_millis(50);

/// A reader that does not linger gathers while the oldest frame it has is older than this: then there is a backlog,
/// and fewer and larger batches are worth a wait. Otherwise waiting clients would wait for the gathering as well.
const GATHER_AFTER: Duration = Duration::from_millis(50);

/// A read gives far less than another if it gives less than one part of so many.
const FAR_LESS: usize = 4;

/// Reads for a worker that is busy applying.
pub(super) struct Reader {
    log: Arc<dyn Log>,
    partition: Partition,
    batch: Most,
    wait: Duration,
    /// Local time before which a batch is not complete, unless it is full or nothing more comes.
    pub(super) not_before: Duration,
    /// Whether batches are to be as full as they can be, also when there is no backlog.
    lingers: bool,
    /// The store's time when it was last known, and the local time then.
    store_time: Option<(Timestamp, Duration)>,
    runtime: Arc<dyn Runtime>,
    tenure: Tenure,
    vouch: bool,
    /// Whether the last look found nothing: then there is nothing to add to the batch, and a broker would be waited
    /// for in vain.
    all_there: bool,
}

impl Reader {
    pub(super) fn of(worker: &Worker) -> Self {
        let options = &worker.options;
        Reader {
            log: Arc::clone(&options.log),
            partition: options.partition.clone(),
            batch: options.batch,
            wait: options.plan.tick_after().map_or(READ_WAIT, |after| after.min(READ_WAIT)),
            not_before: Duration::ZERO,
            lingers: !options.linger.is_zero(),
            store_time: worker.store_time,
            runtime: Arc::clone(&options.runtime),
            tenure: worker.tenure.clone(),
            vouch: worker.checks_digests(),
            all_there: false,
        }
    }

    /// The frames that follow `stand`; `None` when the tenure is to end.
    pub(super) async fn read(&mut self, stand: &Stand) -> Result<Option<Vec<LogEntry>>, Setback> {
        let mut cursor = stand.cursor();
        if !self.vouch {
            cursor.last = None;
        }
        let Some(mut entries) = self.linger(&mut cursor).await? else { return Ok(None) };
        if entries.is_empty() {
            entries = tokio::select! {
                biased;
                () = self.tenure.ending() => return Ok(None),
                entries = self.log.read(&self.partition, &cursor, self.batch, self.wait) => entries?,
            };
        }
        if !self.all_there && (self.lingers || self.is_backlog(&entries)) {
            self.gather(&mut entries).await;
        }
        Ok(Some(entries))
    }

    /// What comes until a batch may be complete, and moves `cursor` behind it; `None` when the tenure is to
    /// end.
    async fn linger(&mut self, cursor: &mut Cursor) -> Result<Option<Vec<LogEntry>>, Setback> {
        let mut entries: Vec<LogEntry> = Vec::new();
        self.all_there = false;
        loop {
            let left = self.not_before.saturating_sub(self.runtime.elapsed());
            if left.is_zero() || self.batch.reached(entries.len(), bytes_of(&entries)) {
                return Ok(Some(entries));
            }
            tokio::select! {
                biased;
                () = self.tenure.ending() => return Ok(None),
                () = self.runtime.sleep(left.min(LOOK_EVERY)) => {}
            }
            let more = tokio::select! {
                biased;
                () = self.tenure.ending() => return Ok(None),
                more = self.log.read(&self.partition, cursor, self.batch, Duration::ZERO) => more?,
            };
            let Some(last) = more.last() else {
                self.all_there = !entries.is_empty();
                return Ok(Some(entries));
            };
            *cursor = last.cursor();
            entries.extend(more);
        }
    }

    /// Adds what came while `entries` waited for their turn. Otherwise it would wait for them and for what they
    /// wait for: the views of a stream that is as fast as it can be would be behind by half as much again.
    pub(super) async fn top_up(&mut self, entries: &mut Vec<LogEntry>) {
        let Some(last) = entries.last() else { return };
        if self.batch.reached(entries.len(), bytes_of(entries)) {
            return;
        }
        let cursor = last.cursor();
        // What goes wrong here is met again by the next read.
        tokio::select! {
            biased;
            () = self.tenure.ending() => {}
            more = self.log.read(&self.partition, &cursor, self.batch, Duration::ZERO) => {
                entries.extend(more.unwrap_or_default());
            }
        }
    }

    /// Whether the oldest of these waits for so long that more stands behind them.
    fn is_backlog(&self, entries: &[LogEntry]) -> bool {
        let (Some(first), Some((time, at))) = (entries.first(), self.store_time) else {
            return false;
        };
        let now = time.after(self.runtime.elapsed().saturating_sub(at));
        now.since(first.frame.time) > GATHER_AFTER
    }

    /// Reads on while there is more at once. Some engines give little in one read: a broker delivers a few
    /// frames ahead, and the next ones when those are taken. Others give all there is, and then only what has
    /// come since, which is far less: that is left for the next batch.
    async fn gather(&self, entries: &mut Vec<LogEntry>) {
        let until = self.runtime.elapsed() + GATHER_FOR;
        let at_once = entries.len();
        while let Some(last) = entries.last()
            && !self.batch.reached(entries.len(), bytes_of(entries))
            && self.runtime.elapsed() < until
        {
            let cursor = last.cursor();
            match self.log.read(&self.partition, &cursor, self.batch, GATHER_WAIT).await {
                Ok(more) => {
                    let far_less = more.len() * FAR_LESS < at_once;
                    entries.extend(more);
                    if far_less {
                        return;
                    }
                }
                // What goes wrong here is met again by the next read.
                Err(_) => return,
            }
        }
    }
}

pub(super) fn bytes_of(entries: &[LogEntry]) -> usize {
    entries.iter().map(|entry| entry.frame.records.bytes()).sum()
}
