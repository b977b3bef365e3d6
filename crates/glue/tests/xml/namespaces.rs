//! Namespaces of selectors, of added content and of declarations (RFC 5261 §4.2).

use super::{apply, expect, expect_rejection, parse, text};
use consort_glue::{PieceForm, Reason};

/// Applies a whole patch and compares the result.
fn expect_patch(document: &str, patch: &str, expected: &str) {
    assert_eq!(apply(document, patch).as_deref(), Ok(expected), "{document} with {patch}");
}

/// §4.2.2: an unprefixed element name takes the patch's default namespace; prefixes are those of the patch.
#[test]
fn selectors_take_their_namespaces_from_the_patch() {
    let document = "<d xmlns='urn:1' xmlns:q='urn:2' q:x='1' x='2'><q:e/><e/></d>";
    let removed = "<d xmlns=\"urn:1\" xmlns:q=\"urn:2\" q:x=\"1\" x=\"2\"><e/></d>";
    for patch in [
        "<patch xmlns='urn:1' xmlns:p='urn:2'><remove sel='d/p:e'/></patch>",
        "<q:patch xmlns:q='urn:1'><q:remove sel='q:d/p:e' xmlns:p='urn:2'/></q:patch>",
        "<patch xmlns='urn:2' xmlns:p='urn:1'><remove sel='p:d/e'/></patch>",
        "<patch xmlns='urn:2'><remove xmlns='urn:1' xmlns:p='urn:2' sel='d[@p:x=\"1\"][@x=\"2\"]/p:e'/></patch>",
    ] {
        expect_patch(document, patch, removed);
    }
    for selector in ["d/e", "*/p:e"] {
        expect_rejection(
            document,
            &format!("<remove xmlns:p='urn:1' xmlns='' sel='/{selector}/none'/>"),
            Reason::UNLOCATED_NODE,
        );
    }
}

/// An attribute without prefix is in no namespace, whatever the default namespace is.
#[test]
fn the_default_namespace_is_not_that_of_attributes() {
    let patch = "<patch xmlns='urn:1'><add sel='d' type='@y'>2</add><remove sel='d/@x'/></patch>";
    expect_patch("<d xmlns='urn:1' x='1'/>", patch, "<d xmlns=\"urn:1\" y=\"2\"/>");
}

