//! Tables for the rules of the fold, each test named after its rule.

mod gaps;
mod halts;
mod keys;
mod lives;
mod numbers;
mod pieces;

use consort_kernel::Timestamp;

use super::{DocumentState, Effects, Fold, IncomingPiece, PieceOrigin, WordPlace};
use crate::cells::TenantCounter;
use crate::collection::{Collection, DocumentFormat};
use crate::stored::{
    Condition, DocumentTag, KeyOutcome, OutcomeKey, PieceOutcome, SourceNumber, WordAction,
};
use crate::{PieceForm, PiecePlace, PieceRecord, Reason};

/// A document to which pieces are sent.
struct Desk {
    collection: Collection,
    state: DocumentState,
    keys: Vec<(String, KeyOutcome)>,
    counts: [i64; 7],
    offset: u64,
    time: u64,
    /// What the last record did.
    last: Effects,
}

/// A piece to send. The content of a patch is chosen by each test.
#[derive(Clone, Copy)]
struct Sent<'a>(PieceRecord<'a>);

fn put(content: &str) -> Sent<'_> {
    Sent(PieceRecord {
        tenant: "t",
        id: "i",
        form: PieceForm::Whole,
        key: None,
        source: None,
        condition: None,
        wanted: true,
        content: content.as_bytes(),
    })
}

fn merge(content: &str) -> Sent<'_> {
    Sent(PieceRecord { form: PieceForm::MergePatch, ..put(content).0 })
}

fn patch(content: &str) -> Sent<'_> {
    Sent(PieceRecord { form: PieceForm::JsonPatch, ..put(content).0 })
}

fn delete() -> Sent<'static> {
    Sent(PieceRecord { form: PieceForm::Delete, ..put("").0 })
}

/// A piece that appends its number to the array `a`: the order of such pieces shows in the document.
fn number(seq: u64) -> Sent<'static> {
    const CONTENTS: [&str; 10] = [
        r#"[{"op":"add","path":"/a/-","value":0}]"#,
        r#"[{"op":"add","path":"/a/-","value":1}]"#,
        r#"[{"op":"add","path":"/a/-","value":2}]"#,
        r#"[{"op":"add","path":"/a/-","value":3}]"#,
        r#"[{"op":"add","path":"/a/-","value":4}]"#,
        r#"[{"op":"add","path":"/a/-","value":5}]"#,
        r#"[{"op":"add","path":"/a/-","value":6}]"#,
        r#"[{"op":"add","path":"/a/-","value":7}]"#,
        r#"[{"op":"add","path":"/a/-","value":8}]"#,
        r#"[{"op":"add","path":"/a/-","value":9}]"#,
    ];
    patch(CONTENTS[(seq % 10) as usize]).number("s", seq)
}

/// A piece that always fails when it is applied.
fn failing() -> Sent<'static> {
    patch(r#"[{"op":"remove","path":"/none"}]"#)
}

impl<'a> Sent<'a> {
    fn number(self, source: &'a str, seq: u64) -> Self {
        Sent(PieceRecord { source: Some(SourceNumber { source, seq }), ..self.0 })
    }

    fn key(self, key: &'a str) -> Self {
        Sent(PieceRecord { key: Some(key), ..self.0 })
    }

    fn given(self, condition: Condition) -> Self {
        Sent(PieceRecord { condition: Some(condition), ..self.0 })
    }
}

impl Desk {
    fn new() -> Self {
        Desk::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Collection)) -> Self {
        let mut collection = Collection::new("c", DocumentFormat::Json, 1);
        change(&mut collection);
        assert_eq!(collection.check(), Ok(()));
        Desk {
            collection,
            state: DocumentState::default(),
            keys: Vec::new(),
            counts: [0; 7],
            offset: 0,
            time: 1_000,
            last: Effects::default(),
        }
    }

    /// A desk whose document is `{"a": []}`.
    fn with_array(change: impl FnOnce(&mut Collection)) -> Self {
        let mut desk = Desk::with(change);
        desk.send(put(r#"{"a":[]}"#));
        desk
    }

    fn next_place(&mut self) -> PiecePlace {
        self.offset += 1;
        PiecePlace { partition: 0, era: 0, offset: self.offset, record: 0 }
    }

    /// Sends a piece, and gives its outcome.
    fn send(&mut self, sent: Sent<'_>) -> PieceOutcome {
        let place = self.next_place();
        let key = OutcomeKey { partition: 0, producer: 1, sequence: self.offset, record: 0 };
        let incoming = IncomingPiece {
            piece: sent.0,
            place,
            time: Timestamp(self.time),
            waiter: Some(key),
            origin: PieceOrigin::Log,
        };
        let own = self.keys.iter().filter(|(key, _)| Some(key.as_str()) == sent.0.key);
        let keys: Vec<KeyOutcome> = own.map(|(_, first)| first.clone()).collect();
        let fold = Fold::new(&self.collection, ("t", "i"), &mut self.state);
        let effects = fold.piece(&incoming, &keys);
        let outcomes: Vec<_> = effects.outcomes.iter().filter(|entry| entry.key == key).collect();
        assert_eq!(outcomes.len(), 1, "one record has one outcome");
        let outcome = outcomes[0].outcome.clone();
        self.record(effects);
        outcome
    }

    /// Appends a control word, and gives its outcome.
    fn say(&mut self, action: WordAction) -> Option<PieceOutcome> {
        let at = WordPlace { place: self.next_place(), time: Timestamp(self.time) };
        let key = OutcomeKey { partition: 0, producer: 1, sequence: self.offset, record: 0 };
        let fold = Fold::new(&self.collection, ("t", "i"), &mut self.state);
        let effects = fold.word(&action, at, Some(key));
        let outcome = effects.outcomes.first().map(|entry| entry.outcome.clone());
        self.record(effects);
        outcome
    }

    fn record(&mut self, effects: Effects) {
        for (count, by) in self.counts.iter_mut().zip(effects.counts) {
            *count += by;
        }
        for (key, first) in &effects.keys {
            self.keys.retain(|(known, old)| known != key || old.place != first.place);
            self.keys.push((key.clone(), first.clone()));
        }
        self.last = effects;
        let [received, rest @ ..] = self.counts;
        assert_eq!(received, rest[..5].iter().sum::<i64>(), "H33: {:?}", self.counts);
    }

    fn gap_is_over(&mut self, source: &str, number: u64) {
        self.say(WordAction::Gap { source: source.into(), number });
    }

    fn document(&self) -> Option<String> {
        let tree = self.state.tree.as_ref()?;
        Some(String::from_utf8(tree.to_bytes().to_vec()).unwrap())
    }

    fn count(&self, counter: TenantCounter) -> i64 {
        self.counts[counter as usize]
    }

    fn version(&self) -> u64 {
        self.state.head.version
    }

    /// The place of the piece or word that was sent last.
    fn last_place(&self) -> PiecePlace {
        PiecePlace { partition: 0, era: 0, offset: self.offset, record: 0 }
    }
}

/// The reason of a rejection.
fn reason(outcome: &PieceOutcome) -> Option<Reason> {
    match outcome {
        PieceOutcome::Rejected { reason, .. } => Some(*reason),
        _ => None,
    }
}

fn applied_version(outcome: &PieceOutcome) -> Option<u64> {
    match outcome {
        PieceOutcome::Applied(DocumentTag { version, .. }) => Some(*version),
        _ => None,
    }
}
