//! A worker: the tenure of one slot, with a SQLite file that follows the feed and may lead.
//!
//! A worker has a thread of its own. SQLite's calls block it and nothing else; calls of the store are awaited on it.

pub mod cell;
mod election;
mod folder;
mod following;
mod leading;
mod loading;
mod settling;
pub mod shared;
mod transaction;

use std::collections::VecDeque;
use std::time::Duration;

use consort_cluster::{Ended, Tenure};
use consort_kernel::{Cell, Expect, Kind, Operation};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::db::Database;
use crate::head::{HeadSight, LastSeen};
use crate::position::DbPosition;
use crate::store::{CellsAnswer, DbStoreError};
use cell::{WorkerCell, WorkerState};
use folder::WorkerFolder;
use following::FollowEnd;
use shared::LocalWorker;

/// So many crashes within [`CRASHES_WITHIN`] make the node give the slot up.
const CRASHES: usize = 3;
const CRASHES_WITHIN: Duration = Duration::from_secs(60);
/// How long a worker that crashed waits before it begins again.
const RESTART_PAUSE: Duration = Duration::from_millis(100);
/// The lease of a node that has not joined its cluster, which a worker's node always has.
const DEFAULT_LEASE: Duration = Duration::from_secs(3);
/// How long a call that failed waits before it is repeated.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WorkerEnd {
    /// As asked.
    Drained,
    /// At once, as by a crash.
    Killed,
    /// It cannot go on.
    Failed(String),
}

/// A worker on its thread.
#[derive(Debug)]
struct Worker {
    db: Database,
    local: LocalWorker,
    control: WorkerControl,
    folder: WorkerFolder,
    cell: WorkerCell,
    /// The latest point of history that it saw (H34).
    seen: Option<LastSeen>,
    /// Until then it takes the lead only if no other worker may.
    yielded_until: Option<Instant>,
    /// The index of the entry that it could not apply, if it has loaded anew because of it (C8).
    failed_at: Option<DbPosition>,
}

/// What ends a worker.
#[derive(Clone, Debug)]
struct WorkerControl {
    kill: watch::Receiver<bool>,
    drain: watch::Receiver<bool>,
}

/// Ends the worker when the work of its slot ends or is dropped, and takes it out of all lists.
#[derive(Debug)]
struct EndOnDrop {
    db: Database,
    local: LocalWorker,
    cell: WorkerCell,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.local.crash();
        self.db.remove_local(self.cell.id);
        let (db, cell) = (self.db.clone(), self.cell.clone());
        self.db.runtime().spawn(async move {
            let is_own = |stored: &WorkerCell| {
                stored.node == cell.node && stored.incarnation == cell.incarnation
            };
            remove_cell(&db, cell.id, is_own).await;
        });
    }
}

/// Does the work of one slot. A worker that crashes is replaced here by one with a new id: a role that ended by
/// itself would be kept from this node for a while.
pub(crate) async fn work_slot(db: Database, slot: u16, mut tenure: Tenure) -> Ended {
    let mut crashes: VecDeque<Instant> = VecDeque::new();
    loop {
        let end = tokio::select! {
            biased;
            end = run_worker(&db, slot, &tenure) => end,
        };
        let reason = match end {
            WorkerEnd::Drained => return Ended::Drained,
            WorkerEnd::Killed => "it was ended from outside".to_owned(),
            WorkerEnd::Failed(reason) => reason,
        };
        tracing::warn!(database = db.name(), slot, %reason, "a worker ended and is replaced");
        tenure.say(|gauge| gauge.trouble = Some(reason.clone()));
        let now = Instant::now();
        crashes.retain(|at| now.duration_since(*at) < CRASHES_WITHIN);
        crashes.push_back(now);
        if crashes.len() >= CRASHES {
            return Ended::Yielded { reason };
        }
        tokio::select! {
            biased;
            () = tenure.ending() => return Ended::Drained,
            () = tokio::time::sleep(RESTART_PAUSE) => {}
        }
    }
}

