//! One document of the naive fold.

mod gaps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use consort_kernel::{Digest, Timestamp};
use serde_json::value::{RawValue, to_raw_value};

use super::{At, ReferenceFold, without_detail};
use crate::bounds::MAX_SOURCES;
use crate::collection::{Absent, DocumentFormat, FeedContent, OnReject};
use crate::json::JsonDocument;
use crate::stored::row::moment_of;
use crate::stored::{
    Condition, DocumentTag, GlueRow, OutcomeEntry, PieceOutcome, PieceRecord, RejectEntry,
    RejectedContent, RowForm, SourceNumber, WordAction,
};
use crate::xml::XmlDocument;
use crate::{PieceForm, PiecePlace, Reason, Rejection, TenantCounter};

/// A document as the naive fold has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReferenceDocument {
    /// The document, serialised; `None` if there is none.
    pub bytes: Option<Vec<u8>>,
    /// The place of the piece that created it, or the deleted one.
    pub life: Option<PiecePlace>,
    /// The number of changes applied.
    pub version: u64,
    /// The place of the piece that halts it.
    pub halted: Option<PiecePlace>,
    halting: Option<Halt>,
    /// Source and number of the piece that made the version.
    current: Option<(String, u64)>,
    sources: BTreeMap<String, Numbers>,
    held: BTreeMap<(String, u64), Waiting>,
    queue: VecDeque<Waiting>,
    keys: BTreeMap<String, Vec<Key>>,
    /// When the document's state changed last.
    changed: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
enum Halt {
    Piece(Waiting),
    /// The source whose next number is missing.
    Gap(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Numbers {
    used: BTreeMap<u64, PieceOutcome>,
    skipped: BTreeSet<u64>,
}

impl Numbers {
    fn next(&self) -> u64 {
        let open = |seq: &u64| !self.used.contains_key(seq) && !self.skipped.contains(seq);
        (1..).find(open).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Key {
    place: PiecePlace,
    time: Timestamp,
    digest: Digest,
    outcome: PieceOutcome,
}

/// A piece with its place, kept as long as it waits.
#[derive(Clone, Debug, PartialEq)]
struct Waiting {
    record: Vec<u8>,
    place: PiecePlace,
    time: Timestamp,
    /// The digest of the piece that its sender sent.
    digest: Digest,
}

impl Waiting {
    fn piece(&self) -> PieceRecord<'_> {
        PieceRecord::decode(&self.record).expect("it was encoded here")
    }

    fn number(&self) -> Option<(String, u64)> {
        self.piece().source.map(|number| (number.source.to_owned(), number.seq))
    }
}

/// A document while a record is applied to it.
pub(super) struct Subject<'a> {
    pub(super) fold: &'a mut ReferenceFold,
    pub(super) document: &'a mut ReferenceDocument,
    pub(super) tenant: &'a str,
    pub(super) id: &'a str,
}

impl Subject<'_> {
    pub(super) fn piece(&mut self, piece: &PieceRecord<'_>, at: At) {
        use TenantCounter::{Queued, Received, Rejected, Repeats};
        self.count(Received, 1);
        let (record, digest) = (piece.encode(), piece.digest());
        let waiting = Waiting { record, place: at.place, time: at.time, digest };
        if let Some(first) = self.known_key(&waiting) {
            if first.digest == digest {
                self.count(Repeats, 1);
                return self.tell(at, first.outcome, true);
            }
            let mut keyless = waiting.clone();
            keyless.record = PieceRecord { key: None, ..*piece }.encode();
            let outcome = self.list(&keyless, Reason::KEY_REUSED);
            if piece.source.is_some_and(|number| self.is_known(number)) {
                keyless.record = PieceRecord { key: None, source: None, ..*piece }.encode();
            }
            return self.end(&keyless, Rejected, outcome, at);
        }
        if let Some(number) = piece.source {
            if let Some(first) = self.known_number(number) {
                self.count(Repeats, 1);
                return self.tell(at, first, true);
            }
            let numbers = self.document.sources.get(number.source);
            if numbers.is_some_and(|numbers| numbers.skipped.contains(&number.seq)) {
                let outcome = self.list(&waiting, Reason::LATE);
                return self.end(&waiting, Rejected, outcome, at);
            }
        }
        if let Some(halt) = self.document.halting.clone() {
            let awaited = |number: SourceNumber<'_>| match &halt {
                Halt::Gap(source) => {
                    number.source == source && number.seq == self.next_number(source)
                }
                Halt::Piece(_) => false,
            };
            if !piece.source.is_some_and(awaited) {
                self.count(Queued, 1);
                self.remember(&waiting, &PieceOutcome::Queued);
                self.tell(at, PieceOutcome::Queued, false);
                self.document.changed = at.time;
                return self.document.queue.push_back(waiting);
            }
            self.unhalt_gap();
        }
        self.judge(waiting, None, at);
        self.drain(at.time);
    }

