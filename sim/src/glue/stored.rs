//! What the store holds of the collection of a run, in the terms of the naive fold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use consort_glue::TenantCounter;
use consort_glue::reference::{ReferenceFold, without_detail};
use consort_glue::stored::{
    DocumentBody, DocumentHead, GlueRow, OutcomeEntry, PieceOutcome, RejectEntry,
};
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Change, Cursor, Key, Kind, Most, Name, Shard, Store as _, Value};

use super::stage::{GlueStage, partition};
use crate::world::{World, at_once};

/// Tenant and id.
type Subject = (String, String);

/// What the store holds. Feeds are by partition.
#[derive(Debug, Default)]
pub(super) struct Stored {
    heads: BTreeMap<Subject, DocumentHead>,
    bodies: BTreeMap<Subject, DocumentBody>,
    /// Rows without their epochs.
    pub(super) rows: BTreeMap<u32, Vec<GlueRow>>,
    /// Rejects without details.
    pub(super) rejects: BTreeMap<u32, Vec<RejectEntry>>,
    /// Outcomes without details.
    pub(super) outcomes: BTreeMap<u32, Vec<OutcomeEntry>>,
    /// The counters that are not zero.
    counts: BTreeMap<(String, TenantCounter), i64>,
}

impl Stored {
    pub(super) fn read(world: &World, stage: &GlueStage) -> Result<Self, String> {
        let mut stored = Stored::default();
        for shard in (0..stage.shards).map(Shard) {
            stored.documents(world, stage, shard)?;
            stored.counters(world, stage, shard)?;
            stored.feeds(world, stage, shard)?;
        }
        stored.counts.retain(|_, count| *count != 0);
        Ok(stored)
    }

    fn documents(&mut self, world: &World, stage: &GlueStage, shard: Shard) -> Result<(), String> {
        let cells = &stage.cells;
        for (key, value) in scan(world, shard, Kind::Bytes, cells.heads()) {
            let (Some(name), Value::Bytes(head)) = (cells.head_subject(&key), value) else {
                return Err(format!("{key:?} is no head"));
            };
            let head = DocumentHead::decode(&head).map_err(|error| error.to_string())?;
            let key = cells.body(&name.0, &name.1);
            for (_, value) in scan(world, shard, Kind::Bytes, &key) {
                let Value::Bytes(body) = value else { return Err(format!("{key:?} is no body")) };
                let body = DocumentBody::decode(&body).map_err(|error| error.to_string())?;
                self.bodies.insert(name.clone(), body);
            }
            self.heads.insert(name, head);
        }
        Ok(())
    }

    fn counters(&mut self, world: &World, stage: &GlueStage, shard: Shard) -> Result<(), String> {
        for (key, value) in scan(world, shard, Kind::Counter, stage.cells.counts()) {
            let (Some(name), Value::Counter(count)) = (stage.cells.count_subject(&key), value)
            else {
                return Err(format!("{key:?} is no counter"));
            };
            *self.counts.entry(name).or_default() += count;
        }
        Ok(())
    }

    fn feeds(&mut self, world: &World, stage: &GlueStage, shard: Shard) -> Result<(), String> {
        let cells = &stage.cells;
        for entry in feed(world, shard, cells.feed())? {
            let change = Change::decode(&entry).map_err(|error| error.to_string())?;
            let mut row = GlueRow::from_change(&change).map_err(|error| error.to_string())?;
            if row.epoch.take().is_none() {
                return Err(format!("a row does not name the epoch of its owner: {row:?}"));
            }
            self.rows.entry(partition(&row.tenant, &row.id)).or_default().push(row);
        }
        for entry in feed(world, shard, cells.rejects())? {
            let mut entry = RejectEntry::decode(&entry).map_err(|error| error.to_string())?;
            entry.detail.clear();
            self.rejects.entry(partition(&entry.tenant, &entry.id)).or_default().push(entry);
        }
        for entry in feed(world, shard, cells.outcomes())? {
            let mut entry = OutcomeEntry::decode(&entry).map_err(|error| error.to_string())?;
            let outcome = std::mem::replace(&mut entry.outcome, PieceOutcome::Repeat);
            entry.outcome = without_detail(outcome);
            self.outcomes.entry(entry.key.partition).or_default().push(entry);
        }
        Ok(())
    }

    /// The documents of a partition are stored as the naive fold has them.
    pub(super) fn documents_hold(
        &self,
        index: u32,
        reference: &ReferenceFold,
    ) -> Result<(), String> {
        let here = |name: &&Subject| partition(&name.0, &name.1) == index;
        let stored = self.heads.keys().filter(here);
        let names: BTreeSet<&Subject> = stored.chain(reference.documents.keys()).collect();
        for name in names {
            let head = self.heads.get(name).cloned().unwrap_or_default();
            let body = self.bodies.get(name);
            let content = body.map(|body| String::from_utf8_lossy(&body.document).into_owned());
            let halting = head.halting.map(|halting| halting.place);
            let found = (head.version, head.life, halting, content);
            let document = reference.documents.get(name).cloned().unwrap_or_default();
            let content = document.bytes.as_deref();
            let content = content.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let wanted = (document.version, document.life, document.halted, content);
            if found != wanted {
                return Err(format!(
                    "the document {name:?} is {found:?}, and the log says {wanted:?}"
                ));
            }
            if body.is_some_and(|body| Some(body.tag) != head.tag()) {
                return Err(format!("the body of {name:?} is not of its head's version"));
            }
        }
        Ok(())
    }

    /// The counters are those of the naive fold, and every received piece is somewhere.
    pub(super) fn counts_hold(
        &self,
        wanted: &BTreeMap<(String, TenantCounter), i64>,
    ) -> Result<(), String> {
        let found = &self.counts;
        if !found.iter().eq(wanted.iter().filter(|(_, count)| **count != 0)) {
            return Err(format!("the counters are {found:?} and not {wanted:?}"));
        }
        for ((tenant, counter), received) in found {
            let parts = &TenantCounter::ALL[1..6];
            let part = |one: &TenantCounter| found.get(&(tenant.clone(), *one)).copied();
            let sum: i64 = parts.iter().filter_map(part).sum();
            if *counter == TenantCounter::Received && sum != *received {
                return Err(format!("{tenant} received {received} pieces, and {sum} are known"));
            }
        }
        Ok(())
    }
}

fn scan(world: &World, shard: Shard, kind: Kind, prefix: &Key) -> Vec<(Key, Value)> {
    let mut rows: Vec<(Key, Value)> = Vec::new();
    loop {
        let after = rows.last().map(|(key, _)| key.clone());
        match at_once(world.store.scan(shard, kind, prefix, after.as_ref(), PAGE_ROWS)) {
            Ok(page) if !page.is_empty() => rows.extend(page),
            _ => return rows,
        }
    }
}

fn feed(world: &World, shard: Shard, name: &Name) -> Result<Vec<Bytes>, String> {
    let (mut entries, mut cursor) = (Vec::new(), Cursor::START);
    loop {
        let read = world.store.feed(shard, name, &cursor, Most::default(), Duration::ZERO);
        let page = at_once(read).map_err(|error| error.to_string())?;
        let Some(last) = page.last() else { return Ok(entries) };
        cursor = last.cursor();
        entries.extend(page.into_iter().map(|entry| entry.entry));
    }
}
