//! What an owner remembers, writes and forgets.

use std::time::Duration;

use consort_cluster::worker::{Plan, RejectCause};
use consort_glue::stored::{DocumentBody, PieceOutcome, RingContent, RingVersion, WordAction};
use consort_glue::{Collection, DocumentFormat, PieceForm, Reason, TenantCounter};
use consort_kernel::{Operation, Timestamp};

use crate::stage::{OwnedPiece, PARTITION, SHARD, Stage, partition, plan};

fn collection() -> Collection {
    Collection::new("c", DocumentFormat::Json, 8)
}

fn whole(id: &str, content: &str) -> OwnedPiece {
    OwnedPiece::new(id, PieceForm::Whole, content)
}

fn append(id: &str, value: u64) -> OwnedPiece {
    let content = format!(r#"[{{"op":"add","path":"/a/-","value":{value}}}]"#);
    OwnedPiece::new(id, PieceForm::JsonPatch, content)
}

#[test]
fn a_hot_document_is_written_once_a_step() {
    let plan = plan(collection(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    let mut pieces = vec![whole("i", r#"{"a":[]}"#)];
    pieces.extend((0..100).map(|n| append("i", n)));
    let steps = stage.send(&pieces);
    assert_eq!(steps.len(), 1);
    let puts = steps[0].operations[&SHARD].iter();
    let puts = puts.filter(|operation| matches!(operation, Operation::Put { .. })).count();
    assert_eq!((puts, stage.rows.len()), (2, 101), "head and body");
}

#[test]
fn a_document_in_memory_is_not_read_again_and_an_evicted_one_is() {
    for (cache, expected) in [(1 << 20, r#"{"a":[1]}"#), (0, r#"{"a":[9,1]}"#)] {
        let plan = plan(collection(), cache);
        let partition = partition();
        let mut stage = Stage::new(&plan, &partition);
        stage.send(&[whole("i", r#"{"a":[]}"#)]);
        let body = stage.body("a", "i").unwrap();
        let changed = DocumentBody { document: r#"{"a":[9]}"#.into(), ..body };
        stage.rehearsal.know(SHARD, stage.cells.body("a", "i"), Some(changed.encode()));
        stage.send(&[append("i", 1)]);
        assert_eq!(stage.document("i").as_deref(), Some(expected));
    }
}

#[test]
fn repeats_write_no_cells_but_counters() {
    let plan = plan(collection(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    stage.send(&[whole("i", "1").number("s", 1)]);
    let steps = stage.send(&[whole("i", "1").number("s", 1)]);
    let operations = &steps[0].operations[&SHARD];
    let changes = operations.iter().any(|operation| matches!(operation, Operation::Put { .. }));
    assert!(!changes, "{operations:?}");
}

#[test]
fn the_history_has_a_document_at_most_fifteen_versions_before_each() {
    let mut history = collection();
    history.history = 40;
    let plan = plan(history.clone(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    stage.send(&[whole("i", r#"{"a":[]}"#)]);
    for n in 0..100 {
        stage.send(&[append("i", n)]);
    }
    let slot = |version: u64| {
        let key = stage.cells.version("a", "i", version % history.ring_slots());
        RingVersion::decode(stage.rehearsal.cell(SHARD, &key).unwrap()).unwrap()
    };
    for version in 101 - 40..=101 {
        let kept = slot(version);
        assert_eq!(kept.tag.version, version);
        let base = (version - 15..=version).rev().map(slot);
        let mut base = base.filter(|kept| matches!(kept.content, RingContent::Document(_)));
        assert!(base.next().is_some(), "{version}");
    }
    stage.send(&[OwnedPiece::new("i", PieceForm::Delete, "")]);
    assert_eq!(stage.dues().len(), 1);
    let deadline = stage.head("a", "i").unwrap().deadline.unwrap();
    let entry = stage.word("a", "i", WordAction::forget(deadline));
    stage.apply(&entry);
    let left = stage.rehearsal.cells().count();
    assert_eq!(left, 0, "a forgotten document leaves no cell");
}

#[test]
fn h3_the_due_cell_holds_the_word_that_the_timer_appends() {
    let plan = plan(collection(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    stage.send(&[whole("i", "1").number("s", 2)]);
    let (key, cell) = stage.dues().pop_first().unwrap();
    let deadline = stage.time + 30_000;
    assert_eq!(stage.cells.deadline(&key), Some(Timestamp(deadline)));
    let word = consort_glue::stored::word::due_word(&cell).unwrap();
    assert_eq!(word.action, WordAction::Gap { source: "s".into(), number: 1 });
    let entry = stage.word("a", "i", word.action);
    stage.apply(&entry);
    assert_eq!(stage.document("i").as_deref(), Some("1"));
    assert!(stage.dues().is_empty());
}

#[test]
fn h45_rows_carry_the_epoch_of_their_owner() {
    let plan = plan(collection(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    stage.rehearsal.take_over(7);
    stage.send(&[whole("i", "1")]);
    assert_eq!(stage.rows[0].epoch, Some(7));
}

#[test]
fn old_idempotency_keys_expire_by_log_time_in_their_own_partition() {
    let mut short = collection();
    short.ids_for = Duration::from_millis(100);
    let plan = plan(short, 1 << 20);
    let range = plan.expired(&partition(), Timestamp(1_000_000)).unwrap();
    assert_eq!(range.shard, SHARD);
    let cells = consort_glue::CollectionCells::new("c").unwrap();
    assert_eq!(range.prefix, cells.ids(PARTITION));
    // Twice the lifetime, and ten minutes of slack, before the log's time.
    assert_eq!(range.before, cells.ids(PARTITION).with((1_000_000 - 200 - 600_000) / 100u64));
}

#[test]
fn g9_a_record_that_no_commit_holds_is_rejected_and_uses_up_its_number() {
    let plan = plan(collection(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    stage.send(&[whole("i", "1").number("s", 1)]);
    let entry = stage.pieces(&[whole("i", "2").number("s", 2)]);
    let refusal = consort_kernel::Refusal::TooLarge { what: "a commit's bytes", size: 2, limit: 1 };
    stage.reject(&entry, &RejectCause::Oversized(refusal));
    assert_eq!(stage.rejects[0].reason, Reason::TOO_LARGE);
    stage.send(&[whole("i", "3").number("s", 3)]);
    assert_eq!(stage.document("i").as_deref(), Some("3"));
    assert_eq!(stage.count("a", TenantCounter::Rejected), 1);
    stage.check();
}

#[test]
fn h15_a_record_that_panicked_elsewhere_is_applied_when_it_is_tried_alone() {
    let plan = plan(collection(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    let entry = stage.pieces(&[whole("i", "1")]);
    stage.reject(&entry, &RejectCause::Panicked);
    assert_eq!(stage.document("i").as_deref(), Some("1"));
}

#[test]
fn h15_a_piece_of_a_document_that_cannot_be_read_is_rejected_and_its_neighbours_go_on() {
    let plan = plan(collection(), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    stage.send(&[whole("i", "1"), whole("j", "1")]);
    let body = stage.cells.body("a", "i");
    stage.rehearsal.know(SHARD, body.clone(), Some("\u{1}nonsense".into()));
    stage.rehearsal.take_over(2);
    let entry = stage.pieces(&[whole("i", "2")]);
    stage.reject(&entry, &RejectCause::Panicked);
    assert_eq!(stage.rejects[0].reason, Reason::DEFECT);
    let outcome = &stage.outcomes.last().unwrap().outcome;
    assert!(matches!(outcome, PieceOutcome::Rejected { .. }), "{outcome:?}");
    stage.send(&[whole("j", "2")]);
    assert_eq!(stage.document("j").as_deref(), Some("2"));
    assert_eq!(stage.rehearsal.cell(SHARD, &body).unwrap(), "\u{1}nonsense", "it stays as it is");
}