    pub(super) fn word(&mut self, action: &WordAction, at: At) {
        let refused = |reason, place| {
            PieceOutcome::rejected(&Rejection::new(reason, ""), place, self.document.version)
        };
        let outcome = match action {
            WordAction::Release => None,
            WordAction::Gap { source, number } => {
                let waits = self.document.held.keys().any(|(name, _)| name == source);
                let awaited = waits && self.next_number(source) == *number;
                if awaited && self.document.halting.is_none() {
                    self.end_gap(source, at);
                }
                None
            }
            WordAction::Forget { deadline } => {
                let tombstones = self.fold.collection.tombstones.as_millis() as u64;
                let document = &self.document;
                let idle = document.held.is_empty() && document.queue.is_empty();
                let gone = document.bytes.is_none() && document.halting.is_none() && idle;
                if gone && document.changed.0 + tombstones == *deadline {
                    let keys = std::mem::take(&mut self.document.keys);
                    *self.document = ReferenceDocument { keys, ..ReferenceDocument::default() };
                }
                None
            }
            WordAction::Retry { place, .. } | WordAction::Discard { place }
                if self.document.halted != Some(*place) =>
            {
                Some(refused(Reason::NOT_HALTED, *place))
            }
            WordAction::Retry { place, replacement } => match self.document.halting.clone() {
                Some(Halt::Piece(original)) => {
                    let mut waiting = original.clone();
                    if let Some(new) = replacement {
                        let (form, content) = (new.form, &new.content[..]);
                        waiting.record = PieceRecord { form, content, ..original.piece() }.encode();
                    }
                    (self.document.halted, self.document.halting) = (None, None);
                    let outcome = self.conclude(&waiting, Some(TenantCounter::Queued), at.time);
                    if let Some(Halt::Piece(halting)) = &mut self.document.halting {
                        *halting = original;
                    }
                    Some(outcome)
                }
                _ => Some(refused(Reason::GAP, *place)),
            },
            WordAction::Discard { .. } => {
                match self.document.halting.clone() {
                    Some(Halt::Gap(source)) => {
                        self.unhalt_gap();
                        self.skip(&source, at);
                        self.ready(&source);
                    }
                    _ => {
                        (self.document.halted, self.document.halting) = (None, None);
                        self.count(TenantCounter::Queued, -1);
                        self.count(TenantCounter::Rejected, 1);
                    }
                }
                self.document.changed = at.time;
                Some(PieceOutcome::Discarded)
            }
        };
        self.drain(at.time);
        if let Some(outcome) = outcome {
            self.tell(at, outcome, false);
        }
    }

    /// Applies queued pieces until none is left or one halts the document.
    fn drain(&mut self, time: Timestamp) {
        while self.document.halting.is_none() {
            let Some(waiting) = self.document.queue.pop_front() else { break };
            let at = At { place: waiting.place, time, waiter: None };
            self.judge(waiting, Some(TenantCounter::Queued), at);
        }
    }

    /// Gap, then the rest. `from` is the counter in which the piece stands until now; the state changes at `at.time`.
    fn judge(&mut self, waiting: Waiting, from: Option<TenantCounter>, at: At) {
        if let Some((source, seq)) = waiting.number() {
            let sources = &mut self.document.sources;
            if sources.len() == MAX_SOURCES && !sources.contains_key(&source) {
                let outcome = self.list(&waiting, Reason::TOO_MANY_SOURCES);
                self.leave(from);
                let nameless = PieceRecord { source: None, ..waiting.piece() }.encode();
                let nameless = Waiting { record: nameless, ..waiting };
                return self.end(&nameless, TenantCounter::Rejected, outcome, at);
            }
            let numbers = sources.entry(source.clone()).or_default();
            if numbers.skipped.contains(&seq) {
                let outcome = self.list(&waiting, Reason::LATE);
                self.leave(from);
                return self.end(&waiting, TenantCounter::Rejected, outcome, at);
            }
            if seq > numbers.next() {
                let missing = self.missing(&source, seq);
                let outcome = PieceOutcome::Held(missing);
                self.leave(from);
                self.count(TenantCounter::Held, 1);
                self.remember(&waiting, &outcome);
                self.tell(at, outcome, false);
                self.document.changed = at.time;
                self.document.held.insert((source, seq), waiting);
                return;
            }
        }
        let outcome = self.conclude(&waiting, from, at.time);
        self.tell(at, outcome, false);
    }

