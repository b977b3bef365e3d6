//! One document of the reference: its content, the numbers it has seen, and the pieces that wait for it.

mod words;

use std::collections::{BTreeMap, BTreeSet};

use consort_glue::stored::Condition;
use consort_glue::{OnReject, PieceForm, PiecePlace, TenantCounter};
use serde_json::Value;

use super::{Books, End, Known, Piece, Reference, Reject, Row, Told};
use crate::glue::FoldRule;

/// Of more skipped ranges than these the two lowest become one (H2).
const RANGES: usize = 8;

/// As many pieces wait for a document at most.
const WAITING: usize = 256;

/// What is known of a document.
#[derive(Debug, Default)]
pub(in crate::glue) struct Document {
    pub(in crate::glue) life: Option<PiecePlace>,
    pub(in crate::glue) version: u64,
    pub(in crate::glue) content: Option<Value>,
    deleted: bool,
    sources: BTreeMap<String, Source>,
    held: Vec<Piece>,
    queue: Vec<Piece>,
    halt: Option<Halt>,
}

/// The numbers of a source.
#[derive(Clone, Debug, Default)]
struct Source {
    last: u64,
    outcome: Option<End>,
    /// Ranges that never came, ascending.
    skipped: Vec<(u64, u64)>,
    /// Used up ahead of their turn.
    ahead: BTreeSet<u64>,
}

impl Source {
    fn is_skipped(&self, seq: u64) -> bool {
        self.skipped.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }
}

/// The piece that stands in the way.
#[derive(Clone, Debug)]
enum Halt {
    /// It was rejected.
    Piece(Piece, String),
    /// It waits for a number of this source.
    Gap(Piece, String),
}

/// A document while a record is taken.
pub(in crate::glue) struct Work<'a> {
    pub(in crate::glue) rules: Reference<'a>,
    pub(in crate::glue) name: &'a (String, String),
    pub(in crate::glue) state: &'a mut Document,
    pub(in crate::glue) books: &'a mut Books,
}

/// Where a piece was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Log,
    Queue,
}

impl Document {
    pub(in crate::glue) fn is_halted(&self) -> bool {
        self.halt.is_some()
    }

    fn waiting(&self) -> usize {
        self.held.len() + self.queue.len() + usize::from(self.halt.is_some())
    }
}

