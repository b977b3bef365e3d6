//! The merger thread: makes one run of several, so that a set has few, and hands it to the writer.
//!
//! It reads what the writer has written, and changes nothing by itself. The writer puts the new run in the
//! place of the old ones if they are all still there, and otherwise forgets it: what came meanwhile is in
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

/// Runs that should be one.
#[derive(Debug)]
pub(super) struct Due {
    /// The set's row.
    pub(super) cell: Vec<u8>,
    pub(super) generation: u64,
    pub(super) runs: Vec<Run>,
}

/// One run of several, not written yet.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) due: Due,
    pub(super) blocks: Blocks,
}

/// The state of the thread.
pub(super) struct Merger {
    tables: Tables,
    queue: Arc<Queue>,
    poison: Poison,
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
        for due in waiting {
            match merge(&self.tables, due) {
                Ok(merged) => {
                    let size = merged.blocks.bytes();
                    let job = Job::Merged(merged);
                    if !futures::executor::block_on(self.queue.push(job, size)) {
                        return;
                    }
                }
                Err(error) => {
                    let reason = format!("the embedded engine stopped: {}", explain(&error));
                    self.poison.set(reason);
                    return;
                }
            }
        }
    }
}

/// Makes one run of several.
pub(super) fn merge(tables: &Tables, due: Due) -> fjall::Result<Merged> {
    let snapshot = tables.db.snapshot();
    let blocks = Merge::of(tables, &snapshot, due.generation, &due.runs, None)?.blocks()?;
    Ok(Merged { due, blocks })
}
