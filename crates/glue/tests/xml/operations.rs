//! Each rule of `add`, `replace` and `remove` (GLUE §7), and each error name of RFC 5261.

use super::{apply, apply_within, expect, expect_rejection, parse, patch, text};
use consort_glue::xml::{XmlDocument, check};
use consort_glue::{PieceForm, Reason};

#[test]
fn add_puts_content_where_pos_says() {
    for (operation, expected) in [
        ("<add sel='a/b'><n/></add>", "<a>1<b>2<c/><n/></b>3</a>"),
        ("<add sel='a/b' pos='prepend'><n/></add>", "<a>1<b><n/>2<c/></b>3</a>"),
        ("<add sel='a/b' pos='before'><n/></add>", "<a>1<n/><b>2<c/></b>3</a>"),
        ("<add sel='a/b' pos='after'><n/></add>", "<a>1<b>2<c/></b><n/>3</a>"),
        ("<add sel='a/b/c'><n/></add>", "<a>1<b>2<c><n/></c></b>3</a>"),
        ("<add sel='a/text()[2]' pos='before'><n/></add>", "<a>1<b>2<c/></b><n/>3</a>"),
        ("<add sel='a/text()[1]' pos='after'>+</add>", "<a>1+<b>2<c/></b>3</a>"),
        (
            "<add sel='a/b'> x<n/><!--c--><?p d?><![CDATA[<]]></add>",
            "<a>1<b>2<c/> x<n/><!--c--><?p d?><![CDATA[<]]></b>3</a>",
        ),
        ("<add sel='a/b'></add>", "<a>1<b>2<c/></b>3</a>"),
    ] {
        expect("<a>1<b>2<c/></b>3</a>", operation, expected);
    }
}

