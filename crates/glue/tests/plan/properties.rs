//! Any pieces and words, in any frames, with memory dropped at any time, do to a collection what the naive fold says.

use std::collections::BTreeMap;

use consort_glue::reference::{ReferenceFold, without_detail};
use consort_glue::stored::word::Replacement;
use consort_glue::stored::{Condition, DocumentTag, PieceOutcome, RejectEntry, WordAction};
use consort_glue::{
    Absent, Collection, DocumentFormat, FeedContent, OnGap, OnReject, PieceForm, PiecePlace,
    TenantCounter,
};
use proptest::prelude::*;

use crate::stage::{OwnedPiece, PARTITION, Stage, partition, plan};

const TENANTS: [&str; 2] = ["a", "b"];
const IDS: [&str; 2] = ["i", "j"];
const SOURCES: [&str; 2] = ["s", "t"];

/// JSON pieces, most of which do not commute.
const JSON: [(PieceForm, &str); 14] = [
    (PieceForm::Whole, r#"{"a":[],"n":0}"#),
    (PieceForm::Whole, "[1, 2]"),
    (PieceForm::Delete, ""),
    (PieceForm::MergePatch, r#"{"m":1.50}"#),
    (PieceForm::MergePatch, r#"{"m":null,"a":[0]}"#),
    (PieceForm::MergePatch, r#"{"o":{"p":"0123456789"}}"#),
    (PieceForm::JsonPatch, r#"[{"op":"add","path":"/a/0","value":1}]"#),
    (PieceForm::JsonPatch, r#"[{"op":"add","path":"/a/-","value":2}]"#),
    (PieceForm::JsonPatch, r#"[{"op":"add","path":"/a/0","value":3},{"op":"remove","path":"/x"}]"#),
    (PieceForm::JsonPatch, r#"[{"op":"move","from":"/a/0","path":"/n"}]"#),
    (PieceForm::JsonPatch, r#"[{"op":"remove","path":"/a/0"}]"#),
    (PieceForm::JsonPatch, r#"[{"op":"test","path":"/n","value":0}]"#),
    (PieceForm::JsonPatch, r#"[{"op":"copy","from":"","path":"/c"}]"#),
    (PieceForm::XmlPatch, "<d/>"),
];

const XML: [(PieceForm, &str); 7] = [
    (PieceForm::Whole, "<r><a/></r>"),
    (PieceForm::Whole, "<r b=\"1\">t</r>"),
    (PieceForm::Delete, ""),
    (PieceForm::XmlPatch, "<d><add sel=\"r\"><b/></add></d>"),
    (PieceForm::XmlPatch, "<d><add sel=\"r\" pos=\"prepend\"><c/></add></d>"),
    (PieceForm::XmlPatch, "<d><remove sel=\"r/a\"/></d>"),
    (PieceForm::XmlPatch, "<d><add sel=\"r\"><e/></add><remove sel=\"r/none\"/></d>"),
];

#[derive(Clone, Debug)]
enum Act {
    Piece {
        subject: usize,
        content: usize,
        key: Option<u8>,
        number: Option<(usize, u64)>,
        condition: u8,
    },
    Gap {
        subject: usize,
        source: usize,
        number: u64,
    },
    Retry {
        subject: usize,
        replacement: Option<usize>,
        wrong: bool,
    },
    Discard {
        subject: usize,
        wrong: bool,
    },
    Release {
        subject: usize,
    },
    Forget {
        subject: usize,
    },
    Pass(u64),
    TakeOver,
}

fn act() -> impl Strategy<Value = Act> {
    let subject = 0..4usize;
    let number = prop_oneof![
        2 => Just(None),
        3 => (0..2usize, 1..12u64).prop_map(Some),
    ];
    let key = prop_oneof![4 => Just(None), 1 => (0..3u8).prop_map(Some)];
    let condition = prop_oneof![4 => Just(0u8), 1 => 1..5u8];
    prop_oneof![
        14 => (subject.clone(), 0..14usize, key, number, condition).prop_map(
            |(subject, content, key, number, condition)| Act::Piece { subject, content, key, number, condition }
        ),
        3 => (subject.clone(), 0..2usize, 1..12u64)
            .prop_map(|(subject, source, number)| Act::Gap { subject, source, number }),
        2 => (subject.clone(), prop::option::of(0..14usize), prop::bool::weighted(0.1))
            .prop_map(|(subject, replacement, wrong)| Act::Retry { subject, replacement, wrong }),
        2 => (subject.clone(), prop::bool::weighted(0.1))
            .prop_map(|(subject, wrong)| Act::Discard { subject, wrong }),
        1 => subject.clone().prop_map(|subject| Act::Release { subject }),
        1 => subject.prop_map(|subject| Act::Forget { subject }),
        1 => prop_oneof![Just(1u64), Just(900), Just(3_000)].prop_map(Act::Pass),
        1 => Just(Act::TakeOver),
    ]
}

fn collection() -> impl Strategy<Value = Collection> {
    let gap = prop_oneof![Just(OnGap::Skip), Just(OnGap::Reject), Just(OnGap::Halt)];
    (any::<[bool; 6]>(), gap, 0..3u32).prop_map(|(flags, on_gap, history)| {
        let [xml, halt, revive, reject, template, documents] = flags;
        let format = if xml { DocumentFormat::Xml } else { DocumentFormat::Json };
        let mut collection = Collection::new("c", format, 8);
        collection.on_gap = on_gap;
        collection.on_reject = if halt { OnReject::Halt } else { OnReject::Skip };
        collection.revive = revive;
        collection.absent = if reject { Absent::Reject } else { Absent::Create };
        let text = if xml { "<r/>" } else { r#"{"a":[9]}"# };
        collection.template = template.then(|| text.into());
        collection.feed = if documents { FeedContent::Document } else { FeedContent::Pieces };
        collection.max_document = 60;
        collection.history = history;
        collection.ids_for = std::time::Duration::from_millis(1_000);
        collection.retain = std::time::Duration::from_millis(1_000);
        collection.tombstones = std::time::Duration::from_millis(2_000);
        collection
    })
}

fn subject(index: usize) -> (&'static str, &'static str) {
    (TENANTS[index / 2], IDS[index % 2])
}

/// A condition, some of which hold.
fn condition(stage: &Stage<'_>, index: usize, choice: u8) -> Option<Condition> {
    let (tenant, id) = subject(index);
    let tag = stage.head(tenant, id).and_then(|head| head.tag());
    let older = tag.map(|tag| DocumentTag { version: tag.version - 1, ..tag });
    match choice {
        1 => Some(Condition::Exists),
        2 => Some(Condition::Absent),
        3 => tag.map(Condition::Is),
        4 => older.map(Condition::Is),
        _ => None,
    }
}

fn halting(reference: &ReferenceFold, index: usize, wrong: bool) -> PiecePlace {
    let (tenant, id) = subject(index);
    let document = reference.documents.get(&(tenant.into(), id.into()));
    let halted = document.and_then(|document| document.halted).filter(|_| !wrong);
    halted.unwrap_or(PiecePlace { partition: 0, era: 0, offset: 0, record: 0 })
}

/// Runs the acts through the plan, in frames of these sizes, and through the naive fold, and compares all results.
fn compare(collection: &Collection, acts: &[Act], sizes: &[usize], cache: usize) {
    let plan = plan(collection.clone(), cache);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    let mut reference = ReferenceFold::new(collection.clone());
    let mut sizes = sizes.iter().cycle();
    let (mut epoch, mut frame) = (1, Vec::new());
    let mut size = *sizes.next().unwrap();
    for act in acts {
        if let Act::Piece { subject: index, content, key, number, condition: choice } = act {
            frame.push(piece(collection, &stage, *index, *content, *key, *number, *choice));
            if frame.len() < size {
                continue;
            }
        }
        size = *sizes.next().unwrap();
        flush(&mut stage, &mut reference, &mut frame);
        let entry = match act {
            Act::Piece { .. } => continue,
            Act::Pass(millis) => {
                stage.time += millis;
                continue;
            }
            Act::TakeOver => {
                epoch += 1;
                stage.rehearsal.take_over(epoch);
                continue;
            }
            Act::Gap { subject: index, source, number } => {
                let source = SOURCES[*source].to_owned();
                word(&mut stage, *index, WordAction::Gap { source, number: *number })
            }
            Act::Retry { subject: index, replacement, wrong } => {
                let contents = contents(collection);
                let replacement = replacement.map(|content| {
                    let (form, content) = contents[content % contents.len()];
                    Replacement { form, content: content.into() }
                });
                let place = halting(&reference, *index, *wrong);
                word(&mut stage, *index, WordAction::Retry { place, replacement })
            }
            Act::Discard { subject: index, wrong } => {
                let place = halting(&reference, *index, *wrong);
                word(&mut stage, *index, WordAction::Discard { place })
            }
            Act::Release { subject: index } => word(&mut stage, *index, WordAction::Release),
            Act::Forget { subject: index } => {
                let (tenant, id) = subject(*index);
                let head = stage.head(tenant, id);
                let deadline = head.and_then(|head| head.deadline).unwrap_or_default();
                word(&mut stage, *index, WordAction::forget(deadline))
            }
        };
        stage.apply(&entry);
        reference.take(PARTITION, 0, &entry);
    }
    flush(&mut stage, &mut reference, &mut frame);
    check(&stage, &reference);
}

fn contents(collection: &Collection) -> &'static [(PieceForm, &'static str)] {
    match collection.format {
        DocumentFormat::Json => &JSON,
        DocumentFormat::Xml => &XML,
    }
}

fn piece(
    collection: &Collection,
    stage: &Stage<'_>,
    index: usize,
    content: usize,
    key: Option<u8>,
    number: Option<(usize, u64)>,
    choice: u8,
) -> OwnedPiece {
    let contents = contents(collection);
    let (form, content) = contents[content % contents.len()];
    let (tenant, id) = subject(index);
    OwnedPiece {
        tenant: tenant.into(),
        id: id.into(),
        form,
        key: key.map(|key| format!("k{key}")),
        source: number.map(|(source, seq)| (SOURCES[source].into(), seq)),
        condition: condition(stage, index, choice),
        content: content.into(),
    }
}

fn word(stage: &mut Stage<'_>, index: usize, action: WordAction) -> consort_kernel::LogEntry {
    let (tenant, id) = subject(index);
    stage.word(tenant, id, action)
}

fn flush(stage: &mut Stage<'_>, reference: &mut ReferenceFold, frame: &mut Vec<OwnedPiece>) {
    if !frame.is_empty() {
        let entry = stage.pieces(&std::mem::take(frame));
        stage.apply(&entry);
        reference.take(PARTITION, 0, &entry);
    }
}

fn check(stage: &Stage<'_>, reference: &ReferenceFold) {
    stage.check();
    let rows: Vec<String> = stage
        .rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            assert!(row.epoch.take().is_some(), "H45");
            serde_json::to_string(&row).unwrap()
        })
        .collect();
    let expected: Vec<String> =
        reference.rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    assert_eq!(rows, expected, "rows");

    let plain = |entry: &RejectEntry| RejectEntry { detail: String::new(), ..entry.clone() };
    let rejects: Vec<RejectEntry> = stage.rejects.iter().map(plain).collect();
    assert_eq!(rejects, reference.rejects, "rejects");

    let mut outcomes = stage.outcomes.clone();
    for entry in &mut outcomes {
        let outcome = std::mem::replace(&mut entry.outcome, PieceOutcome::Repeat);
        entry.outcome = without_detail(outcome);
    }
    assert_eq!(outcomes, reference.outcomes, "outcomes");

    for tenant in TENANTS {
        let of_tenant = |counter| stage.count(tenant, counter);
        for counter in TenantCounter::ALL {
            assert_eq!(
                of_tenant(counter),
                reference.count(tenant, counter),
                "{tenant} {counter:?}"
            );
        }
        let parts = &TenantCounter::ALL[1..6];
        let sum: i64 = parts.iter().map(|counter| of_tenant(*counter)).sum();
        assert_eq!(of_tenant(TenantCounter::Received), sum, "H33");
    }
    for index in 0..4 {
        let (tenant, id) = subject(index);
        let body = stage.body(tenant, id).map(|body| body.document.to_vec());
        assert_eq!(body.as_deref(), reference.document(tenant, id), "{tenant}/{id}");
        let head = stage.head(tenant, id).unwrap_or_default();
        let expected = reference.documents.get(&(tenant.into(), id.into()));
        let expected = expected.cloned().unwrap_or_default();
        assert_eq!((head.version, head.life), (expected.version, expected.life));
        assert_eq!(head.halting.map(|halting| halting.place), expected.halted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_plan_equals_the_naive_fold(
        collection in collection(),
        acts in prop::collection::vec(act(), 1..120),
        sizes in prop::collection::vec(1..9usize, 1..6),
        cached in any::<bool>(),
    ) {
        compare(&collection, &acts, &sizes, if cached { 1 << 20 } else { 0 });
    }
}

/// The cells and feeds of the same log, cut into frames and steps in any way, are the same.
#[test]
fn h51_documents_do_not_depend_on_the_cuts_between_slices() {
    let collection = Collection::new("c", DocumentFormat::Json, 8);
    let pieces: Vec<OwnedPiece> = (0..200u64)
        .map(|n| {
            let (form, content) = JSON[(n % 12) as usize];
            OwnedPiece::new(IDS[(n % 2) as usize], form, content).number("s", n / 2 + 1)
        })
        .collect();
    let mut results: BTreeMap<usize, _> = BTreeMap::new();
    for size in [1, 3, 50, 200] {
        let plan = plan(collection.clone(), 1 << 20);
        let partition = partition();
        let mut stage = Stage::new(&plan, &partition);
        for frame in pieces.chunks(size) {
            stage.send(frame);
        }
        let bodies = IDS.map(|id| stage.document(id));
        let counts = TenantCounter::ALL.map(|counter| stage.count("a", counter));
        results.insert(size, (bodies, counts, stage.rows.len()));
    }
    let first = results[&1].clone();
    assert!(results.values().all(|result| *result == first), "{results:?}");
}

/// The missing number comes with a key of another piece while the document halts at its gap: it is rejected and used
/// up, so a discard has no gap to note.
#[test]
fn h31_a_discard_behind_a_gap_that_a_rejected_piece_has_closed_notes_no_gap() {
    let mut collection = Collection::new("c", DocumentFormat::Json, 8);
    collection.on_gap = OnGap::Halt;
    let piece = |content, key, number: Option<u64>| Act::Piece {
        subject: 0,
        content,
        key,
        number: number.map(|seq| (0, seq)),
        condition: 0,
    };
    let acts = [
        piece(0, Some(0), None),
        piece(3, None, Some(2)),
        Act::Gap { subject: 0, source: 0, number: 1 },
        piece(4, Some(0), Some(1)),
        Act::Discard { subject: 0, wrong: false },
    ];
    compare(&collection, &acts, &[1], 0);
}
