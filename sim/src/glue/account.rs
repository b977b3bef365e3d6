//! The account of a run: what the store holds, beside what the log says by the reference.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::Cells;
use consort_glue::part::PIPELINE;
use consort_glue::stored::{
    DocumentBody, DocumentFlow, DocumentHead, GlueRow, OutcomeEntry, PieceOutcome, RejectEntry,
};
use consort_glue::{CollectionCells, PiecePlace, TenantCounter};
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Change, Cursor, Key, Kind, LogEntry, Most, Name, Shard, Store as _, Value};

use super::FoldRule;
use super::reference::{Books, Document, End, Reference, Reject, Row, Told};
use super::stage::{GlueStage, PARTITIONS, partition};
use crate::outcome::Coverage;
use crate::world::{World, at_once};

/// What is known so far.
#[derive(Debug)]
pub(super) struct Account {
    stage: Arc<GlueStage>,
    broken: Option<FoldRule>,
    coverage: Coverage,
}

impl Account {
    pub(super) fn new(stage: Arc<GlueStage>, broken: Option<FoldRule>) -> Self {
        Account { stage, broken, coverage: Coverage::default() }
    }

    pub(super) fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }

    pub(super) fn rolled_back(&mut self) {
        self.coverage.add("shards rolled back", 1);
    }

    /// A partition whose log is not applied to its end.
    pub(super) fn unapplied(&self, world: &World) -> Option<String> {
        (0..PARTITIONS).find_map(|index| {
            let at = self.stage.partition(index);
            let last = world.entries(&at).ok()?.last()?.offset;
            let cells = Cells::new(&PIPELINE, &at, self.stage.shards);
            let checkpoint = at_once(cells.read_checkpoint(&*world.store));
            // A shard that was rolled back is behind the checkpoint until its mark has come there again.
            let shard = CollectionCells::shard(index, self.stage.shards);
            let mark = at_once(cells.read_mark(&*world.store, shard));
            let (Ok(checkpoint), Ok(mark)) = (checkpoint, mark) else {
                return Some(format!("{at}: its cells cannot be read"));
            };
            let left = checkpoint.marks.get(&shard.0).copied().unwrap_or_default();
            (checkpoint.stand.next <= last || mark.position() < left)
                .then(|| format!("{at} is at {} of {last}", checkpoint.stand.next))
        })
    }

    /// Compares everything.
    pub(super) fn check(&mut self, world: &World) -> Result<(), String> {
        let stage = Arc::clone(&self.stage);
        let reference = Reference { collection: &stage.collection, broken: self.broken };
        let stored = Stored::read(world, &stage)?;
        let mut counts: BTreeMap<(String, &'static str), i64> = BTreeMap::new();
        for index in 0..PARTITIONS {
            let at = stage.partition(index);
            let entries: Vec<LogEntry> = world.entries(&at).map_err(|error| error.to_string())?;
            let books = reference.fold(index, &entries);
            self.cover(&books);
            equal("rows", index, stored.rows.get(&index), &books.rows)?;
            equal("rejects", index, stored.rejects.get(&index), &books.rejects)?;
            equal("outcomes", index, stored.told.get(&index), &books.told)?;
            for (name, document) in &books.documents {
                stored.holds(name, document)?;
            }
            for (name, by) in books.counts {
                *counts.entry(name).or_default() += by;
            }
        }
        stored.counts_hold(counts)
    }

    fn cover(&mut self, books: &Books) {
        self.coverage.add("versions", books.rows.len() as u64);
        let deletes = books.rows.iter().filter(|row| row.form == "delete").count();
        self.coverage.add("deletes", deletes as u64);
        for reject in &books.rejects {
            self.coverage.add(&format!("rejected: {}", reject.reason), 1);
        }
        for told in &books.told {
            let end = match &told.end {
                End::Applied(..) => "applied",
                End::Unchanged => "unchanged",
                End::Rejected(_) => "rejected",
                End::Held => "held",
                End::Queued => "queued",
                End::Repeat => "repeat",
                End::Discarded => "discarded",
            };
            self.coverage.add(&format!("told: {end}"), 1);
            self.coverage.add("told again", told.repeat.into());
        }
        let halted = books.documents.values().filter(|document| document.is_halted()).count();
        self.coverage.add("documents halted at the end", halted as u64);
    }
}

/// Both must be the same, in the same order.
fn equal<T: PartialEq + Debug>(
    what: &str,
    partition: u32,
    stored: Option<&Vec<T>>,
    expected: &[T],
) -> Result<(), String> {
    let stored = stored.map(Vec::as_slice).unwrap_or_default();
    if stored == expected {
        return Ok(());
    }
    let at = stored.iter().zip(expected).take_while(|(one, other)| one == other).count();
    let (found, wanted) = (stored.get(at), expected.get(at));
    Err(format!(
        "the {what} of partition {partition} are not what the log says: {} instead of {}, at {at} {found:?} \
         instead of {wanted:?}",
        stored.len(),
        expected.len()
    ))
}

