//! The selectors of GLUE §7: each supported form, each refused one with its name.

use super::{expect, expect_rejection};
use consort_glue::Reason;

/// Each selector finds the one `hit`.
#[test]
fn supported_selectors_find_their_node() {
    for (document, selector) in [
        ("<hit/>", "hit"),
        ("<hit/>", "/hit"),
        ("<hit/>", "*"),
        ("<hit/>", "//hit"),
        ("<a><hit/></a>", "/a/hit"),
        ("<a><b/><hit/></a>", "*/*[2]"),
        ("<a><b><hit/></b></a>", "a//hit"),
        ("<a><b><c><hit/></c></b></a>", "//b//hit"),
        ("<a><a><hit/></a></a>", "//a//hit"),
        ("<a><b k='1'/><hit k='2'/></a>", "a/*[@k='2']"),
        ("<a><hit k=\"it's\"/></a>", "a/*[@k=\"it's\"]"),
        ("<a><b><k>1</k></b><hit><k>1</k><k>2</k></hit></a>", "a/*[k='2']"),
        ("<a><b>1</b><hit>2</hit></a>", "a/*[.='2']"),
        ("<a><hit>1<b>2<!--no--><c>3</c></b><![CDATA[4]]></hit></a>", "a/hit[.='1234']"),
        ("<a><hit/></a>", "a/hit[.='']"),
        ("<a><b k='1'/><b/><hit k='1'/></a>", "a/*[@k='1'][2]"),
        ("<a><hit k='1'/><b k='2'/><hit k='2'/></a>", "a/hit[2][@k='2']"),
        ("<a> <hit k='1' l='2'/> </a>", " /a / hit [ @k = '1' ] [@l='2'] "),
        ("<id><text/><hit/></id>", "id/hit"),
    ] {
        let selector = selector.replace('"', "&quot;");
        let operation = format!("<replace sel=\"{selector}\"><found/></replace>");
        // Only the hit has a name of its own, so the expected text follows from the document.
        let start = document.rfind("<hit").expect("a hit");
        let end = match document[start..].find("</hit>") {
            Some(end) => start + end + "</hit>".len(),
            None => start + document[start..].find("/>").expect("an end") + 2,
        };
        let expected =
            format!("{}<found/>{}", &document[..start], &document[end..]).replace('\'', "\"");
        expect(document, &operation, &expected);
    }
}

#[test]
fn other_nodes_are_found_as_the_last_step() {
    let document = "<a k=\"1\">1<?p x?><b/>2<!--3--><?q y?></a>";
    for (selector, expected) in [
        ("a/@k", "<a>1<?p x?><b/>2<!--3--><?q y?></a>"),
        ("//@k", "<a>1<?p x?><b/>2<!--3--><?q y?></a>"),
        ("a/text()[1]", "<a k=\"1\"><?p x?><b/>2<!--3--><?q y?></a>"),
        ("a/text()[.=&apos;2&apos;]", "<a k=\"1\">1<?p x?><b/><!--3--><?q y?></a>"),
        ("a/comment()[.=&apos;3&apos;]", "<a k=\"1\">1<?p x?><b/>2<?q y?></a>"),
        ("a/processing-instruction()[.=&apos;y&apos;]", "<a k=\"1\">1<?p x?><b/>2<!--3--></a>"),
        ("//comment()", "<a k=\"1\">1<?p x?><b/>2<?q y?></a>"),
        ("a/processing-instruction(\"q\")", "<a k=\"1\">1<?p x?><b/>2<!--3--></a>"),
        ("a/processing-instruction()[1]", "<a k=\"1\">1<b/>2<!--3--><?q y?></a>"),
    ] {
        expect(document, &format!("<remove sel='{selector}'/>"), expected);
    }
}

#[test]
fn comments_and_instructions_have_their_text_as_value() {
    for selector in ["a/comment()[.='2']", "a/processing-instruction()[.='p']"] {
        let operation = format!("<remove sel=\"{selector}\"/>");
        expect_rejection("<a><!--1--><?p x?></a>", &operation, Reason::UNLOCATED_NODE);
    }
}