#[test]
fn add_brings_attributes_and_keeps_their_order() {
    expect("<a x='1'/>", "<add sel='a' type='@y'>2</add>", r#"<a x="1" y="2"/>"#);
    expect("<a/>", "<add sel='a' type='@y'/>", r#"<a y=""/>"#);
    expect(
        "<a/>",
        "<add sel='a' type='@y'>1<![CDATA[&<]]>&#10;\"</add>",
        r#"<a y="1&amp;&lt;&#xA;&quot;"/>"#,
    );
}

#[test]
fn replace_puts_content_of_the_same_kind_in_the_place() {
    for (operation, expected) in [
        ("<replace sel='a/b'><n/></replace>", "<a x=\"1\"><n/>t<!--c--><?p d?></a>"),
        ("<replace sel='a/b'>\n  <n/>\n</replace>", "<a x=\"1\"><n/>t<!--c--><?p d?></a>"),
        ("<replace sel='a'><n/></replace>", "<n/>"),
        ("<replace sel='a/@x'>2</replace>", "<a x=\"2\"><b/>t<!--c--><?p d?></a>"),
        ("<replace sel='a/@x'/>", "<a x=\"\"><b/>t<!--c--><?p d?></a>"),
        ("<replace sel='a/text()'>u</replace>", "<a x=\"1\"><b/>u<!--c--><?p d?></a>"),
        ("<replace sel='a/text()'/>", "<a x=\"1\"><b/><!--c--><?p d?></a>"),
        ("<replace sel='a/comment()'><!--d--></replace>", "<a x=\"1\"><b/>t<!--d--><?p d?></a>"),
        (
            "<replace sel=\"a/processing-instruction('p')\"><?q?></replace>",
            "<a x=\"1\"><b/>t<!--c--><?q?></a>",
        ),
    ] {
        expect("<a x='1'><b/>t<!--c--><?p d?></a>", operation, expected);
    }
}

#[test]
fn remove_takes_a_node_and_the_white_space_that_ws_names() {
    for (document, operation, expected) in [
        ("<a> <b/> </a>", "<remove sel='a/b'/>", "<a>  </a>"),
        ("<a> <b/>\n</a>", "<remove sel='a/b' ws='before'/>", "<a>\n</a>"),
        ("<a> <b/>\n</a>", "<remove sel='a/b' ws='after'/>", "<a> </a>"),
        ("<a> <b/>\n</a>", "<remove sel='a/b' ws='both'> <!-- why --> </remove>", "<a/>"),
        ("<a> <!--c--> </a>", "<remove sel='a/comment()' ws='both'/>", "<a/>"),
        ("<a> <?p?> </a>", "<remove sel='a/processing-instruction()' ws='both'/>", "<a/>"),
        ("<a>1<b/>2</a>", "<remove sel='a/b'/>", "<a>12</a>"),
        ("<a>1<b/>2</a>", "<remove sel='a/text()[2]'/>", "<a>1<b/></a>"),
        ("<a x='1' y='2' z='3'/>", "<remove sel='a/@y'/>", r#"<a x="1" z="3"/>"#),
        ("<a><![CDATA[ ]]> <b/></a>", "<remove sel='a/b' ws='before'/>", "<a/>"),
    ] {
        expect(document, operation, expected);
    }
}

/// The data model of XPath has one text node where texts meet, CDATA included.
#[test]
fn texts_that_meet_are_one_text_node() {
    let both = "<remove sel='a/b'/><replace sel='a/text()[1]'>3</replace>";
    expect("<a>1<b/>2</a>", both, "<a>3</a>");
    expect(
        "<a>1<b/></a>",
        "<add sel='a/b' pos='before'>2</add><remove sel='a/text()'/>",
        "<a><b/></a>",
    );
    expect(
        "<a>1<![CDATA[2]]>3<b/></a>",
        "<replace sel=\"a/text()[.='123']\">4</replace>",
        "<a>4<b/></a>",
    );
    expect(
        "<a>1<![CDATA[2]]></a>",
        "<add sel='a/text()' pos='after'><b/></add>",
        "<a>1<![CDATA[2]]><b/></a>",
    );
    expect_rejection(
        "<a>1<b/>2</a>",
        "<remove sel='a/b'/><remove sel='a/text()[2]'/>",
        Reason::UNLOCATED_NODE,
    );
}

#[test]
fn comments_and_instructions_can_stand_beside_the_root() {
    for (document, operation, expected) in [
        ("<a/>", "<add sel='a' pos='before'> <?p?> <!--c--></add>", "<?p?><!--c--><a/>"),
        ("<a/>", "<add sel='a' pos='after'><!--c--></add>", "<a/><!--c-->"),
        ("<?p?><a/>", "<remove sel='processing-instruction()'/>", "<a/>"),
        ("<!--1--><a/>", "<replace sel='comment()'><!--2--></replace>", "<!--2--><a/>"),
        (
            "<?xml version='1.0'?><a/>",
            "<add sel='a' pos='before'><!--c--></add>",
            "<?xml version=\"1.0\"?><!--c--><a/>",
        ),
    ] {
        expect(document, operation, expected);
    }
}

#[test]
fn each_fault_has_its_name() {
    let document = "<a x='1' xml:id='i'><b/><b/><c>t</c><!--c--></a>";
    for (operation, reason) in [
        ("<move sel='a'/>", Reason::INVALID_DIFF_FORMAT),
        ("<add><b/></add>", Reason::INVALID_DIFF_FORMAT),
        ("<add sel='a' msel='a'/>", Reason::INVALID_DIFF_FORMAT),
        ("<remove sel='a/c' pos='before'/>", Reason::INVALID_DIFF_FORMAT),
        ("<remove sel='a/c'>t</remove>", Reason::INVALID_DIFF_FORMAT),
        ("text", Reason::INVALID_DIFF_FORMAT),
        ("<add sel='a'><p:b/></add>", Reason::INVALID_DIFF_FORMAT),
        ("<add sel='a' pos='append'/>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<add sel='a' type='b'/>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<add sel='a' type='@'/>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<add sel='a' type='@xmlns'>urn:u</add>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<add sel='a' type='namespace::'/>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<add sel='a/@x'/>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<remove sel='a/c' ws='all'/>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<remove sel=''/>", Reason::INVALID_ATTRIBUTE_VALUE),
        ("<add sel='a' pos='before' type='@b'/>", Reason::INVALID_PATCH_DIRECTIVE),
        ("<add sel='a/c/text()'>t</add>", Reason::INVALID_PATCH_DIRECTIVE),
        ("<add sel='a/comment()' type='@b'>t</add>", Reason::INVALID_PATCH_DIRECTIVE),
        ("<add sel='a/comment()' type='namespace::p'>urn:u</add>", Reason::INVALID_PATCH_DIRECTIVE),
        ("<add sel='a' type='@x'>2</add>", Reason::INVALID_PATCH_DIRECTIVE),
        ("<remove sel='a/@x' ws='both'/>", Reason::INVALID_PATCH_DIRECTIVE),
        ("<remove sel='a/c/text()' ws='before'/>", Reason::INVALID_PATCH_DIRECTIVE),
        ("<remove sel='a/d'/>", Reason::UNLOCATED_NODE),
        ("<remove sel='a/b'/>", Reason::UNLOCATED_NODE),
        ("<remove sel='a/@y'/>", Reason::UNLOCATED_NODE),
        ("<replace sel='a/c'>t</replace>", Reason::INVALID_NODE_TYPES),
        ("<replace sel='a/c'/>", Reason::INVALID_NODE_TYPES),
        ("<replace sel='a/c'><d/><d/></replace>", Reason::INVALID_NODE_TYPES),
        ("<replace sel='a/c'><!--c--></replace>", Reason::INVALID_NODE_TYPES),
        ("<replace sel='a/comment()'><c/></replace>", Reason::INVALID_NODE_TYPES),
        ("<replace sel='a/c/text()'>t<c/></replace>", Reason::INVALID_NODE_TYPES),
        ("<replace sel='a/@x'><c/></replace>", Reason::INVALID_NODE_TYPES),
        ("<add sel='a' type='@y'>1<!--c--></add>", Reason::INVALID_NODE_TYPES),
        ("<remove sel='a'/>", Reason::INVALID_ROOT_ELEMENT_OPERATION),
        ("<add sel='a' pos='after'><b/></add>", Reason::INVALID_ROOT_ELEMENT_OPERATION),
        ("<add sel='a' pos='before'>t</add>", Reason::INVALID_XML_PROLOG_OPERATION),
        ("<add sel='a' pos='before'><![CDATA[t]]></add>", Reason::INVALID_XML_PROLOG_OPERATION),
        ("<remove sel='a/c' ws='before'/>", Reason::INVALID_WHITESPACE_DIRECTIVE),
        ("<remove sel='a/comment()' ws='after'/>", Reason::INVALID_WHITESPACE_DIRECTIVE),
        ("<remove sel=\"id('i')\"/>", Reason::UNSUPPORTED_ID_FUNCTION),
        ("<add sel='a/c' type='@xml:id'>j</add>", Reason::UNSUPPORTED_XML_ID),
        ("<replace sel='a/@xml:id'>j</replace>", Reason::UNSUPPORTED_XML_ID),
    ] {
        expect_rejection(document, operation, reason);
    }
}

/// The text beside the node must be nothing but white space, not only begin with it.
#[test]
fn text_with_more_than_white_space_is_not_taken_along() {
    let reason = Reason::INVALID_WHITESPACE_DIRECTIVE;
    expect_rejection("<a> t<b/> </a>", "<remove sel='a/b' ws='both'/>", reason);
    expect_rejection("<a> <![CDATA[t]]><b/></a>", "<remove sel='a/b' ws='before'/>", reason);
    expect_rejection("<a><b/> <![CDATA[t]]></a>", "<remove sel='a/b' ws='after'/>", reason);
}

#[test]
fn bodies_that_are_no_patch_are_refused_by_name() {
    let cases: [(&[u8], Reason); 11] = [
        (b"", Reason::INVALID_DIFF_FORMAT),
        (b"<patch>", Reason::INVALID_DIFF_FORMAT),
        (b"{}", Reason::INVALID_DIFF_FORMAT),
        (b"<patch/><patch/>", Reason::INVALID_DIFF_FORMAT),
        (b"<patch><add sel='a' sel='a'/></patch>", Reason::INVALID_DIFF_FORMAT),
        (b"<patch><add sel='a'>\x01</add></patch>", Reason::INVALID_DIFF_FORMAT),
        (b"<patch><add sel='a'>&#1;</add></patch>", Reason::INVALID_DIFF_FORMAT),
        (b"<patch><add sel='a'>\xff</add></patch>", Reason::INVALID_CHARACTER_SET),
        (b"<?xml version='1.0' encoding='latin1'?><patch/>", Reason::INVALID_CHARACTER_SET),
        (b"<!DOCTYPE patch><patch/>", Reason::INVALID_ENTITY_DECLARATION),
        (b"<patch><add sel='a'>&e;</add></patch>", Reason::INVALID_ENTITY_DECLARATION),
    ];
    for (piece, reason) in cases {
        let refused = check(PieceForm::XmlPatch, piece).expect_err("refused");
        assert_eq!(refused.reason, reason, "{refused}");
        let rejected = parse("<a/>").apply(PieceForm::XmlPatch, piece, 1_000);
        assert_eq!(rejected, Err(refused), "the log judges as the door");
    }
}

/// Faults that depend on the document, or on an earlier operation, are judged in the order of the log.
#[test]
fn the_door_refuses_a_bad_value_behind_an_operation_that_may_fail() {
    let operations = "<remove sel='count(a)'/><remove sel='a' ws='all'/>";
    let refused = check(PieceForm::XmlPatch, patch(operations).as_bytes()).expect_err("refused");
    assert_eq!(refused.reason, Reason::INVALID_ATTRIBUTE_VALUE);
    assert!(refused.detail.starts_with("operation 2 ('remove'): "), "{refused}");
}

#[test]
fn details_name_the_operation_the_step_and_the_number_of_nodes() {
    let unlocated =
        |operations| expect_rejection("<a><b/><b/></a>", operations, Reason::UNLOCATED_NODE);
    assert_eq!(
        unlocated("<add sel='a'>t</add><remove sel='/a/b[3]/c'/>"),
        "operation 2 ('remove'): step 2 of 3 ('b[3]') of the selector '/a/b[3]/c' finds 0 nodes, not one"
    );
    assert_eq!(
        unlocated("<remove sel='//b'/>"),
        "operation 1 ('remove'): step 1 of 1 ('b') of the selector '//b' finds 2 nodes, not one"
    );
    let long = unlocated(&format!("<remove sel='{}'/>", "é".repeat(100_000)));
    assert!(long.len() < 1_000, "a detail is short: {} bytes", long.len());
}

#[test]
fn a_failed_patch_leaves_the_document_equal_at_every_operation() {
    let document = "<a xmlns:p='urn:p' x='1'>\n <b p:y='2'>t<p:c/></b> <!--d--><e/>\n</a>";
    let operations = [
        "<add sel='a/b' pos='before'>new<n><m/></n></add>",
        "<add sel='a/b' type='@z'>3</add>",
        "<add sel='a/e' type='namespace::q'>urn:q</add>",
        "<replace sel='a/b/text()'>u<![CDATA[v]]></replace>",
        "<replace sel='a/@x'>9</replace>",
        "<replace sel='a/namespace::p'>urn:r</replace>",
        "<remove sel='a/e/namespace::q'/>",
        "<remove sel='a/b/@z'/>",
        "<remove sel='a/e' ws='after'/>",
        "<replace sel='a/n'><o>1</o></replace>",
        "<remove sel='a/o/text()'/>",
        "<remove sel='a/comment()'/>",
        "<remove sel='a/b'/>",
    ];
    assert!(apply(document, &patch(&operations.concat())).is_ok());
    for count in 0..=operations.len() {
        let failing = format!("{}<remove sel='a/none'/>", operations[..count].concat());
        let rejection = apply(document, &patch(&failing)).expect_err("the last operation fails");
        assert_eq!(rejection.reason, Reason::UNLOCATED_NODE, "{rejection}");
        assert!(rejection.detail.starts_with(&format!("operation {} ", count + 1)), "{rejection}");
    }
}

/// H13: growth is counted before each operation, to the byte.
#[test]
fn a_result_above_the_bound_is_too_large() {
    for (operation, size) in [
        ("<add sel='a/b'><c>&lt;</c></add>", "<a x=\"1\"><b><c>&lt;</c></b>t</a>".len()),
        ("<add sel='a/b' type='@y'>\"</add>", "<a x=\"1\"><b y=\"&quot;\"/>t</a>".len()),
        (
            "<add sel='a/b' type='namespace::p'>urn:u</add>",
            "<a x=\"1\"><b xmlns:p=\"urn:u\"/>t</a>".len(),
        ),
        ("<replace sel='a/text()'>longer</replace>", "<a x=\"1\"><b/>longer</a>".len()),
        ("<replace sel='a/@x'>longer</replace>", "<a x=\"longer\"><b/>t</a>".len()),
        ("<replace sel='a/b'><longer/></replace>", "<a x=\"1\"><longer/>t</a>".len()),
        ("<replace sel='a'><aaaaaaaaaaaaaaaaaaaa/></replace>", "<aaaaaaaaaaaaaaaaaaaa/>".len()),
    ] {
        let document = "<a x='1'><b/>t</a>";
        let patch = patch(operation);
        let fits = apply_within(document, &patch, size);
        assert_eq!(fits.as_ref().map(String::len), Ok(size), "{operation}");
        let rejection = apply_within(document, &patch, size - 1).expect_err(operation);
        assert_eq!(rejection.reason, Reason::TOO_LARGE, "{operation}: {rejection}");
    }
}

/// A collection may lower its bound; its documents can still shrink.
#[test]
fn a_document_above_the_bound_may_shrink_and_not_grow() {
    let smaller = "<replace sel='a/@x'>1</replace><remove sel='a/b'/>";
    let shrunk = apply_within("<a x='long'><b/>t</a>", &patch(smaller), 5);
    assert_eq!(shrunk.as_deref(), Ok("<a x=\"1\">t</a>"));
    let larger = apply_within("<a x='long'/>", &patch("<add sel='a'>t</add>"), 5);
    assert_eq!(larger.map_err(|rejection| rejection.reason), Err(Reason::TOO_LARGE));
}

#[test]
fn a_whole_document_takes_the_place_of_another_within_the_bound() {
    let mut document = parse("<a/>");
    let larger =
        document.apply(PieceForm::Whole, b"<longer/>", 8).map_err(|rejection| rejection.reason);
    assert_eq!((larger, text(&document)), (Err(Reason::TOO_LARGE), "<a/>".into()));
    assert_eq!(document.apply(PieceForm::Whole, b"<longer/>", 9), Ok(()));
    assert_eq!(text(&document), "<longer/>");
}

#[test]
fn pieces_of_other_formats_do_not_change_an_xml_document() {
    for form in [PieceForm::MergePatch, PieceForm::JsonPatch] {
        let applied = parse("<a/>").apply(form, b"{}", 100).map_err(|rejection| rejection.reason);
        let checked = check(form, b"{}").map_err(|rejection| rejection.reason);
        assert_eq!((applied, checked), (Err(Reason::MALFORMED), Err(Reason::MALFORMED)));
    }
}

/// A clone shares nothing that a patch of one of them changes: the plan patches clones on a dry run.
#[test]
fn a_patch_of_a_clone_leaves_the_original() {
    let original = parse("<a xmlns:p='urn:p'><p:b/></a>");
    let mut clone: XmlDocument = original.clone();
    let replace = patch("<replace sel='a/namespace::p'>urn:q</replace>");
    clone.apply(PieceForm::XmlPatch, replace.as_bytes(), 1_000).expect("applied");
    assert_eq!(text(&original), "<a xmlns:p=\"urn:p\"><p:b/></a>");
    assert_eq!(text(&clone), "<a xmlns:p=\"urn:q\"><p:b/></a>");
}
