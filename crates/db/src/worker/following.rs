//! Following the feed: entries are applied as they come, the head is looked at, and a lead without a leader is
//! claimed.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_kernel::{FeedEntry, Most, ReadError};
use rusqlite::ErrorCode;
use tokio::time::{Instant, sleep, sleep_until};

use super::cell::WorkerState;
use super::folder::wal_bytes;
use super::loading::{LoadedFile, cursor_of};
use super::shared::boot_time;
use super::{RETRY_PAUSE, Worker, WorkerEnd};
use crate::entry::GROUP_BYTES;
use crate::follow::{APPLY_ENTRIES, ApplyError, Follower};
use crate::head::{DbHead, HeadSight, HeadState};
use crate::snapshot::wish::wish_snapshot;
use crate::sqlite::connect::open_apply;

/// How long one read of the feed waits for entries.
const FEED_WAIT: Duration = Duration::from_secs(2);
/// How often a worker writes its cell.
const CELL_EVERY: Duration = Duration::from_secs(1);
/// Looks at the head whose index is not applied yet. One a look is enough; the oldest go first.
const OPEN_LOOKS: usize = 16;
/// The write-ahead log is moved into the file beyond this size.
const CHECKPOINT_BYTES: u64 = 8 * 1024 * 1024;

/// Why a worker follows no more.
#[derive(Debug)]
pub(super) enum FollowEnd {
    /// It has claimed the lead.
    Lead(DbHead),
    /// Its file is of no more use: it loads anew.
    Reload,
    /// It ends.
    End(WorkerEnd),
}

type Reading = Pin<Box<dyn Future<Output = Result<Vec<FeedEntry>, ReadError>>>>;

/// The state of one stretch of following.
struct Following {
    /// Entries that are read and not applied: the beginning of a group.
    pending: Vec<FeedEntry>,
    reading: Option<Reading>,
    /// Looks whose index is not applied yet, with their time.
    looks: VecDeque<(u64, Duration)>,
    look_due: Instant,
    cell_due: Instant,
    claim_due: Option<Instant>,
    is_checkpointing: bool,
}

impl Worker {
    /// The worker's life.
    pub(super) async fn run(mut self) -> WorkerEnd {
        loop {
            let mut loaded = match self.load().await {
                Ok(loaded) => loaded,
                Err(end) => return end,
            };
            loop {
                let end = match self.follow(&mut loaded).await {
                    FollowEnd::Lead(head) => match self.lead(head, loaded).await {
                        Ok(back) => {
                            loaded = back;
                            continue;
                        }
                        Err(end) => end,
                    },
                    end => end,
                };
                match end {
                    FollowEnd::Reload | FollowEnd::Lead(_) => break,
                    FollowEnd::End(end) => {
                        self.local.say(|status| status.file = None);
                        return end;
                    }
                }
            }
        }
    }

    async fn follow(&mut self, loaded: &mut LoadedFile) -> FollowEnd {
        let now = Instant::now();
        let mut views = self.db.view().views();
        let mut control = self.control.clone();
        let mut kill = self.control.clone();
        let mut state = Following {
            pending: Vec::new(),
            reading: None,
            looks: VecDeque::new(),
            look_due: now,
            cell_due: now,
            claim_due: self.claim_due(loaded),
            is_checkpointing: false,
        };
        loop {
            let claim_due = state.claim_due;
            let era = loaded.follower.state().era;
            let reading = state
                .reading
                .get_or_insert_with(|| self.read_entries(era, &loaded.follower, &state.pending));
            let step = tokio::select! {
                biased;
                () = kill.killed() => return FollowEnd::End(WorkerEnd::Killed),
                () = control.draining() => return FollowEnd::End(WorkerEnd::Drained),
                // A claim stays due while the head is vacant in another era, and only a look finds that era.
                () = sleep_until(state.look_due) => self.look(&mut state, loaded).await,
                () = sleep_until(state.cell_due) => self.tick(&mut state, loaded).await,
                () = due(claim_due) => self.claim_if_free(loaded).await.map(FollowEnd::Lead),
                Ok(()) = views.changed() => None,
                read = reading => {
                    state.reading = None;
                    self.take_entries(&mut state, loaded, read).await
                }
            };
            if let Some(end) = step {
                return end;
            }
            state.claim_due = self.next_claim(state.claim_due, loaded);
        }
    }