/// §4.2.3: a name keeps its namespace, and takes a prefix that is bound to it at the new place.
#[test]
fn added_names_keep_their_namespaces() {
    for (document, patch, expected) in [
        // The prefix of the document.
        (
            "<d xmlns:z='urn:y'/>",
            "<patch xmlns:y='urn:y'><add sel='d'><y:n y:a='1'/></add></patch>",
            "<d xmlns:z=\"urn:y\"><z:n z:a=\"1\"/></d>",
        ),
        // The same prefix first, then the default namespace, then the first in alphabetical order.
        (
            "<d xmlns:a='urn:y' xmlns:y='urn:y'/>",
            "<patch xmlns:y='urn:y'><add sel='d'><y:n/></add></patch>",
            "<d xmlns:a=\"urn:y\" xmlns:y=\"urn:y\"><y:n/></d>",
        ),
        (
            "<d xmlns='urn:y' xmlns:a='urn:y'/>",
            "<p:patch xmlns:p='urn:y'><p:add sel='p:d'><p:n p:a='1'/></p:add></p:patch>",
            "<d xmlns=\"urn:y\" xmlns:a=\"urn:y\"><n a:a=\"1\"/></d>",
        ),
        (
            "<d xmlns:c='urn:y' xmlns:b='urn:y'/>",
            "<patch xmlns:y='urn:y'><add sel='d'><y:n/></add></patch>",
            "<d xmlns:c=\"urn:y\" xmlns:b=\"urn:y\"><b:n/></d>",
        ),
        // No prefix there: the content declares its own.
        (
            "<d/>",
            "<patch xmlns:y='urn:y' xmlns:u='urn:unused'><add sel='d'><y:n><y:m/></y:n></add></patch>",
            "<d><y:n xmlns:y=\"urn:y\"><y:m/></y:n></d>",
        ),
        (
            "<d/>",
            "<patch><add sel='d' xmlns:y='urn:y'><n y:a='1'/></add></patch>",
            "<d><n xmlns:y=\"urn:y\" y:a=\"1\"/></d>",
        ),
        // A prefix that means something else there is declared anew, for the content alone.
        (
            "<d xmlns:y='urn:1'><y:e/></d>",
            "<patch xmlns:y='urn:2'><add sel='d'><y:n/></add></patch>",
            "<d xmlns:y=\"urn:1\"><y:e/><y:n xmlns:y=\"urn:2\"/></d>",
        ),
        // Into and out of a default namespace.
        (
            "<p:d xmlns='urn:1' xmlns:p='urn:2'/>",
            "<patch xmlns:q='urn:2'><add sel='q:d'><n><m/></n></add></patch>",
            "<p:d xmlns=\"urn:1\" xmlns:p=\"urn:2\"><n xmlns=\"\"><m/></n></p:d>",
        ),
        (
            "<d/>",
            "<p:patch xmlns:p='urn:p'><p:add sel='d'><n xmlns='urn:1'><m/></n></p:add></p:patch>",
            "<d><n xmlns=\"urn:1\"><m/></n></d>",
        ),
        // One element needs the prefix p twice: from around it, and declared anew.
        (
            "<d xmlns:p='urn:1'/>",
            "<patch xmlns:q='urn:1' xmlns:p='urn:2'><add sel='d'><q:n p:a='1' q:b='2'/></add></patch>",
            "<d xmlns:p=\"urn:1\"><p:n xmlns:ns1=\"urn:2\" ns1:a=\"1\" p:b=\"2\"/></d>",
        ),
        // Declarations of the content itself stay, and hide those around it.
        (
            "<d xmlns:z='urn:1'/>",
            "<patch xmlns:y='urn:1'><add sel='d'><y:n xmlns:z='urn:2'><z:m/></y:n></add></patch>",
            "<d xmlns:z=\"urn:1\"><y:n xmlns:z=\"urn:2\" xmlns:y=\"urn:1\"><z:m/></y:n></d>",
        ),
        // The prefix xml is bound everywhere.
        (
            "<d/>",
            "<patch><add sel='d'><n xml:lang='en'/></add></patch>",
            "<d><n xml:lang=\"en\"/></d>",
        ),
        // A replaced root element has nothing around it.
        (
            "<d xmlns='urn:1'/>",
            "<patch xmlns:p='urn:1'><replace sel='p:d'><p:n/></replace></patch>",
            "<p:n xmlns:p=\"urn:1\"/>",
        ),
    ] {
        expect_patch(document, patch, expected);
    }
}

#[test]
fn added_attributes_keep_their_namespaces() {
    let add = "<patch xmlns:y='urn:y'><add sel='//e' type='@y:a'>1</add></patch>";
    for (document, expected) in [
        ("<e xmlns:y='urn:y'/>", "<e xmlns:y=\"urn:y\" y:a=\"1\"/>"),
        ("<d xmlns:z='urn:y'><e/></d>", "<d xmlns:z=\"urn:y\"><e z:a=\"1\"/></d>"),
        ("<e/>", "<e xmlns:y=\"urn:y\" y:a=\"1\"/>"),
        // Declared on e, the prefix y would change the name of f.
        (
            "<d xmlns:y='urn:1'><e><y:f/></e></d>",
            "<d xmlns:y=\"urn:1\"><e xmlns:ns1=\"urn:y\" ns1:a=\"1\"><y:f/></e></d>",
        ),
    ] {
        expect_patch(document, add, expected);
    }
    let twice = "<add xmlns:y='urn:y' sel='e' type='@y:a'>1</add>";
    expect_rejection("<e xmlns:z='urn:y' z:a='0'/>", twice, Reason::INVALID_PATCH_DIRECTIVE);
}