/// Runs one worker from the drawing of its id to its end.
async fn run_worker(db: &Database, slot: u16, tenure: &Tenure) -> WorkerEnd {
    let mut ending = tenure.clone();
    let cell = tokio::select! {
        biased;
        () = ending.ending() => return WorkerEnd::Drained,
        drawn = draw_worker(db, slot) => match drawn {
            Ok(cell) => cell,
            Err(reason) => return WorkerEnd::Failed(reason),
        },
    };
    let local = LocalWorker::new(cell.id, slot);
    let guard = EndOnDrop { db: db.clone(), local: local.clone(), cell: cell.clone() };
    let (drain, drained) = watch::channel(false);
    let control = WorkerControl { kill: local.kills(), drain: drained };
    db.add_local(local.clone());
    let mut ended = start_thread(db.clone(), local.clone(), control, cell.clone());
    tracing::debug!(database = db.name(), slot, worker = cell.id, "a worker begins");
    let mut statuses = local.statuses();
    let end = loop {
        tokio::select! {
            biased;
            end = &mut ended => break end,
            () = ending.ending(), if !*drain.borrow() => {
                drain.send_replace(true);
            }
            Ok(()) = statuses.changed() => report(tenure, &mut statuses),
        }
    };
    drop(guard);
    // Its thread panicked: the message is in the log.
    end.unwrap_or_else(|_| WorkerEnd::Failed("the worker's thread panicked".into()))
}

fn report(tenure: &Tenure, statuses: &mut watch::Receiver<shared::WorkerStatus>) {
    let status = statuses.borrow_and_update().clone();
    if status.file.is_some() {
        tenure.ready();
    }
    tenure.say(|gauge| {
        gauge.applied = status.applied.index;
        gauge.trouble = status.trouble;
    });
}

fn start_thread(
    db: Database,
    local: LocalWorker,
    control: WorkerControl,
    cell: WorkerCell,
) -> oneshot::Receiver<WorkerEnd> {
    let (tell, ended) = oneshot::channel();
    let name = format!("db {}/{}", db.name(), cell.slot);
    let runtime = db.runtime().clone();
    let run = move || {
        let end = runtime.block_on(async {
            let path = db.folder().join(cell.slot.to_string());
            match WorkerFolder::open(path).await {
                Ok(folder) => Worker::new(db, local, control, folder, cell).run().await,
                Err(error) => WorkerEnd::Failed(format!("its folder cannot be used: {error}")),
            }
        });
        // The slot's work may have been dropped.
        let _ = tell.send(end);
    };
    if let Err(error) = std::thread::Builder::new().name(name).spawn(run) {
        tracing::error!(%error, "cannot start a thread for a worker");
    }
    ended
}

