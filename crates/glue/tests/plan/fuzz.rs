//! No bytes make a reader of a stored format, or the plan, panic.

use bytes::Bytes;
use consort_glue::stored::word::due_word;
use consort_glue::stored::{
    DocumentBody, DocumentHead, GlueRow, GlueWord, KeyOutcome, OutcomeEntry, PendingPieces,
    PieceRecord, RejectEntry, RingVersion,
};
use consort_glue::{Collection, DocumentFormat, DocumentTag, PieceForm, PiecePlace};
use consort_kernel::{Change, FrameKind};
use proptest::prelude::*;

use crate::stage::{OwnedPiece, Stage, partition, plan};

/// Reads bytes as each format, and writes again what could be read.
fn read(bytes: &[u8]) {
    let shared = Bytes::copy_from_slice(bytes);
    if let Ok(piece) = PieceRecord::decode(bytes) {
        let again = piece.encode();
        assert_eq!(PieceRecord::decode(&again), Ok(piece));
    }
    if let Ok(head) = DocumentHead::decode(bytes) {
        assert_eq!(DocumentHead::decode(&head.encode()), Ok(head));
    }
    if let Ok(pending) = PendingPieces::decode(&shared) {
        assert_eq!(PendingPieces::decode(&pending.encode()), Ok(pending));
    }
    if let Ok(body) = DocumentBody::decode(&shared) {
        assert_eq!(DocumentBody::decode(&body.encode()), Ok(body));
    }
    if let Ok(version) = RingVersion::decode(&shared) {
        assert_eq!(RingVersion::decode(&version.encode()), Ok(version));
    }
    if let Ok(key) = KeyOutcome::decode(bytes) {
        assert_eq!(KeyOutcome::decode(&key.encode()), Ok(key));
    }
    if let Ok(entry) = RejectEntry::decode(bytes) {
        assert_eq!(RejectEntry::decode(&entry.encode()), Ok(entry));
    }
    if let Ok(entry) = OutcomeEntry::decode(bytes) {
        assert_eq!(OutcomeEntry::decode(&entry.encode()), Ok(entry));
    }
    if let Ok(change) = Change::decode(bytes) {
        let _ = GlueRow::from_change(&change);
    }
    let _ = due_word(bytes);
    let text = String::from_utf8_lossy(bytes);
    let _ = (GlueWord::decode(&text), text.parse::<PiecePlace>(), text.parse::<DocumentTag>());
}

/// Stored bytes of each format, to be broken.
fn samples() -> Vec<Vec<u8>> {
    let mut collection = Collection::new("c", DocumentFormat::Json, 8);
    collection.history = 3;
    let plan = plan(collection, 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    let keyed = OwnedPiece {
        key: Some("k".into()),
        ..OwnedPiece::new("i", PieceForm::Whole, "{\"a\":1}").number("s", 1)
    };
    let held = OwnedPiece::new("i", PieceForm::Whole, "2").number("s", 9);
    let failing = OwnedPiece::new("i", PieceForm::JsonPatch, r#"[{"op":"remove","path":"/x"}]"#);
    let pieces = [keyed, held, failing];
    stage.send(&pieces);
    let mut samples: Vec<Vec<u8>> =
        stage.rehearsal.cells().map(|(.., cell)| cell.to_vec()).collect();
    samples.extend(pieces.iter().map(OwnedPiece::encode));
    samples.extend(stage.rejects.iter().map(|entry| entry.encode()));
    samples.extend(stage.outcomes.iter().map(|entry| entry.encode()));
    samples.extend(stage.rows.iter().map(|row| row.to_change().encode().to_vec()));
    assert!(samples.len() >= 12, "{}", samples.len());
    samples
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_and_not_a_panic(mut bytes: Vec<u8>, version in 0..3u8) {
        read(&bytes);
        bytes.insert(0, version);
        read(&bytes);
    }

    #[test]
    fn broken_cells_are_an_error_and_not_a_panic(
        at: prop::sample::Index,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
    ) {
        let samples = samples();
        let mut bytes = samples[at.index(samples.len())].clone();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        read(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        read(&bytes);
    }

    #[test]
    fn records_that_are_no_pieces_change_nothing(bytes: Vec<u8>) {
        prop_assume!(PieceRecord::decode(&bytes).is_err());
        let plan = plan(Collection::new("c", DocumentFormat::Json, 8), 1 << 20);
        let partition = partition();
        let mut stage = Stage::new(&plan, &partition);
        let entry = stage.entry(FrameKind::Events, vec![bytes.clone()]);
        prop_assert!(stage.apply(&entry).is_empty());
        let control = consort_cluster::worker::Control::Word {
            part: "glue".into(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        };
        let entry = stage.entry(FrameKind::Control, vec![control.encode().to_vec()]);
        prop_assert!(stage.apply(&entry).is_empty());
    }
}
