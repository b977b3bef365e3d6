//! Clearing away, in small steps between batches: expired cells, members of deleted sets, and trimmed
//! entries. Nothing here changes what a reader sees; it only frees space.

use std::collections::VecDeque;

use consort_kernel::{Kind, Timestamp};

use super::batch::Memory;
use super::cell::Row;
use super::rows;
use super::tables::Tables;

/// Rows cleared in one step: it bounds how long an append may have to wait behind it.
const STEP_ROWS: usize = 500;

/// Trimmed entries that are still to be removed.
#[derive(Debug, Default)]
pub(super) struct Trims(VecDeque<Trim>);

#[derive(Debug)]
struct Trim {
    log: bool,
    prefix: Vec<u8>,
    before: u64,
}

impl Trims {
    pub(super) fn push(&mut self, log: bool, prefix: Vec<u8>, before: u64) {
        self.0.push_back(Trim { log, prefix, before });
    }
}

/// One step. True if there is more to do at once.
pub(super) fn step(
    tables: &Tables,
    memory: &mut Memory,
    trims: &mut Trims,
    now: Timestamp,
) -> fjall::Result<bool> {
    let mut write = tables.db.batch();
    let mut left = STEP_ROWS;
    expired(tables, memory, &mut write, &mut left, now)?;
    buried(tables, &mut write, &mut left)?;
    trimmed(tables, trims, &mut write, &mut left)?;
    // No fsync: what is cleared twice is cleared.
    write.commit()?;
    Ok(left == 0)
}

fn expired(
    tables: &Tables,
    memory: &mut Memory,
    write: &mut fjall::OwnedWriteBatch,
    left: &mut usize,
    now: Timestamp,
) -> fjall::Result<()> {
    let due = ..=rows::expiry(now.0, &[0xFF]);
    for row in tables.expiries.range(due).take(*left) {
        *left -= 1;
        let row = row.key()?;
        let cell = &row[size_of::<u64>()..];
        write.remove(&tables.expiries, row.clone());
        // The cell may have been put again since, with another expiry or none.
        let Some(held) = tables.cells.get(cell)?.map(Row::stored) else { continue };
        if held.expired(now) {
            write.remove(&tables.cells, cell);
            if cell.get(rows::KIND_BYTES - 1) == Some(&Kind::Set.code()) {
                write.insert(&tables.graves, held.as_set().generation.to_be_bytes(), b"");
            }
            memory.cache.remember(cell.into(), None);
        }
    }
    Ok(())
}

fn buried(
    tables: &Tables,
    write: &mut fjall::OwnedWriteBatch,
    left: &mut usize,
) -> fjall::Result<()> {
    for grave in tables.graves.iter() {
        let grave = grave.key()?;
        for member in tables.members.prefix(&grave).take(*left) {
            *left -= 1;
            write.remove(&tables.members, member.key()?);
        }
        // With no row left over there may be more members: the grave stays for the next step.
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        write.remove(&tables.graves, grave);
    }
    Ok(())
}

fn trimmed(
    tables: &Tables,
    trims: &mut Trims,
    write: &mut fjall::OwnedWriteBatch,
    left: &mut usize,
) -> fjall::Result<()> {
    while let Some(trim) = trims.0.front() {
        let table = if trim.log { &tables.log } else { &tables.feeds };
        let range = rows::entry(&trim.prefix, 0)..rows::entry(&trim.prefix, trim.before);
        for row in table.range(range).take(*left) {
            *left -= 1;
            write.remove(table, row.key()?);
        }
        if *left == 0 {
            return Ok(());
        }
        trims.0.pop_front();
    }
    Ok(())
}