impl Work<'_> {
    /// Takes a piece of the log.
    pub(in crate::glue) fn take(mut self, piece: Piece) {
        self.count(TenantCounter::Received, 1);
        let condition_first = !self.rules.keeps(FoldRule::RepeatBeforeCondition);
        if condition_first && piece.condition.is_some_and(|condition| !self.holds(condition)) {
            self.reject(&piece, Origin::Log, "condition-failed");
            return;
        }
        if self.repeats(&piece) {
            return;
        }
        let waits_for_it = match &self.state.halt {
            Some(Halt::Gap(_, source)) => {
                let next = self.state.sources.get(source).map_or(0, |source| source.last) + 1;
                piece.number.as_ref().is_some_and(|(name, seq)| name == source && *seq == next)
            }
            _ => false,
        };
        if waits_for_it {
            self.resume_gap();
            self.judge(piece, Origin::Log);
        } else if self.state.halt.is_some() && self.state.waiting() >= WAITING {
            self.reject(&piece, Origin::Log, "halted");
        } else if self.state.halt.is_some() && self.rules.keeps(FoldRule::HaltQueues) {
            self.count(TenantCounter::Queued, 1);
            self.remember(&piece, &End::Queued);
            self.tell(&piece, End::Queued, false);
            self.state.queue.push(piece);
        } else {
            self.judge(piece, Origin::Log);
        }
        self.release();
    }

    /// Whether the piece came before.
    fn repeats(&mut self, piece: &Piece) -> bool {
        if let Some(known) = self.known(piece) {
            if same(&known.piece, piece) {
                self.count(TenantCounter::Repeats, 1);
                self.tell(piece, known.end, true);
            } else {
                let keyless = Piece { key: None, ..piece.clone() };
                self.reject(&keyless, Origin::Log, "key-reused");
            }
            return true;
        }
        let Some((name, seq)) = piece.number.clone() else { return false };
        let end = if let Some(end) = self.waiting(&name, seq) {
            end
        } else {
            let late = self.rules.keeps(FoldRule::LateIsNoRepeat);
            let source = self.source(&name).clone();
            if source.ahead.contains(&seq) {
                End::Repeat
            } else if seq > source.last {
                return false;
            } else if source.is_skipped(seq) && late {
                self.reject(piece, Origin::Log, "late");
                return true;
            } else if seq == source.last {
                source.outcome.unwrap_or(End::Repeat)
            } else {
                End::Repeat
            }
        };
        self.count(TenantCounter::Repeats, 1);
        self.tell(piece, end, true);
        true
    }

    fn known(&self, piece: &Piece) -> Option<Known> {
        let known = self.books.keys.get(&self.key(piece.key.as_ref()?))?;
        let lifetime = self.rules.collection.ids_for.as_millis() as u64;
        let counts = |known: &&Known| known.piece.time.abs_diff(piece.time) <= lifetime;
        known.iter().filter(counts).max_by_key(|known| known.piece.place).cloned()
    }

    fn key(&self, key: &str) -> (String, String, String) {
        let (tenant, id) = self.name.clone();
        match self.rules.keeps(FoldRule::KeysAreOfOneDocument) {
            true => (tenant, id, key.to_owned()),
            false => (tenant, String::new(), key.to_owned()),
        }
    }

    /// Where the piece of this number waits.
    fn waiting(&self, name: &str, seq: u64) -> Option<End> {
        let is = |piece: &&Piece| piece.number.as_ref() == Some(&(name.to_owned(), seq));
        match &self.state.halt {
            Some(Halt::Piece(piece, reason)) if is(&piece) => {
                let last = self.state.sources.get(name).is_some_and(|source| source.last == seq);
                return Some(if last { End::Rejected(reason.clone()) } else { End::Queued });
            }
            Some(Halt::Gap(piece, _)) if is(&piece) => {
                let source = self.state.sources.get(name).filter(|source| source.last == seq);
                return Some(source.and_then(|one| one.outcome.clone()).unwrap_or(End::Queued));
            }
            _ => {}
        }
        let held = self.state.held.iter().find(is).map(|_| End::Held);
        held.or_else(|| self.state.queue.iter().find(is).map(|_| End::Queued))
    }

    /// A piece whose turn it is, unless a number before it is missing.
    fn judge(&mut self, piece: Piece, from: Origin) {
        if let Some((name, seq)) = piece.number.clone() {
            let last = self.source(&name).last;
            if seq <= last {
                return self.reject(&piece, from, "late");
            }
            if seq > last + 1 {
                self.move_from(from);
                self.count(TenantCounter::Held, 1);
                self.remember(&piece, &End::Held);
                self.tell(&piece, End::Held, false);
                self.state.held.push(piece);
                return;
            }
        }
        self.conclude(piece, from);
    }

    /// Tombstone, condition, apply.
    fn conclude(&mut self, piece: Piece, from: Origin) -> End {
        let end = self.decide(&piece);
        self.move_from(from);
        let counter = match (&end, &self.state.halt) {
            (End::Applied(..), _) => TenantCounter::Applied,
            (End::Unchanged, _) => TenantCounter::Repeats,
            (_, Some(Halt::Piece(halting, _))) if halting.place == piece.place => {
                TenantCounter::Queued
            }
            _ => TenantCounter::Rejected,
        };
        self.count(counter, 1);
        self.settle(&piece, &end);
        if let Some((name, _)) = &piece.number {
            self.make_ready(name);
        }
        end
    }

    fn decide(&mut self, piece: &Piece) -> End {
        let begins = match piece.form {
            PieceForm::Whole | PieceForm::Delete => true,
            PieceForm::MergePatch => self.rules.collection.revive,
            PieceForm::JsonPatch | PieceForm::XmlPatch => false,
        };
        if self.state.deleted && !begins {
            return self.list(piece, "deleted");
        }
        if piece.condition.is_some_and(|condition| !self.holds(condition)) {
            return self.list(piece, "condition-failed");
        }
        if piece.form == PieceForm::Delete && self.state.content.is_none() {
            return End::Unchanged;
        }
        match changed(self.state.content.clone(), piece) {
            Ok(content) => self.change(piece, content),
            Err(reason) => {
                let end = self.list(piece, &reason);
                if self.rules.collection.on_reject == OnReject::Halt {
                    self.state.halt = Some(Halt::Piece(piece.clone(), reason));
                }
                end
            }
        }
    }

    fn holds(&self, condition: Condition) -> bool {
        let tag = self.state.life.filter(|_| self.state.content.is_some());
        match condition {
            Condition::Exists => tag.is_some(),
            Condition::Absent => tag.is_none(),
            Condition::Is(wanted) => {
                tag == Some(wanted.life) && wanted.version == self.state.version
            }
        }
    }

    fn change(&mut self, piece: &Piece, content: Option<Value>) -> End {
        let mut was = self.state.version;
        if self.state.content.is_none() {
            self.state.life = Some(piece.place);
            if self.state.deleted && !self.rules.keeps(FoldRule::VersionsContinue) {
                was = 0;
            }
        }
        self.state.version = was + 1;
        self.state.deleted = content.is_none();
        if self.state.deleted && !self.rules.keeps(FoldRule::TombstoneKeepsNumbers) {
            self.state.sources.clear();
        }
        self.state.content = content;
        let life = self.state.life.unwrap_or(piece.place);
        self.books.rows.push(Row {
            document: self.name.clone(),
            life,
            version: self.state.version,
            was,
            form: piece.form.as_str().to_owned(),
            number: piece.number.clone(),
            piece: serde_json::from_slice(&piece.content).ok(),
        });
        End::Applied(life, self.state.version)
    }

    fn list(&mut self, piece: &Piece, reason: &str) -> End {
        self.books.rejects.push(Reject {
            document: self.name.clone(),
            place: piece.place,
            version: self.state.version,
            reason: reason.to_owned(),
            number: piece.number.clone(),
            missing_to: None,
        });
        End::Rejected(reason.to_owned())
    }

    /// Rejects a piece that was not tried.
    fn reject(&mut self, piece: &Piece, from: Origin, reason: &str) {
        let end = self.list(piece, reason);
        self.move_from(from);
        self.count(TenantCounter::Rejected, 1);
        self.settle(piece, &end);
    }

    fn settle(&mut self, piece: &Piece, end: &End) {
        let free =
            matches!(end, End::Rejected(_)) && !self.rules.keeps(FoldRule::RejectedUsesNumber);
        if let Some((name, seq)) = piece.number.clone().filter(|_| !free) {
            let source = self.source(&name);
            if seq > source.last + 1 {
                source.ahead.insert(seq);
            } else if seq >= source.last && !source.is_skipped(seq) {
                source.last = seq;
                source.outcome = Some(end.clone());
                pass_over(source);
            }
        }
        self.remember(piece, end);
        self.tell(piece, end.clone(), false);
    }

    fn remember(&mut self, piece: &Piece, end: &End) {
        let Some(key) = &piece.key else { return };
        let known = Known { piece: piece.clone(), end: end.clone() };
        let all = self.books.keys.entry(self.key(key)).or_default();
        all.retain(|other| other.piece.place != piece.place);
        all.push(known);
    }

    fn tell(&mut self, piece: &Piece, end: End, repeat: bool) {
        if let Some(waiter) = piece.waiter {
            self.books.told.push(Told { waiter, repeat, end });
        }
    }

    pub(in crate::glue) fn tell_word(&mut self, waiter: Option<(u64, u64, u32)>, end: End) {
        if let Some(waiter) = waiter {
            self.books.told.push(Told { waiter, repeat: false, end });
        }
    }

    /// The held piece whose number is next goes before all that is queued.
    fn make_ready(&mut self, name: &str) {
        if let Some(piece) = self.take_held(name) {
            self.count(TenantCounter::Held, -1);
            self.count(TenantCounter::Queued, 1);
            self.state.queue.insert(0, Piece { waiter: None, ..piece });
        }
    }

    fn take_held(&mut self, name: &str) -> Option<Piece> {
        let next = (name.to_owned(), self.source(name).last + 1);
        let held = &mut self.state.held;
        let at = held.iter().position(|piece| piece.number.as_ref() == Some(&next))?;
        Some(held.remove(at))
    }

    fn release(&mut self) {
        while self.state.halt.is_none() && !self.state.queue.is_empty() {
            let piece = Piece { waiter: None, ..self.state.queue.remove(0) };
            self.judge(piece, Origin::Queue);
        }
    }

    fn source(&mut self, name: &str) -> &mut Source {
        self.state.sources.entry(name.to_owned()).or_default()
    }

    fn move_from(&mut self, from: Origin) {
        if from == Origin::Queue {
            self.count(TenantCounter::Queued, -1);
        }
    }

    fn count(&mut self, counter: TenantCounter, by: i64) {
        self.books.count(&self.name.0, counter, by);
    }
}