/// `//x[1]` is the first x of *each* parent, as in XPath.
#[test]
fn positions_count_within_each_parent() {
    let document = "<a><b><c/><c/></b><b><c/></b></a>";
    expect(document, "<remove sel='//c[2]'/>", "<a><b><c/></b><b><c/></b></a>");
    let detail = expect_rejection(document, "<remove sel='//c[1]'/>", Reason::UNLOCATED_NODE);
    assert!(detail.ends_with("finds 2 nodes, not one"), "{detail}");
}

/// A node that several ways lead to is one node.
#[test]
fn a_node_counts_once() {
    let document = "<a><a><a><b/></a></a></a>";
    expect(document, "<remove sel='//a//a//b'/>", "<a><a><a/></a></a>");
    let detail = expect_rejection(document, "<remove sel='//a//a'/>", Reason::UNLOCATED_NODE);
    assert!(detail.ends_with("finds 2 nodes, not one"), "{detail}");
}

#[test]
fn xpath_beyond_the_rfc_is_refused_by_its_part() {
    for (selector, part) in [
        ("a/child::b", "the axis 'child'"),
        ("a/descendant::b", "the axis 'descendant'"),
        ("a/..", "'..'"),
        ("a/.", "'.'"),
        ("a | b", "'|'"),
        ("a/b[last()]", "the function 'last'"),
        ("a/b[position()=1]", "the function 'position'"),
        ("count(a)", "the function 'count'"),
        ("a/node()", "the function 'node'"),
        ("a/b[@k]", "a condition without '='"),
        ("a/b[c]", "a condition without '='"),
        ("a/b[@k!='1']", "'!='"),
        ("a/b[@k=1]", "a comparison with anything but a text in quotes"),
        ("a/b[@k='1' and @l='2']", "'and'"),
        ("a/b['1'=@k]", "a condition that begins with a text"),
        ("a/b[1.5]", "'.'"),
        ("a/@*", "'@*'"),
        ("p:*", "'p:*'"),
        ("(a)[1]", "'('"),
        ("$a", "'$'"),
        ("/", "'/' alone, the document itself"),
        ("a/@k/b", "a step behind one that finds no elements"),
        ("a/text()/b", "a step behind one that finds no elements"),
        ("a/@k[1]", "a condition on an attribute or a namespace"),
    ] {
        let operation = format!("<remove xmlns:p='urn:p' sel=\"{selector}\"/>");
        let detail = expect_rejection("<a/>", &operation, Reason::INVALID_PATCH_DIRECTIVE);
        assert!(detail.ends_with(&format!(": {part} is not supported")), "{selector}: {detail}");
    }
    for selector in ["id('v')", "/id('v')/a", "a[id('v')]", "id()"] {
        let operation = format!("<remove sel=\"{selector}\"/>");
        expect_rejection("<a/>", &operation, Reason::UNSUPPORTED_ID_FUNCTION);
    }
}

#[test]
fn texts_that_are_no_selectors_are_refused_at_the_door() {
    for selector in [
        "",
        " ",
        "a/",
        "//",
        "a//",
        "///a",
        "a[",
        "a[1",
        "a[]",
        "a]",
        "a[@k='1]",
        "a[@='1']",
        "@",
        "a/@",
        "1a",
        "a b",
        "a:",
        ":a",
        "a[@k=",
        "a[.=']",
        "text(",
        "processing-instruction('a)",
        "namespace::",
        "é\u{2028}",
        "a[1]]",
        "#",
    ] {
        let operation = format!("<remove sel=\"{selector}\"/>");
        expect_rejection("<a/>", &operation, Reason::INVALID_ATTRIBUTE_VALUE);
    }
}

/// H16: the reading of a selector is bounded, as its walk is.
#[test]
fn a_selector_has_bounded_steps_and_conditions() {
    let unlocated = Reason::UNLOCATED_NODE;
    let refused = Reason::INVALID_PATCH_DIRECTIVE;
    for (selector, reason) in [
        (vec!["a"; 101].join("/"), unlocated),
        (vec!["a"; 102].join("/"), refused),
        (format!("a{}", "[.='b']".repeat(100)), unlocated),
        (format!("a{}", "[.='b']".repeat(101)), refused),
    ] {
        expect_rejection("<a/>", &format!("<remove sel=\"{selector}\"/>"), reason);
    }
}