    fn read_entries(&self, era: u64, follower: &Follower, pending: &[FeedEntry]) -> Reading {
        let store = self.db.store().clone();
        let cursor = match pending.last() {
            Some(last) => last.cursor(),
            None => cursor_of(follower.state()),
        };
        // A whole group may have this many bytes.
        let most = Most { entries: APPLY_ENTRIES, bytes: GROUP_BYTES };
        Box::pin(async move { store.entries(era, &cursor, most, FEED_WAIT).await })
    }

    async fn take_entries(
        &mut self,
        state: &mut Following,
        loaded: &mut LoadedFile,
        read: Result<Vec<FeedEntry>, ReadError>,
    ) -> Option<FollowEnd> {
        match read {
            Ok(entries) => state.pending.extend(entries),
            Err(ReadError::Trimmed { .. }) => return Some(FollowEnd::Reload),
            Err(ReadError::Lost { .. } | ReadError::Corrupt { .. }) => {
                let at = loaded.follower.state().position();
                // A restore begins a new feed; only a feed of this era that lacks the entry has lost it.
                if self.is_present_era(at.era).await {
                    let found = format!("the feed lacks entry {at}, which was applied");
                    self.stop_database(&found).await;
                }
                sleep(RETRY_PAUSE).await;
                return self.look(state, loaded).await;
            }
            Err(error) => {
                self.local.say(|status| status.trouble = Some(error.to_string()));
                sleep(RETRY_PAUSE).await;
                return None;
            }
        }
        self.apply(state, loaded).await
    }

    /// Applies what is pending, a bounded part at a time.
    async fn apply(&mut self, state: &mut Following, loaded: &mut LoadedFile) -> Option<FollowEnd> {
        while !state.pending.is_empty() && !self.control.is_killed() {
            let entries: Vec<Bytes> = state.pending.iter().map(|e| e.entry.clone()).collect();
            match loaded.follower.apply(&entries) {
                Ok(0) => return None,
                Ok(applied) => {
                    state.pending.drain(..applied);
                    self.publish(loaded);
                    note_looks(state, loaded.follower.state().index, |at| self.local.looked(at));
                }
                Err(error) => return self.cannot_apply(state, loaded, error).await,
            }
        }
        None
    }

    pub(super) fn publish(&self, loaded: &LoadedFile) {
        let position = loaded.follower.state().position();
        self.local.say(|status| {
            status.applied = position;
            status.trouble = None;
        });
    }

    async fn cannot_apply(
        &mut self,
        state: &mut Following,
        loaded: &LoadedFile,
        error: ApplyError,
    ) -> Option<FollowEnd> {
        let at = loaded.follower.state().position();
        let trouble = error.to_string();
        tracing::error!(database = self.db.name(), worker = self.cell.id, %trouble, "an entry cannot be applied");
        self.local.say(|status| status.trouble = Some(trouble));
        match error {
            // Out of the rotation until there is room: the file itself is good (H16).
            ApplyError::Sqlite(error) if is_out_of_room(&error) => {
                state.pending.clear();
                state.reading = None;
                self.local.forget_looks();
                state.looks.clear();
                self.write_cell(at, WorkerState::Unfit).await;
                sleep(CELL_EVERY).await;
                None
            }
            // It stops visibly, and does not load snapshots in a loop (H30).
            ApplyError::OlderSqlite { .. } => Some(self.quarantine(None).await),
            // The file may be damaged: a new one may do. If it does not, only a snapshot behind the entry helps.
            _ if self.failed_at != Some(at) => {
                self.failed_at = Some(at);
                Some(FollowEnd::Reload)
            }
            _ => Some(self.quarantine(Some(at.index + 1)).await),
        }
    }