    /// Tombstone, condition, apply.
    fn conclude(
        &mut self,
        waiting: &Waiting,
        from: Option<TenantCounter>,
        time: Timestamp,
    ) -> PieceOutcome {
        let piece = waiting.piece();
        self.leave(from);
        let (counter, outcome) = match self.attempt(&piece) {
            Ok(None) if self.document.bytes.is_none() && piece.form == PieceForm::Delete => {
                (TenantCounter::Repeats, PieceOutcome::Unchanged)
            }
            Ok(after) => (TenantCounter::Applied, self.change(waiting, after)),
            Err((reason, tried)) => {
                let outcome = self.list(waiting, reason);
                if tried && self.fold.collection.on_reject == OnReject::Halt {
                    self.document.halted = Some(waiting.place);
                    self.document.halting = Some(Halt::Piece(waiting.clone()));
                    (TenantCounter::Queued, outcome)
                } else {
                    (TenantCounter::Rejected, outcome)
                }
            }
        };
        self.count(counter, 1);
        self.remember(waiting, &outcome);
        self.use_number(waiting, &outcome);
        self.document.changed = time;
        if let Some((source, _)) = waiting.number() {
            self.ready(&source);
        }
        outcome
    }

    /// The document after a piece, or the reason and whether the piece was tried.
    fn attempt(&self, piece: &PieceRecord<'_>) -> Result<Option<Vec<u8>>, (Reason, bool)> {
        let document = &self.document;
        let collection = &self.fold.collection;
        let live = document.bytes.is_some();
        let deleted = !live && document.life.is_some();
        let revives = deleted && piece.form == PieceForm::MergePatch && collection.revive;
        let may_begin = matches!(piece.form, PieceForm::Whole | PieceForm::Delete);
        if deleted && !may_begin && !revives {
            return Err((Reason::DELETED, false));
        }
        let tag = document.life.map(|life| DocumentTag { life, version: document.version });
        let holds = match piece.condition {
            None => true,
            Some(Condition::Exists) => live,
            Some(Condition::Absent) => !live,
            Some(Condition::Is(wanted)) => live && tag == Some(wanted),
        };
        if !holds {
            return Err((Reason::CONDITION_FAILED, false));
        }
        let creates = collection.absent == Absent::Create || revives;
        let from: Vec<u8> = match (piece.form, &document.bytes) {
            (PieceForm::Delete, _) => return Ok(None),
            (PieceForm::Whole, _) => Vec::new(),
            (_, Some(bytes)) => bytes.clone(),
            (PieceForm::MergePatch, None) if creates => b"null".to_vec(),
            (PieceForm::JsonPatch | PieceForm::XmlPatch, None) => match &collection.template {
                Some(template) => template.to_vec(),
                None => return Err((Reason::NO_DOCUMENT, true)),
            },
            (PieceForm::MergePatch, None) => return Err((Reason::NO_DOCUMENT, true)),
        };
        let after = patched(collection.format, &from, piece, collection.max_document);
        after.map(Some).map_err(|rejection| (rejection.reason, true))
    }

