//! Pieces that are made to cost: each is refused or rejected, and the next piece is applied (GLUE §10, 4).

use super::{apply, parse, patch, text};
use consort_glue::bounds::{MAX_OPERATIONS, MAX_PIECE};
use consort_glue::xml::{XmlDocument, check};
use consort_glue::{PieceForm, Reason};

/// Applies a bomb, and then an ordinary patch.
fn survive(document: &str, patch: &str) -> Option<Reason> {
    let mut tree = parse(document);
    let before = tree.to_bytes();
    let rejected = tree.apply(PieceForm::XmlPatch, patch.as_bytes(), MAX_PIECE).err();
    assert!(rejected.is_none() || tree.to_bytes() == before, "a bomb changed the document");
    let size = tree.size();
    tree.apply(PieceForm::XmlPatch, b"<p><add sel='/*'><after/></add></p>", MAX_PIECE)
        .expect("the next piece");
    assert!(tree.size() > size);
    assert_eq!(tree.to_bytes().len(), tree.size());
    rejected.map(|rejection| rejection.reason)
}

#[test]
fn billion_laughs_are_not_heard() {
    let laughs = "<!DOCTYPE l [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]><l>&b;</l>";
    for (form, piece) in [
        (PieceForm::Whole, laughs.into()),
        (PieceForm::XmlPatch, laughs.replace("<l>", "<l><add/>")),
    ] {
        let refused = check(form, piece.as_bytes()).map_err(|rejection| rejection.reason);
        assert_eq!(refused, Err(Reason::INVALID_ENTITY_DECLARATION));
    }
}

#[test]
fn the_number_of_operations_is_bounded() {
    let operations = |count: usize| patch(&"<add sel='a'/>".repeat(count));
    assert_eq!(survive("<a/>", &operations(MAX_OPERATIONS)), None);
    assert_eq!(survive("<a/>", &operations(MAX_OPERATIONS + 1)), Some(Reason::TOO_MANY_OPERATIONS));
    let refused =
        check(PieceForm::XmlPatch, operations(100_000).as_bytes()).map_err(|it| it.reason);
    assert_eq!(refused, Err(Reason::TOO_MANY_OPERATIONS));
}

/// H14: the depth is counted before each operation, and content as deep as a document fits into a patch.
#[test]
fn content_cannot_nest_a_document_too_deep() {
    let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    let add = |depth| patch(&format!("<add sel='/*'>{}</add>", nested(depth)));
    assert_eq!(survive("<b/>", &add(99)), None);
    assert_eq!(survive("<b/>", &add(100)), Some(Reason::TOO_DEEP));
    assert_eq!(survive("<b/>", &add(101)), Some(Reason::PIECE_TOO_DEEP));
    let replace = patch(&format!("<replace sel='b'>{}</replace>", nested(100)));
    assert!(apply("<b/>", &replace).is_ok());
    let deeper = patch(&"<add sel='//*[.=\"\"]'><a/></add>".repeat(3));
    assert_eq!(survive("<b>t<c/></b>", &deeper), Some(Reason::UNLOCATED_NODE));
}

/// H16: every node that a selector looks at counts, of all operations together.
#[test]
fn visits_are_bounded() {
    let leaves = format!("<a>{}<c/></a>", "<b/>".repeat(300_000));
    let flat = format!("<a>{}</a>", "<b/>".repeat(3_000));
    let nested = format!("<a>{}x{}</a>", "<b>t".repeat(95), "</b>".repeat(95));
    let once = "<add sel='//c'/>".to_string();
    let deep = format!("<add sel=\"{}\"/>", "//*[.='t']".repeat(3));
    for (document, operation, times) in [
        (&leaves, once, 2),
        (&flat, "<add sel='a/b[3000]'/>".into(), MAX_OPERATIONS),
        (&nested, format!("<add sel=\"//*[.='{}x']\"/>", "t".repeat(95)), MAX_OPERATIONS),
        (&flat, "<add sel='//*[b=\"t\"]'/>".replace("\"t\"", "&quot;&quot;"), MAX_OPERATIONS),
    ] {
        let few = survive(document, &patch(&operation));
        assert_ne!(few, Some(Reason::TOO_COSTLY), "{operation}");
        let many = survive(document, &patch(&operation.repeat(times)));
        let expected = if few.is_none() { Some(Reason::TOO_COSTLY) } else { few };
        assert_eq!(many, expected, "{operation}");
    }
    // Nodes below each other share their descendants: a chain of `//` does not multiply.
    assert_eq!(survive(&nested, &patch(&deep)), Some(Reason::UNLOCATED_NODE));
}