/// What the store holds.
#[derive(Debug, Default)]
struct Stored {
    heads: BTreeMap<(String, String), DocumentHead>,
    bodies: BTreeMap<(String, String), DocumentBody>,
    rows: BTreeMap<u32, Vec<Row>>,
    rejects: BTreeMap<u32, Vec<Reject>>,
    told: BTreeMap<u32, Vec<Told>>,
    counts: BTreeMap<(String, &'static str), i64>,
}

impl Stored {
    fn read(world: &World, stage: &GlueStage) -> Result<Self, String> {
        let mut stored = Stored::default();
        let cells = &stage.cells;
        for shard in (0..stage.shards).map(Shard) {
            for (key, value) in scan(world, shard, Kind::Bytes, cells.heads()) {
                let (Some(name), Value::Bytes(head)) = (cells.head_subject(&key), value) else {
                    return Err(format!("{key:?} is no head"));
                };
                let head = DocumentHead::decode(&head).map_err(|error| error.to_string())?;
                stored.body(world, stage, shard, &name)?;
                stored.heads.insert(name, head);
            }
            for (key, value) in scan(world, shard, Kind::Counter, cells.counts()) {
                let (Some((tenant, counter)), Value::Counter(count)) =
                    (cells.count_subject(&key), value)
                else {
                    return Err(format!("{key:?} is no counter"));
                };
                *stored.counts.entry((tenant, counter.as_str())).or_default() += count;
            }
            stored.feeds(world, stage, shard)?;
        }
        Ok(stored)
    }

    fn body(
        &mut self,
        world: &World,
        stage: &GlueStage,
        shard: Shard,
        name: &(String, String),
    ) -> Result<(), String> {
        let key = stage.cells.body(&name.0, &name.1);
        for (_, value) in scan(world, shard, Kind::Bytes, &key) {
            let Value::Bytes(body) = value else { return Err(format!("{key:?} is no body")) };
            let body = DocumentBody::decode(&body).map_err(|error| error.to_string())?;
            self.bodies.insert(name.clone(), body);
        }
        Ok(())
    }

    fn feeds(&mut self, world: &World, stage: &GlueStage, shard: Shard) -> Result<(), String> {
        let cells = &stage.cells;
        for entry in feed(world, shard, cells.feed())? {
            let change = Change::decode(&entry).map_err(|error| error.to_string())?;
            let row = GlueRow::from_change(&change).map_err(|error| error.to_string())?;
            let piece = row.piece.as_ref().map(|piece| serde_json::from_str(piece.get()));
            let row = Row {
                document: (row.tenant, row.id),
                life: row.life,
                version: row.version,
                was: row.was,
                form: row.form.to_string(),
                number: row.source.zip(row.seq),
                piece: piece.transpose().map_err(|error| error.to_string())?,
            };
            let index = partition(&row.document.0, &row.document.1);
            self.rows.entry(index).or_default().push(row);
        }
        for entry in feed(world, shard, cells.rejects())? {
            let entry = RejectEntry::decode(&entry).map_err(|error| error.to_string())?;
            let reject = Reject {
                document: (entry.tenant, entry.id),
                place: entry.place,
                version: entry.version,
                reason: entry.reason.to_string(),
                number: entry.source,
                missing_to: entry.missing_to,
            };
            let index = partition(&reject.document.0, &reject.document.1);
            self.rejects.entry(index).or_default().push(reject);
        }
        for entry in feed(world, shard, cells.outcomes())? {
            let entry = OutcomeEntry::decode(&entry).map_err(|error| error.to_string())?;
            let waiter = (entry.key.producer, entry.key.sequence, entry.key.record);
            let told = Told { waiter, repeat: entry.repeat, end: end(&entry.outcome) };
            self.told.entry(entry.key.partition).or_default().push(told);
        }
        Ok(())
    }

    /// A document is stored as the reference has it.
    fn holds(&self, name: &(String, String), document: &Document) -> Result<(), String> {
        let blank = DocumentHead::default();
        let head = self.heads.get(name).unwrap_or(&blank);
        let body = self.bodies.get(name).map(|body| {
            let content = serde_json::from_slice::<serde_json::Value>(&body.document).ok();
            (body.tag.life, body.tag.version, content)
        });
        let life: Option<PiecePlace> = document.life;
        let found = (head.version, head.life, head.flow == DocumentFlow::Halted, body);
        let content = document.content.clone();
        let body = life.zip(content).map(|(life, content)| (life, document.version, Some(content)));
        let wanted = (document.version, life, document.is_halted(), body);
        if found == wanted {
            return Ok(());
        }
        Err(format!("the document {name:?} is {found:?} and not {wanted:?}, which the log says"))
    }

    /// The counters are those of the reference, and every received piece is somewhere.
    fn counts_hold(&self, mut wanted: BTreeMap<(String, &'static str), i64>) -> Result<(), String> {
        for ((tenant, _), head) in &self.heads {
            let bytes = (tenant.clone(), TenantCounter::Bytes.as_str());
            *wanted.entry(bytes).or_default() += head.size as i64;
        }
        wanted.retain(|_, count| *count != 0);
        let mut found = self.counts.clone();
        found.retain(|_, count| *count != 0);
        if found != wanted {
            return Err(format!("the counters are {found:?} and not {wanted:?}"));
        }
        for ((tenant, name), received) in &found {
            let parts = &TenantCounter::ALL[1..6];
            let part = |one: &TenantCounter| found.get(&(tenant.clone(), one.as_str())).copied();
            let sum: i64 = parts.iter().filter_map(part).sum();
            if *name == TenantCounter::Received.as_str() && sum != *received {
                return Err(format!("{tenant} received {received} pieces, and {sum} are known"));
            }
        }
        Ok(())
    }
}

fn end(outcome: &PieceOutcome) -> End {
    match outcome {
        PieceOutcome::Applied(tag) => End::Applied(tag.life, tag.version),
        PieceOutcome::Unchanged => End::Unchanged,
        PieceOutcome::Rejected { reason, .. } => End::Rejected(reason.to_string()),
        PieceOutcome::Held(_) => End::Held,
        PieceOutcome::Queued => End::Queued,
        PieceOutcome::Repeat => End::Repeat,
        PieceOutcome::Discarded => End::Discarded,
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