#[test]
fn namespaces_are_added_replaced_and_removed() {
    for (document, operation, expected) in [
        ("<d/>", "<add sel='d' type='namespace::p'>urn:1</add>", "<d xmlns:p=\"urn:1\"/>"),
        (
            "<d xmlns:p='urn:1'><e/><p:f/></d>",
            "<add sel='d/e' type='namespace::p'>urn:2</add>",
            "<d xmlns:p=\"urn:1\"><e xmlns:p=\"urn:2\"/><p:f/></d>",
        ),
        (
            "<d xmlns:p='urn:1'><e><p:f/></e></d>",
            "<add sel='d/e' type='namespace::p'>urn:1</add>",
            "<d xmlns:p=\"urn:1\"><e xmlns:p=\"urn:1\"><p:f/></e></d>",
        ),
        (
            "<d xmlns:p='urn:1' xmlns:q='urn:2'/>",
            "<remove sel='d/namespace::p'/>",
            "<d xmlns:q=\"urn:2\"/>",
        ),
        (
            "<d xmlns:p='urn:1'><e xmlns:p='urn:1'><p:f/></e></d>",
            "<remove sel='d/e/namespace::p'/>",
            "<d xmlns:p=\"urn:1\"><e><p:f/></e></d>",
        ),
        (
            "<d xmlns:p='urn:1'><e xmlns:p='urn:2'><p:f/></e></d>",
            "<remove sel='d/namespace::p'/>",
            "<d><e xmlns:p=\"urn:2\"><p:f/></e></d>",
        ),
    ] {
        expect(document, operation, expected);
    }
}

/// Erratum 3478: the namespace changes for all names that have the prefix from this declaration.
#[test]
fn a_replaced_namespace_is_that_of_all_names_below() {
    let document = "<p:d xmlns:p='urn:1' p:x='1'><p:e><f xmlns:p='urn:2'><p:g/></f></p:e></p:d>";
    let replaced = "<patch xmlns:o='urn:1'><replace sel='o:d/namespace::p'>urn:3</replace></patch>";
    let expected =
        "<p:d xmlns:p=\"urn:3\" p:x=\"1\"><p:e><f xmlns:p=\"urn:2\"><p:g/></f></p:e></p:d>";
    expect_patch(document, replaced, expected);
    let follow = "<patch xmlns:o='urn:1' xmlns:n='urn:3' xmlns:t='urn:2'>\
        <replace sel='o:d/namespace::p'>urn:3</replace><remove sel='n:d/@n:x'/><remove sel='n:d/n:e/f/t:g'/></patch>";
    expect_patch(
        document,
        follow,
        "<p:d xmlns:p=\"urn:3\"><p:e><f xmlns:p=\"urn:2\"/></p:e></p:d>",
    );
}

/// The text does not show the namespace of a name, so a later patch looks for it.
#[test]
fn a_failed_patch_leaves_names_in_their_namespaces() {
    let mut document = parse("<d xmlns:p='urn:1'><p:e p:a='1'/></d>");
    let failing = b"<patch xmlns:p='urn:1'><replace sel='d/namespace::p'>urn:2</replace><remove sel='d/p:e'/></patch>";
    let rejection =
        document.apply(PieceForm::XmlPatch, failing, 1_000).expect_err("p:e is in urn:2 by then");
    assert_eq!(rejection.reason, Reason::UNLOCATED_NODE);
    let patch = b"<patch xmlns:o='urn:1'><remove sel='d/o:e/@o:a'/><remove sel='d/o:e'/></patch>";
    assert_eq!(document.apply(PieceForm::XmlPatch, patch, 1_000), Ok(()));
    assert_eq!(text(&document), "<d xmlns:p=\"urn:1\"/>");
}