    fn change(&mut self, waiting: &Waiting, after: Option<Vec<u8>>) -> PieceOutcome {
        let piece = waiting.piece();
        let document = &mut *self.document;
        if document.bytes.is_none() {
            document.life = Some(waiting.place);
        }
        let was = document.version;
        document.version += 1;
        let size = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, |bytes| bytes.len() as i64);
        let grown = size(&after) - size(&document.bytes);
        document.bytes = after;
        document.current = waiting.number();
        let life = document.life.unwrap_or(waiting.place);
        let version = document.version;
        let format = self.fold.collection.format;
        let in_row = self.fold.collection.feed == FeedContent::Document;
        let stored = document.bytes.as_deref().filter(|_| in_row);
        let content = (piece.form != PieceForm::Delete).then_some(piece.content);
        self.fold.rows.push(GlueRow {
            collection: self.fold.collection.name.clone(),
            tenant: self.tenant.into(),
            id: self.id.into(),
            life,
            version,
            was,
            form: RowForm::Piece(piece.form),
            piece: content.map(|content| raw(format, content)),
            source: piece.source.map(|number| number.source.into()),
            seq: piece.source.map(|number| number.seq),
            time: moment_of(waiting.time),
            document: stored.map(|document| raw(format, document)),
            epoch: None,
        });
        self.count(TenantCounter::Bytes, grown);
        PieceOutcome::Applied(DocumentTag { life, version })
    }

    fn known_key(&self, waiting: &Waiting) -> Option<Key> {
        let lifetime = self.fold.collection.ids_for.as_millis() as u64;
        let keys = self.document.keys.get(waiting.piece().key?)?;
        let counts = |key: &&Key| key.time.0.abs_diff(waiting.time.0) <= lifetime;
        keys.iter().rev().find(counts).cloned()
    }

    fn remember(&mut self, waiting: &Waiting, outcome: &PieceOutcome) {
        let Some(name) = waiting.piece().key.map(str::to_owned) else { return };
        let keys = self.document.keys.entry(name).or_default();
        keys.retain(|key| key.place != waiting.place);
        let (place, time, digest) = (waiting.place, waiting.time, waiting.digest);
        keys.push(Key { place, time, digest, outcome: outcome.clone() });
        keys.sort_by_key(|key| key.place);
    }

    fn use_number(&mut self, waiting: &Waiting, outcome: &PieceOutcome) {
        let Some((source, seq)) = waiting.number() else { return };
        let numbers = self.document.sources.entry(source).or_default();
        let ahead = seq > numbers.next();
        if !numbers.skipped.contains(&seq) {
            // The outcome of a number that was used up ahead of its turn is not remembered.
            let outcome = if ahead { PieceOutcome::Repeat } else { outcome.clone() };
            numbers.used.insert(seq, outcome);
        }
    }

    fn end(&mut self, waiting: &Waiting, counter: TenantCounter, outcome: PieceOutcome, at: At) {
        self.document.changed = at.time;
        self.count(counter, 1);
        self.remember(waiting, &outcome);
        self.use_number(waiting, &outcome);
        self.tell(at, outcome, false);
    }

    fn list(&mut self, waiting: &Waiting, reason: Reason) -> PieceOutcome {
        let (piece, version) = (waiting.piece(), self.document.version);
        let rejection = Rejection::new(reason, "");
        let mut entry = RejectEntry::new(&piece, waiting.place, waiting.time, version, &rejection);
        if piece.digest() != waiting.digest && matches!(entry.content, RejectedContent::InLog(_)) {
            entry.content = RejectedContent::None;
        }
        self.fold.rejects.push(entry);
        let detail = String::new();
        let failed = reason == Reason::CONDITION_FAILED;
        let current = self.document.current.clone().filter(|_| failed);
        PieceOutcome::Rejected { reason, detail, place: waiting.place, version, current }
    }

    fn leave(&mut self, from: Option<TenantCounter>) {
        if let Some(counter) = from {
            self.count(counter, -1);
        }
    }

    fn count(&mut self, counter: TenantCounter, by: i64) {
        *self.fold.counters.entry((self.tenant.into(), counter)).or_default() += by;
    }

    fn tell(&mut self, at: At, outcome: PieceOutcome, repeat: bool) {
        if let Some(key) = at.waiter {
            let outcome = without_detail(outcome);
            self.fold.outcomes.push(OutcomeEntry { key, place: at.place, repeat, outcome });
        }
    }
}

/// The document that a piece makes of another, by the formats' cores.
fn patched(
    format: DocumentFormat,
    from: &[u8],
    piece: &PieceRecord<'_>,
    max_document: usize,
) -> Result<Vec<u8>, Rejection> {
    let whole = piece.form == PieceForm::Whole;
    let start = if whole { piece.content } else { from };
    let (bytes, size) = match format {
        DocumentFormat::Json => {
            let mut document = JsonDocument::parse(start)?;
            if !whole {
                document.apply(piece.form, piece.content, max_document)?;
            }
            (document.to_bytes(), document.size())
        }
        DocumentFormat::Xml => {
            let mut document = XmlDocument::parse(start)?;
            if !whole {
                document.apply(piece.form, piece.content, max_document)?;
            }
            (document.to_bytes(), document.size())
        }
    };
    if size > max_document {
        return Err(Rejection::new(Reason::TOO_LARGE, ""));
    }
    Ok(bytes.to_vec())
}

fn raw(format: DocumentFormat, content: &[u8]) -> Box<RawValue> {
    let text = String::from_utf8_lossy(content).into_owned();
    let value = match format {
        DocumentFormat::Json => RawValue::from_string(text),
        DocumentFormat::Xml => to_raw_value(&text),
    };
    value.expect("an applied piece is JSON, or a text")
}
