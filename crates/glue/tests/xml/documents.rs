//! Reading and writing documents: what stays, what is refused and by which name.

use super::{parse, text};
use consort_glue::Reason;
use consort_glue::bounds::MAX_PIECE;
use consort_glue::xml::XmlDocument;

/// Writes a document, and again what is read from that.
fn rewritten(document: &str) -> String {
    let once = text(&parse(document));
    assert_eq!(text(&parse(&once)), once, "serialisation is a fixed point: {document}");
    once
}

#[test]
fn documents_keep_their_parts() {
    for (document, expected) in [
        ("<a></a>", "<a/>"),
        ("<a b = '1' c=\"2\" />", "<a b=\"1\" c=\"2\"/>"),
        ("\u{FEFF}\n<a/>\n", "<a/>"),
        ("<a> \n\t</a>", "<a> \n\t</a>"),
        ("<a>\r\n\r</a>", "<a>\n\n</a>"),
        ("<a>&#13;&#x20AC;&lt;&gt;&amp;&apos;&quot;</a>", "<a>&#xD;€&lt;&gt;&amp;'\"</a>"),
        ("<a b='&#10;&#9;&#13;\n&lt;&quot;&apos;>'/>", "<a b=\"&#xA;&#x9;&#xD; &lt;&quot;'>\"/>"),
        ("<a><![CDATA[<&]]]]></a>", "<a><![CDATA[<&]]]]></a>"),
        ("<a><![CDATA[]]></a>", "<a><![CDATA[]]></a>"),
        ("<a>]] ></a>", "<a>]] &gt;</a>"),
        ("<!-- 1 --><?p  d ?><a/><!-- 2 -->", "<!-- 1 --><?p d ?><a/><!-- 2 -->"),
        ("<?p?><a/>", "<?p?><a/>"),
        ("<?xml version='1.0'?><a/>", "<?xml version=\"1.0\"?><a/>"),
        (
            "<?xml version=\"1.0\" encoding='utf-8' standalone='yes' ?>\n<a/>",
            "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?><a/>",
        ),
        (
            "<p:a x='1' xmlns:p='u&amp;v' xmlns='urn:1'><b xmlns=''/></p:a>",
            "<p:a xmlns:p=\"u&amp;v\" xmlns=\"urn:1\" x=\"1\"><b xmlns=\"\"/></p:a>",
        ),
        (
            "<a xmlns:p='u' xmlns:q='u'><q:b p:c=''/></a>",
            "<a xmlns:p=\"u\" xmlns:q=\"u\"><q:b p:c=\"\"/></a>",
        ),
        ("<é ü='ß'>日本</é>", "<é ü=\"ß\">日本</é>"),
    ] {
        assert_eq!(rewritten(document), expected, "{document}");
    }
}

#[test]
fn bodies_that_are_no_document_are_refused_by_name() {
    for document in [
        "",
        " ",
        "a",
        "<a>",
        "<a/><b/>",
        "<a></b>",
        "<a b='1' b='2'/>",
        "<a b=1/>",
        "<a b='<'/>",
        "<a/>t",
        "t<a/>",
        "<a>&#1;</a>",
        "<a>\u{1}</a>",
        "<a>\u{FFFE}</a>",
        "<a>]]></a>",
        "<a>&</a>",
        "<a>& b;</a>",
        "<!-- -- --><a/>",
        "<?xml?><a/>",
        "<?xml version='2.0'?><a/>",
        "<a><?xml version='1.0'?></a>",
        "<p:a/>",
        "<a p:b=''/>",
        "<:a/>",
        "<a:/>",
        "<a:b:c xmlns:a='u'/>",
        "<a xmlns:p=''/>",
        "<a xmlns:p='u' xmlns:q='u' p:b='' q:b=''/>",
        "<xmlns:a/>",
        "<a xmlns:xmlns='u'/>",
        "<a xmlns:xml='u'/>",
        "<a xmlns:p='http://www.w3.org/2000/xmlns/'/>",
        "<a:1 xmlns:a='u'/>",
        "<1/>",
        "<a",
        "<a b='",
        "<!--",
        "<a><![CDATA[",
        "<a><?p",
        "<![CDATA[a]]><a/>",
        "</a>",
    ] {
        let refused = XmlDocument::parse(document.as_bytes()).expect_err(document);
        assert_eq!(refused.reason, Reason::MALFORMED, "{document}: {refused}");
    }
}

#[test]
fn only_utf_8_is_read() {
    let utf_16: Vec<u8> = "<a/>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let with_mark = [&[0xff, 0xfe], &utf_16[..]].concat();
    let latin: &[u8] = b"<?xml version='1.0' encoding='ISO-8859-1'?><a/>";
    for bytes in [b"<a>\xe9</a>", &with_mark[..], latin] {
        let refused = XmlDocument::parse(bytes).expect_err("refused");
        assert_eq!(refused.reason, Reason::INVALID_CHARACTER_SET, "{refused}");
    }
    // Every second byte is zero, which is UTF-8 and no XML.
    assert!(XmlDocument::parse(&utf_16).is_err());
}

#[test]
fn declared_types_and_entities_are_refused() {
    for document in [
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a SYSTEM 'http://example.com/a.dtd'><a/>",
        "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
        "<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>",
        "<?xml version='1.0'?> <!-- c --> <!DOCTYPE a><a/>",
        "<a>&nbsp;</a>",
        "<a b='&e;'/>",
    ] {
        let refused = XmlDocument::parse(document.as_bytes()).expect_err(document);
        assert_eq!(refused.reason, Reason::INVALID_ENTITY_DECLARATION, "{document}: {refused}");
    }
    // In comments, CDATA and instructions it is text.
    let text = "<!-- <!DOCTYPE a> &e; --><?p &e; <!DOCTYPE a>?><a><![CDATA[&e; <!DOCTYPE a>]]></a>";
    assert_eq!(rewritten(text), text);
}

/// H14: a document has at most 100 levels.
#[test]
fn a_document_has_bounded_depth() {
    let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    assert_eq!(rewritten(&nested(100)).len(), nested(99).len() + 4);
    let refused = XmlDocument::parse(nested(101).as_bytes()).expect_err("refused");
    assert_eq!(refused.reason, Reason::PIECE_TOO_DEEP);
}

/// A document is stored as it is written, so its escapes count as well.
#[test]
fn a_document_has_bounded_size_read_and_written() {
    let plain = |length: usize| format!("<a>{}</a>", "x".repeat(length - 7));
    assert_eq!(parse(&plain(MAX_PIECE)).size(), MAX_PIECE);
    let escaped = format!("<a>{}</a>", ">".repeat(MAX_PIECE / 2));
    for document in [plain(MAX_PIECE + 1), escaped] {
        let refused = XmlDocument::parse(document.as_bytes()).expect_err("refused");
        assert_eq!(refused.reason, Reason::PIECE_TOO_LARGE);
    }
}