#[test]
fn namespaces_that_cannot_be_are_refused_by_name() {
    let uri = Reason::INVALID_NAMESPACE_URI;
    let prefix = Reason::INVALID_NAMESPACE_PREFIX;
    for (document, operation, reason) in [
        ("<d/>", "<remove sel='p:d'/>", prefix),
        ("<d/>", "<remove sel=\"d[p:e='1']\"/>", prefix),
        ("<d/>", "<add sel='d' type='@p:a'>1</add>", prefix),
        ("<d/>", "<add sel='d' type='@xmlns:a'>urn:1</add>", prefix),
        ("<d/>", "<add sel='d' type='namespace::xml'>urn:1</add>", prefix),
        ("<d/>", "<add sel='d' type='namespace::xmlns'>urn:1</add>", prefix),
        ("<d xmlns:p='urn:1'/>", "<add sel='d' type='namespace::p'>urn:2</add>", prefix),
        (
            "<d xmlns:p='urn:1'><e p:a='1'/></d>",
            "<add sel='d/e' type='namespace::p'>urn:2</add>",
            prefix,
        ),
        ("<d xmlns:p='urn:1'><p:e/></d>", "<remove sel='d/namespace::p'/>", prefix),
        (
            "<d xmlns:p='urn:1'><e xmlns:p='urn:2' p:a='1'/></d>",
            "<remove sel='d/e/namespace::p'/>",
            prefix,
        ),
        ("<d/>", "<add sel='d' type='namespace::p'/>", uri),
        ("<d/>", "<add sel='d' type='namespace::p'> urn:1 </add>", uri),
        ("<d/>", "<add sel='d' type='namespace::p'>http://www.w3.org/2000/xmlns/</add>", uri),
        (
            "<d/>",
            "<add sel='d' type='namespace::p'>http://www.w3.org/XML/1998/namespace</add>",
            uri,
        ),
        ("<d xmlns:p='urn:1'/>", "<replace sel='d/namespace::p'/>", uri),
        (
            "<d xmlns:p='urn:1' xmlns:q='urn:2' p:a='' q:a=''/>",
            "<replace sel='d/namespace::p'>urn:2</replace>",
            uri,
        ),
        (
            "<d xmlns:p='urn:1'/>",
            "<replace sel='d/namespace::p'><e/></replace>",
            Reason::INVALID_NODE_TYPES,
        ),
        ("<d xmlns:p='urn:1'><e/></d>", "<remove sel='d/e/namespace::p'/>", Reason::UNLOCATED_NODE),
        (
            "<d xmlns:p='urn:1'/>",
            "<remove sel='d/namespace::p' ws='after'/>",
            Reason::INVALID_PATCH_DIRECTIVE,
        ),
    ] {
        expect_rejection(document, operation, reason);
    }
}

/// A larger example in the manner of the appendix of RFC 5261.
#[test]
fn an_electronic_programme_guide_is_patched() {
    let document = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
        <guide xmlns=\"urn:tv\" xmlns:r=\"urn:rating\">\n  \
        <programme id=\"p1\">\n    <title>News</title>\n    <r:age>0</r:age>\n  </programme>\n  \
        <programme id=\"p2\">\n    <title>Film</title>\n    <r:age>12</r:age>\n  </programme>\n</guide>";
    let patch = "<x:patch xmlns='urn:tv' xmlns:age='urn:rating' xmlns:x='urn:ietf:rfc:7351'>\
        <x:replace sel=\"guide/programme[title='Film']/age:age/text()\">16</x:replace>\
        <x:add sel=\"*/programme[@id='p2']\" type='@repeat'>true</x:add>\
        <x:remove sel=\"guide/programme[@id='p1']/age:age\" ws='before'/>\
        <x:add sel=\"guide/programme[1]/title\" pos='after'><age:age>6</age:age></x:add></x:patch>";
    let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
        <guide xmlns=\"urn:tv\" xmlns:r=\"urn:rating\">\n  \
        <programme id=\"p1\">\n    <title>News</title><r:age>6</r:age>\n  </programme>\n  \
        <programme id=\"p2\" repeat=\"true\">\n    <title>Film</title>\n    <r:age>16</r:age>\n  </programme>\n</guide>";
    expect_patch(document, patch, expected);
}
