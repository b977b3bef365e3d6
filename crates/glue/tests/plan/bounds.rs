//! H17, H40: the worst record fits into a commit.

use consort_cluster::worker::RehearsedStep;
use consort_glue::bounds::{MAX_DOCUMENT_IN_FEED, MAX_PENDING_PIECES, MAX_PIECE, MAX_SOURCES};
use consort_glue::stored::WordAction;
use consort_glue::{Collection, DocumentFormat, FeedContent, OnReject, PieceForm};
use consort_kernel::{Commit, Operation};

use crate::stage::{OwnedPiece, SHARD, Stage, partition, plan};

/// Checks a step as every engine does, and gives its bytes in values and entries.
fn check(step: &RehearsedStep) -> usize {
    let operations = step.operations[&SHARD].clone();
    let bytes = |operation: &Operation| match operation {
        Operation::Put { value, .. } => value.len(),
        Operation::Append(note) => note.entry.len(),
        _ => 0,
    };
    let sum = operations.iter().map(bytes).sum();
    assert_eq!(Commit::of(operations).validate(), Ok(()));
    sum
}

/// A patch of the document `{"a": …}` with about so many bytes, all of which count twice in a row of XML.
fn patch(format: DocumentFormat, size: usize) -> OwnedPiece {
    match format {
        DocumentFormat::Json => {
            let content = format!(r#"[{{"op":"add","path":"/a","value":"{}"}}]"#, "x".repeat(size));
            OwnedPiece::new("i", PieceForm::JsonPatch, content)
        }
        DocumentFormat::Xml => {
            let content =
                format!("<d><replace sel='a/b'><b>{}</b></replace></d>", "\"".repeat(size / 2));
            OwnedPiece::new("i", PieceForm::XmlPatch, content)
        }
    }
}

fn worst(format: DocumentFormat, feed: FeedContent) -> usize {
    let mut collection = Collection::new("c", format, 8);
    collection.feed = feed;
    collection.history = 1_000;
    collection.on_reject = OnReject::Halt;
    collection.max_document = match feed {
        FeedContent::Pieces => MAX_PIECE,
        FeedContent::Document => MAX_DOCUMENT_IN_FEED,
    };
    let plan = plan(collection.clone(), 64 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    let whole = if format == DocumentFormat::Json { "{}" } else { "<a><b/></a>" };
    stage.send(&[OwnedPiece::new("i", PieceForm::Whole, whole)]);
    for n in 0..MAX_SOURCES as u64 - 1 {
        let source = format!("{n:x>64}");
        stage.send(&[patch(format, 10).number(&source, 1)]);
    }
    let failing = match format {
        DocumentFormat::Json => r#"[{"op":"remove","path":"/none"}]"#,
        DocumentFormat::Xml => "<d><remove sel='a/none'/></d>",
    };
    let form =
        if format == DocumentFormat::Json { PieceForm::JsonPatch } else { PieceForm::XmlPatch };
    stage.send(&[OwnedPiece::new("i", form, failing)]);
    let place = stage.rejects[0].place;
    // A large document, many small pieces, and one large piece: the last to be released.
    let document = collection.max_document.min(200 << 10);
    for _ in 0..3 {
        stage.send(&[patch(format, document - 1_000)]);
    }
    for _ in 0..MAX_PENDING_PIECES {
        stage.send(&[patch(format, 100)]);
    }
    let largest = collection.max_document - 4_000;
    let mut worst = 0;
    let entry = stage.word("a", "i", WordAction::Discard { place });
    for step in stage.apply(&entry) {
        worst = worst.max(check(&step));
    }
    for _ in 0..80 {
        for step in stage.send(&[patch(format, largest)]) {
            worst = worst.max(check(&step));
        }
    }
    assert!(stage.pending("a", "i").is_none());
    stage.check();
    worst
}

#[test]
fn h17_the_worst_record_fits_into_a_commit() {
    for format in [DocumentFormat::Json, DocumentFormat::Xml] {
        let pieces = worst(format, FeedContent::Pieces);
        // Row, history and body of the largest piece are in one commit.
        assert!(pieces > 2 * MAX_PIECE, "{format}: {pieces}");
        worst(format, FeedContent::Document);
    }
}

/// A frame of many large documents is cut into steps that commits hold.
#[test]
fn h49_a_frame_of_many_documents_is_cut_into_steps() {
    let mut collection = Collection::new("c", DocumentFormat::Json, 8);
    collection.history = 10;
    let plan = plan(collection, 64 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    let large = format!("\"{}\"", "x".repeat(900 << 10));
    for n in 0..6 {
        stage.send(&[OwnedPiece::new(&format!("d{n}"), PieceForm::Whole, large.as_str())]);
    }
    let small: Vec<OwnedPiece> = (0..60)
        .map(|n| {
            let content = format!("[{{\"op\":\"test\",\"path\":\"\",\"value\":{large}}}]");
            let tiny = OwnedPiece::new(&format!("d{}", n % 6), PieceForm::JsonPatch, content);
            if n < 2 { tiny } else { OwnedPiece { content: b"[]".to_vec(), ..tiny } }
        })
        .collect();
    let steps = stage.send(&small);
    assert!(steps.len() > 1, "the bodies alone are more than a sheet holds");
    steps.iter().for_each(|step| {
        check(step);
    });
    assert_eq!(stage.rows.len(), 66);
}
