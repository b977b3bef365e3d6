//! The merger thread: makes one run of several, so that a set has few, and hands it to the writer.
//!
//! It reads what the writer has written, and changes nothing by itself. A run may be large, so it is written
//! piece by piece, and lies in a grave until it is whole: should the process end, or the set be deleted
//! meanwhile, its pieces are cleared away like those of any run that nobody needs. With the last piece the
//! writer puts the run in the place of the old ones, if they are all still there. What came meanwhile is in
//! other runs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use consort_kernel::Poison;

use super::queue::{Job, Queue};
use super::runs::{Blocks, Merge};
use super::sets::Run;
use super::tables::{Tables, explain};

/// Sets that may wait for their turn. One that finds no room is asked about when it grows again.
const WAITING_SETS: usize = 1_024;

/// Bytes of a piece: an append may have to wait a few milliseconds behind it.
const PIECE_BYTES: usize = 1024 * 1024;

/// Runs that should be one.
#[derive(Clone, Debug)]
pub(super) struct Due {
    /// The set's row.
    pub(super) cell: Vec<u8>,
    pub(super) generation: u64,
    pub(super) runs: Vec<Run>,
    /// The number of the run that they become.
    pub(super) number: u64,
}

/// A part of a run that is made of several.
#[derive(Debug)]
pub(super) struct Piece {
    /// Blocks with their rows.
    pub(super) rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// With the last piece: what was merged, and what came of it.
    pub(super) whole: Option<(Due, Run)>,
}

/// The state of the thread.
pub(super) struct Merger {
    tables: Tables,
    queue: Arc<Queue>,
    poison: Poison,
}

impl Drop for Merger {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.poison.set("the embedded engine's merger panicked");
        }
    }
}

impl Merger {
    pub(super) fn new(tables: Tables, queue: Arc<Queue>, poison: Poison) -> Self {
        Merger { tables, queue, poison }
    }

    /// Starts it; it ends when all senders are gone, or the queue is closed.
    pub(super) fn start(self) -> std::io::Result<(SyncSender<Due>, JoinHandle<()>)> {
        let (sender, waiting) = sync_channel(WAITING_SETS);
        let thread = std::thread::Builder::new().name("consort-merger".into());
        Ok((sender, thread.spawn(move || self.run(&waiting))?))
    }

    fn run(self, waiting: &Receiver<Due>) {
        let mut write = |piece: Piece| {
            let size = piece.rows.iter().map(|(_, block)| block.len()).sum();
            futures::executor::block_on(self.queue.push(Job::Piece(piece), size))
        };
        for due in waiting {
            match merge(&self.tables, due, PIECE_BYTES, &mut write) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let reason = format!("the embedded engine stopped: {}", explain(&error));
                    self.poison.set(reason);
                    return;
                }
            }
        }
    }
}

/// Makes one run of several, in pieces of so many bytes. False if `write` took one no more.
pub(super) fn merge(
    tables: &Tables,
    due: Due,
    piece_bytes: usize,
    write: &mut impl FnMut(Piece) -> bool,
) -> fjall::Result<bool> {
    let snapshot = tables.db.snapshot();
    let mut merge = Merge::of(tables, &snapshot, due.generation, &due.runs, None)?;
    let mut blocks = Blocks::new(due.generation, due.number);
    while let Some(member) = merge.next()? {
        if blocks.held() >= piece_bytes && !write(Piece { rows: blocks.take(), whole: None }) {
            return Ok(false);
        }
        blocks.push(member);
    }
    let (rows, run) = (blocks.take(), blocks.run());
    Ok(write(Piece { rows, whole: Some((due, run)) }))
}