    /// Serves nothing until there is a snapshot behind the entry that cannot be applied, or for good (C8).
    async fn quarantine(&mut self, entry: Option<u64>) -> FollowEnd {
        self.local.forget_looks();
        self.local.say(|status| status.file = None);
        let applied = self.cell.applied;
        loop {
            if !self.write_cell(applied, WorkerState::Unfit).await {
                return FollowEnd::End(WorkerEnd::Failed("its cell was deleted".into()));
            }
            if let Some(entry) = entry {
                wish_snapshot(&self.db, entry).await;
                let manifests = self.db.store().manifests().await.unwrap_or_default();
                if manifests.iter().flatten().any(|manifest| manifest.index >= entry) {
                    return FollowEnd::Reload;
                }
            }
            let (mut kill, mut control) = (self.control.clone(), self.control.clone());
            tokio::select! {
                biased;
                () = kill.killed() => return FollowEnd::End(WorkerEnd::Killed),
                () = control.draining() => return FollowEnd::End(WorkerEnd::Drained),
                () = sleep(CELL_EVERY) => {}
            }
        }
    }

    /// Looks at the head.
    async fn look(&mut self, state: &mut Following, loaded: &LoadedFile) -> Option<FollowEnd> {
        let every = (self.db.settings().max_stale / 8).clamp(RETRY_PAUSE, CELL_EVERY);
        state.look_due = Instant::now() + every;
        let (before, began) = (self.seen, boot_time());
        let head = match self.db.store().head().await {
            Ok(head) => head,
            Err(error) => {
                self.local.say(|status| status.trouble = Some(error.to_string()));
                return None;
            }
        };
        match self.judge(before, head.as_ref()) {
            HeadSight::Forward | HeadSight::Stopped => {}
            HeadSight::OtherHistory => return Some(FollowEnd::Reload),
            HeadSight::LostTail => {
                self.stop_database("the head went back in its history").await;
                // Default reads of a stopped database go on (H8).
                if head.is_some_and(|head| matches!(head.state, HeadState::Stopped { .. })) {
                    self.local.looked(began);
                }
                return None;
            }
        }
        let head = head?;
        let at = loaded.follower.state();
        if head.era != at.era || head.database != loaded.file.database {
            return Some(FollowEnd::Reload);
        }
        if state.looks.len() >= OPEN_LOOKS {
            state.looks.pop_front();
        }
        state.looks.push_back((head.index, began));
        note_looks(state, at.index, |at| self.local.looked(at));
        None
    }

    async fn is_present_era(&self, era: u64) -> bool {
        let head = self.db.store().head().await;
        head.is_ok_and(|head| head.is_some_and(|head| head.era == era))
    }

    /// The work of every second.
    async fn tick(&mut self, state: &mut Following, loaded: &LoadedFile) -> Option<FollowEnd> {
        state.cell_due = Instant::now() + CELL_EVERY;
        state.is_checkpointing = self.checkpoint(&loaded.file.path, state.is_checkpointing);
        let fitness = self.fitness();
        let applied = loaded.follower.state().position();
        match self.write_cell(applied, fitness).await {
            true => None,
            false => Some(FollowEnd::End(WorkerEnd::Failed("others took it for dead".into()))),
        }
    }

    /// What a worker says whose file is good.
    pub(super) fn fitness(&self) -> WorkerState {
        match self.yielded_until.is_some_and(|until| Instant::now() < until) {
            true => WorkerState::Yielded,
            false => WorkerState::Fit,
        }
    }

    /// Moves a long write-ahead log into the file, on a thread of its own: it may take a while. `has_begun`: the
    /// last tick began to. Whether this one did.
    pub(super) fn checkpoint(&self, file: &Arc<PathBuf>, has_begun: bool) -> bool {
        if has_begun || wal_bytes(file) < CHECKPOINT_BYTES {
            return false;
        }
        let path = Arc::clone(file);
        self.db.runtime().spawn_blocking(move || {
            let done = open_apply(&path)
                .and_then(|file| file.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
            if let Err(error) = done {
                tracing::debug!(%error, "a checkpoint did not succeed");
            }
        });
        true
    }
}

/// Passes on the time of each look whose index is applied.
fn note_looks(state: &mut Following, applied: u64, mut tell: impl FnMut(Duration)) {
    state.looks.retain(|(index, began)| {
        let is_applied = *index <= applied;
        if is_applied {
            tell(*began);
        }
        !is_applied
    });
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

pub(super) fn is_out_of_room(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure))
}