/// Steps over the numbers that were used up ahead of their turn.
fn pass_over(source: &mut Source) {
    while source.ahead.remove(&(source.last + 1)) {
        source.last += 1;
        source.outcome = None;
    }
}

/// Whether a key stands for the same piece.
fn same(one: &Piece, other: &Piece) -> bool {
    one.form == other.form
        && one.number == other.number
        && one.condition == other.condition
        && one.content == other.content
}

/// The document after a piece: on a copy, by the crate for JSON Patch and a merge of its own.
fn changed(content: Option<Value>, piece: &Piece) -> Result<Option<Value>, String> {
    let parsed = || serde_json::from_slice::<Value>(&piece.content).map_err(|_| "malformed");
    match piece.form {
        PieceForm::Delete => Ok(None),
        PieceForm::Whole => Ok(Some(parsed()?)),
        PieceForm::MergePatch => {
            let mut merged = content.unwrap_or(Value::Null);
            merge(&mut merged, parsed()?);
            Ok(Some(merged))
        }
        PieceForm::JsonPatch => {
            let mut patched = content.ok_or("no-document")?;
            let patch: json_patch::Patch =
                serde_json::from_value(parsed()?).map_err(|_| "malformed")?;
            json_patch::patch(&mut patched, &patch).map_err(|error| match error.kind {
                json_patch::PatchErrorKind::TestFailed => "test-failed",
                _ => "missing-path",
            })?;
            Ok(Some(patched))
        }
        PieceForm::XmlPatch => Err("malformed".to_owned()),
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in members {
        if value.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}