/// An element with 200,000 attributes would hold the parser for minutes.
#[test]
fn attributes_of_one_element_are_bounded() {
    let many = |count: usize| (0..count).map(|at| format!(" a{at}=''")).collect::<String>();
    assert!(XmlDocument::parse(format!("<a{}/>", many(256)).as_bytes()).is_ok());
    for count in [257, 150_000] {
        let refused =
            XmlDocument::parse(format!("<a{}/>", many(count)).as_bytes()).map_err(|it| it.reason);
        assert_eq!(refused.err(), Some(Reason::PIECE_TOO_LARGE));
    }
    let full = format!("<a{}/>", many(255));
    assert_eq!(survive(&full, &patch("<add sel='a' type='@b'/>")), None);
    for addition in [
        "<add sel='a' type='@b'/><add sel='a' type='@c'/>",
        "<add sel='a' type='@b'/><add sel='a' type='namespace::p'>urn:p</add>",
        "<add sel='a' type='@p:b' xmlns:p='urn:p'/>",
    ] {
        assert_eq!(survive(&full, &patch(addition)), Some(Reason::TOO_LARGE), "{addition}");
    }
    let content = format!("<add sel='a' xmlns:p='urn:p'><p:b{}/></add>", many(256));
    assert_eq!(survive("<a/>", &patch(&content)), Some(Reason::TOO_LARGE));
}

/// The parser alone would copy the name to every element: 100 GB.
#[test]
fn a_long_namespace_is_held_once() {
    let long = "&amp;".repeat(100_000);
    let document = format!("<a xmlns=\"{long}\">{}</a>", "<b/>".repeat(100_000));
    let document = parse(&document);
    assert_eq!(document.size(), document.to_bytes().len());
    assert_eq!(
        XmlDocument::parse(&document.to_bytes()).expect("read again").size(),
        document.size()
    );
}

/// Each added element would declare the long name again: 1,000 times a megabyte.
#[test]
fn content_that_multiplies_a_declaration_is_too_large() {
    let long = "u".repeat(900_000);
    let bomb =
        format!("<patch xmlns:p='{long}'><add sel='a'>{}</add></patch>", "<p:b/>".repeat(100_000));
    assert_eq!(survive("<a/>", &bomb), Some(Reason::TOO_LARGE));
    let bomb =
        format!("<patch xmlns:p='{long}'>{}</patch>", "<add sel='a'><p:b/></add>".repeat(1_000));
    assert_eq!(survive("<a/>", &bomb), Some(Reason::TOO_LARGE));
}

/// Each name would look through all prefixes in scope.
#[test]
fn many_prefixes_in_scope_are_too_costly() {
    let declarations: String = (0..250).map(|at| format!(" xmlns:ns{at}='u{at}'")).collect();
    let open = |level: usize| {
        format!("<a{}>", declarations.replace("xmlns:ns", &format!("xmlns:l{level}ns")))
    };
    let document = format!("{}<b/>{}", (0..98).map(open).collect::<String>(), "</a>".repeat(98));
    let add = "<add sel='//b' type='@x'/>".replace("'@x'", "'@p:x'");
    let many = format!("<patch xmlns:p='urn:p'>{}</patch>", add.repeat(1_000));
    assert_eq!(
        survive(&document, &many),
        Some(Reason::INVALID_PATCH_DIRECTIVE),
        "the second is there already"
    );
    let content =
        format!("<patch xmlns:p='urn:p'>{}</patch>", "<add sel='//b'><p:x/></add>".repeat(1_000));
    assert_eq!(survive(&document, &content), Some(Reason::TOO_COSTLY));
}

/// Large texts beside each other are not copied together, and a thousand patches leave no slots behind.
#[test]
fn patches_of_a_large_document_cost_what_they_change() {
    let large = "x".repeat(900_000);
    let mut tree = parse(&format!("<a>{large}<b/>{large}</a>"));
    let turn = "<add sel='a/b' pos='before'>t<c/></add><remove sel='a/c'/><remove sel='a/b'/>\
        <add sel='a' pos='prepend'><b/></add>";
    let operations = patch(&turn.repeat(MAX_OPERATIONS / 4));
    tree.apply(PieceForm::XmlPatch, operations.as_bytes(), MAX_PIECE).expect("applied");
    assert_eq!(tree.size(), 1_800_000 + "<a><b/></a>".len() + MAX_OPERATIONS / 4);
    assert!(text(&tree).starts_with("<a><b/>t"));
}
