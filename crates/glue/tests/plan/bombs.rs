//! Pieces that are meant to harm: after each, the next piece of the document and of its neighbour is applied.

use consort_glue::{Collection, DocumentFormat, PieceForm, Reason, TenantCounter, check_piece};

use crate::stage::{OwnedPiece, Stage, partition, plan};

fn json(form: PieceForm, content: impl Into<String>) -> (PieceForm, String) {
    (form, content.into())
}

fn operations(count: usize, operation: &str) -> String {
    format!("[{}]", vec![operation; count].join(","))
}

/// Sends a bomb, and then pieces to its document and to a neighbour.
fn after(format: DocumentFormat, start: &str, bomb: &(PieceForm, String), next: (PieceForm, &str)) {
    let plan = plan(Collection::new("c", format, 8), 1 << 20);
    let partition = partition();
    let mut stage = Stage::new(&plan, &partition);
    let whole = |id: &str| OwnedPiece::new(id, PieceForm::Whole, start);
    stage.send(&[whole("i"), whole("j")]);
    let shown: String = bomb.1.chars().take(80).collect();
    let refused = check_piece(format, bomb.0, bomb.1.as_bytes());
    // Through the log as well: a later release may refuse less before it stores a piece.
    stage.send(&[OwnedPiece::new("i", bomb.0, bomb.1.as_str()).number("s", 1)]);
    assert_eq!(stage.count("a", TenantCounter::Rejected), 1, "{shown}");
    if let Err(refused) = refused {
        assert!((400..=415).contains(&refused.reason.status()), "{shown}: {refused}");
    }
    assert_ne!(stage.rejects[0].reason, Reason::DEFECT, "{shown}");
    let next = |id: &str| OwnedPiece::new(id, next.0, next.1).number("s", 2);
    stage.send(&[next("i"), next("j").number("t", 1)]);
    assert_eq!(stage.count("a", TenantCounter::Applied), 4, "{shown}");
    stage.check();
}

#[test]
fn json_bombs_are_one_rejection_and_the_next_pieces_are_applied() {
    let text = "x".repeat(60_000);
    let start = format!(r#"{{"a":{{"t":"{text}"}},"l":[]}}"#);
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let elements = vec!["0"; 100_000].join(",");
    let inserts = operations(1_000, r#"{"op":"add","path":"/l/0","value":0}"#);
    let large_array =
        format!("[{{\"op\":\"add\",\"path\":\"/l\",\"value\":[{elements}]}},{}", &inserts[1..]);
    let bombs = [
        json(PieceForm::JsonPatch, operations(18, r#"{"op":"copy","from":"","path":"/a/c"}"#)),
        json(
            PieceForm::JsonPatch,
            operations(200, r#"{"op":"add","path":"/l","value":[]}"#).replace("/l", "/none/l"),
        ),
        json(PieceForm::JsonPatch, operations(100_000, r#"{"op":"test","path":"","value":0}"#)),
        json(PieceForm::JsonPatch, large_array),
        json(PieceForm::Whole, deep.clone()),
        json(PieceForm::MergePatch, deep),
        json(PieceForm::Whole, "12345678901234567890123"),
        json(PieceForm::Whole, "1e400"),
        json(PieceForm::MergePatch, r#"{"a":1,"a":2}"#),
        json(PieceForm::Whole, "\u{0}"),
        json(PieceForm::Whole, format!("\"{}\"", "x".repeat(2 << 20))),
    ];
    for bomb in &bombs {
        after(DocumentFormat::Json, &start, bomb, (PieceForm::MergePatch, r#"{"n":1}"#));
    }
}

#[test]
fn xml_bombs_are_one_rejection_and_the_next_pieces_are_applied() {
    let start = format!("<r>{}</r>", "<a><b/></a>".repeat(3_000));
    let deep = format!("{}{}", "<a>".repeat(200), "</a>".repeat(200));
    let walk = "//*[.//b]";
    let nested = "//*[*='x']//*[.='y']";
    let bombs = [
        json(PieceForm::Whole, "<!DOCTYPE a [<!ENTITY e \"x\">]><a>&e;</a>"),
        json(PieceForm::Whole, "<!DOCTYPE a><a/>"),
        json(PieceForm::Whole, deep),
        json(PieceForm::Whole, "<a b='1' b='2'/>"),
        json(PieceForm::Whole, "<a>&#1;</a>"),
        json(PieceForm::XmlPatch, format!("<d><remove sel=\"{walk}\"/></d>")),
        json(
            PieceForm::XmlPatch,
            format!("<d>{}</d>", format!("<remove sel=\"{nested}\"/>").repeat(500)),
        ),
        json(PieceForm::XmlPatch, format!("<d>{}</d>", "<add sel='r'><b/></add>".repeat(100_000))),
        json(PieceForm::XmlPatch, "<d><remove sel=\"id('x')\"/></d>"),
    ];
    for bomb in &bombs {
        let next = (PieceForm::XmlPatch, "<d><add sel='r'><n/></add></d>");
        after(DocumentFormat::Xml, &start, bomb, next);
    }
}