/// Draws an id and writes the worker's cell, in one commit (H25).
async fn draw_worker(db: &Database, slot: u16) -> Result<WorkerCell, String> {
    let node = db.node().handle().ok_or("the node has not joined its cluster yet")?;
    let store = db.store();
    loop {
        let drawn = async {
            let wanted = store.sight().await?.wanted;
            Ok::<_, DbStoreError>((wanted, store.now().await?))
        };
        let (wanted, now) = match drawn.await {
            Ok((Some(wanted), now)) => (wanted, now),
            Ok((None, _)) => return Err("the database has no cell of wanted workers".into()),
            Err(error) => {
                tracing::debug!(database = db.name(), %error, "a worker cannot draw its id yet");
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
        };
        let (id, next) = wanted.draw_worker();
        let cell = WorkerCell {
            id,
            slot,
            node: node.id().to_owned(),
            incarnation: node.incarnation(),
            since: now,
            applied: DbPosition { era: 0, index: 0 },
            state: WorkerState::Loading,
        };
        let key = store.cells().worker(id);
        let expect = [
            Expect::Bytes(store.cells().wanted(), Some(wanted.encode())),
            Expect::Bytes(key.clone(), None),
        ];
        let operations = vec![
            Operation::Put { key: store.cells().wanted(), value: next.encode() },
            Operation::Put { key, value: cell.encode() },
        ];
        loop {
            match store.commit(expect.clone(), operations.clone()).await {
                CellsAnswer::Done => return Ok(cell),
                // Another worker drew an id, or the supervisor planned; after an unknown outcome it may be this
                // very draw, whose cell then stays behind without a worker.
                CellsAnswer::Stale => break,
                CellsAnswer::Unknown(_) | CellsAnswer::Failed(_) => {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
        remove_cell(db, id, |stored| *stored == cell).await;
    }
}

/// Removes the cell of a worker that has ended, if it is the one meant, so that others notice at once. While the
/// store cannot be reached it is tried again: the process lives, so the cell would pass for that of a live worker, and
/// nobody would replace it.
async fn remove_cell(db: &Database, id: u64, is_meant: impl Fn(&WorkerCell) -> bool) {
    while try_remove_cell(db, id, &is_meant).await.is_err() {
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    db.view().refresh();
}

async fn try_remove_cell(
    db: &Database,
    id: u64,
    is_meant: impl Fn(&WorkerCell) -> bool,
) -> Result<(), DbStoreError> {
    let key = db.store().cells().worker(id);
    let found = db.store().bytes(std::slice::from_ref(&key)).await?;
    let Some(stored) = found.into_iter().next().flatten() else { return Ok(()) };
    if !WorkerCell::decode(&stored).is_ok_and(|cell| is_meant(&cell)) {
        return Ok(());
    }
    let delete = Operation::Delete(Cell::new(Kind::Bytes, key.clone()));
    match db.store().commit([Expect::Bytes(key, Some(stored))], vec![delete]).await {
        CellsAnswer::Done => Ok(()),
        // It was written meanwhile, or deleted: the next look tells.
        CellsAnswer::Stale => Err(DbStoreError::Refused("the cell has changed".into())),
        CellsAnswer::Unknown(fault) | CellsAnswer::Failed(fault) => Err(fault.into()),
    }
}

impl WorkerControl {
    /// Waits until the worker is to end at once.
    async fn killed(&mut self) {
        // The sender lives as long as the worker.
        let _ = self.kill.wait_for(|kill| *kill).await;
    }

    /// Waits until the worker is to drain and end.
    async fn draining(&mut self) {
        let _ = self.drain.wait_for(|drain| *drain).await;
    }

    fn is_killed(&self) -> bool {
        *self.kill.borrow()
    }

    fn is_draining(&self) -> bool {
        *self.drain.borrow()
    }
}

impl Worker {
    fn new(
        db: Database,
        local: LocalWorker,
        control: WorkerControl,
        folder: WorkerFolder,
        cell: WorkerCell,
    ) -> Self {
        Worker {
            db,
            local,
            control,
            folder,
            cell,
            seen: None,
            yielded_until: None,
            failed_at: None,
        }
    }

    /// How long a leader tries to settle a commit before it stops: after the lease of its node, others may have
    /// taken the lead.
    fn lease(&self) -> Duration {
        self.db.node().handle().map_or(DEFAULT_LEASE, |node| node.lease())
    }

    /// Writes what has changed of the worker's cell. `false`: the cell is gone, so others take this worker for
    /// dead, and it must end.
    async fn write_cell(&mut self, applied: DbPosition, state: WorkerState) -> bool {
        let next = WorkerCell { applied, state, ..self.cell.clone() };
        self.local.say(|status| status.state = state);
        if next == self.cell {
            return true;
        }
        let key = self.db.store().cells().worker(self.cell.id);
        let expect = Expect::Bytes(key.clone(), Some(self.cell.encode()));
        let put = Operation::Put { key: key.clone(), value: next.encode() };
        match self.db.store().commit([expect], vec![put]).await {
            CellsAnswer::Done => {
                self.cell = next;
                true
            }
            CellsAnswer::Stale => match self.db.store().bytes(&[key]).await {
                // An attempt with an unknown outcome was applied.
                Ok(found) => match found.into_iter().next().flatten() {
                    Some(stored) => {
                        if let Ok(cell) = WorkerCell::decode(&stored) {
                            self.cell = cell;
                        }
                        true
                    }
                    None => false,
                },
                Err(_) => true,
            },
            // The next tick writes it again.
            CellsAnswer::Unknown(_) | CellsAnswer::Failed(_) => true,
        }
    }

    /// Takes a look at the head into account that began when `before` was known (H34).
    fn judge(&mut self, before: Option<LastSeen>, head: Option<&crate::head::DbHead>) -> HeadSight {
        let sight = match (before, head) {
            (Some(before), head) => before.judge(head),
            // Without a head there is no database yet.
            (None, None) => HeadSight::OtherHistory,
            (None, Some(_)) => HeadSight::Forward,
        };
        if let Some(head) = head
            && matches!(sight, HeadSight::Forward | HeadSight::Stopped)
        {
            let now = LastSeen::new(head);
            self.seen = Some(self.seen.map_or(now, |seen| seen.latest(now)));
        }
        sight
    }

    /// Stops the database: the store lost entries that it had acknowledged (H8). An operator decides how to go on.
    async fn stop_database(&mut self, found: &str) {
        let reason =
            format!("{found}; found by worker {} of node {}", self.cell.id, self.cell.node);
        tracing::error!(database = self.db.name(), %reason, "the database is stopped");
        while !self.control.is_killed() && !self.control.is_draining() {
            let Ok(Some(head)) = self.db.store().head().await else {
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            };
            // A head that is stopped already stays as it is.
            let Ok(stopped) = head.stopped(&reason) else { return };
            match self.db.store().replace_head(&head, &stopped).await {
                crate::write::commit::HeadAnswer::Ok => return,
                _ => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }
}
