//! Properties over generated documents and patches.

use super::{parse, text};
use consort_glue::PieceForm;
use consort_glue::bounds::MAX_PIECE;
use consort_glue::xml::XmlDocument;
use proptest::prelude::*;

const PREFIXES: [&str; 3] = ["", "p:", "q:"];
const URIS: [&str; 3] = ["urn:1", "urn:2", "urn:3"];

/// Text with characters that need care.
fn content() -> impl Strategy<Value = String> + Clone {
    proptest::collection::vec(
        prop::sample::select(vec![
            "t",
            " ",
            "\n",
            "&lt;",
            "&#13;",
            "&gt;",
            "é",
            "<!--c-->",
            "<?p d?>",
            "<![CDATA[<]]>",
            "]]",
            "&#x9;",
        ]),
        0..4,
    )
    .prop_map(|parts| parts.concat())
}

/// An element of the three prefixes, with some declarations of its own.
fn element() -> impl Strategy<Value = String> {
    let own = (
        0usize..3,
        prop::sample::select(vec!["a", "b", "c"]),
        declarations(),
        attributes(),
        content(),
    );
    let leaf = own.clone().prop_map(|(prefix, name, declared, attributes, text)| {
        tag(PREFIXES[prefix], name, &declared, &attributes, &text)
    });
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (own.clone(), proptest::collection::vec((inner, content()), 0..4)).prop_map(
            |((prefix, name, declared, attributes, text), children)| {
                let children: String =
                    children.into_iter().map(|(child, tail)| child + &tail).collect();
                tag(PREFIXES[prefix], name, &declared, &attributes, &(text + &children))
            },
        )
    })
}

fn tag(prefix: &str, name: &str, declared: &str, attributes: &str, content: &str) -> String {
    format!("<{prefix}{name}{declared}{attributes}>{content}</{prefix}{name}>")
}

fn declarations() -> impl Strategy<Value = String> + Clone {
    proptest::collection::vec(prop::option::weighted(0.2, 0usize..3), 3).prop_map(|uris| {
        let names = ["xmlns", "xmlns:p", "xmlns:q"];
        let declared = names.iter().zip(uris).filter_map(|(name, uri)| Some((name, URIS[uri?])));
        declared.map(|(name, uri)| format!(" {name}='{uri}'")).collect()
    })
}

fn attributes() -> impl Strategy<Value = String> + Clone {
    let values = vec!["", "1", "&lt;&quot;", "&#10;&#9;", "é"];
    proptest::collection::vec(prop::option::weighted(0.3, prop::sample::select(values)), 3)
        .prop_map(|values| {
            let names = ["x", "p:x", "q:y"];
            let set = names.iter().zip(values).filter_map(|(name, value)| Some((name, value?)));
            set.map(|(name, value)| format!(" {name}='{value}'")).collect()
        })
}

/// A document whose root declares both prefixes.
fn document() -> impl Strategy<Value = String> {
    (0usize..3, 0usize..3, prop::option::of(0usize..3), proptest::collection::vec(element(), 1..4))
        .prop_map(|(p, q, default, elements)| {
            let default = default.map_or(String::new(), |uri| format!(" xmlns='{}'", URIS[uri]));
            format!(
                "<root xmlns:p='{}' xmlns:q='{}'{default}>{}</root>",
                URIS[p],
                URIS[q],
                elements.concat()
            )
        })
}

/// A selector that often finds one node in such documents.
fn selector() -> impl Strategy<Value = String> {
    let step = prop::sample::select(vec![
        "/*[1]",
        "/*[2]",
        "//a[1]",
        "//p:b",
        "//q:c",
        "//*[@x='1']",
        "//*[@p:x='1']",
        "/*[3]",
        "//c[.='t']",
    ]);
    let last = prop::sample::select(vec![
        "",
        "",
        "",
        "/text()[1]",
        "/text()[2]",
        "/@x",
        "/@p:x",
        "/@q:y",
        "/namespace::p",
        "/namespace::q",
        "/comment()[1]",
        "/processing-instruction()[1]",
    ]);
    (proptest::collection::vec(step, 0..3), last)
        .prop_map(|(steps, last)| format!("/*{}{last}", steps.concat()))
}

fn operation() -> impl Strategy<Value = String> {
    let added = (
        selector(),
        prop::sample::select(vec!["", " pos='prepend'", " pos='before'", " pos='after'"]),
    )
        .prop_flat_map(|(sel, pos)| {
            (content(), element(), content()).prop_map(move |(before, element, after)| {
                format!("<add sel=\"{sel}\"{pos}>{before}{element}{after}</add>")
            })
        });
    let kinds = vec!["@x", "@p:x", "@q:z", "namespace::p", "namespace::r"];
    let typed =
        (selector(), prop::sample::select(kinds), 0usize..3).prop_map(|(sel, kind, uri)| {
            format!("<add sel=\"{sel}\" type='{kind}'>{}</add>", URIS[uri])
        });
    let replacement = prop_oneof![
        element(),
        prop::sample::select(vec!["urn:2", "text", "", "<!--n-->", "<?n?>", "1<![CDATA[>]]>"])
            .prop_map(String::from),
    ];
    let replaced = (selector(), replacement)
        .prop_map(|(sel, new)| format!("<replace sel=\"{sel}\">{new}</replace>"));
    let white_space = vec!["", "", " ws='before'", " ws='after'", " ws='both'"];
    let removed = (selector(), prop::sample::select(white_space))
        .prop_map(|(sel, ws)| format!("<remove sel=\"{sel}\"{ws}/>"));
    prop_oneof![added, typed, replaced, removed]
}

/// A patch whose prefixes may mean other namespaces than those of the document.
fn patch() -> impl Strategy<Value = String> {
    (
        0usize..3,
        0usize..3,
        prop::option::of(0usize..3),
        proptest::collection::vec(operation(), 1..5),
    )
        .prop_map(|(p, q, default, operations)| {
            let default = default.map_or(String::new(), |uri| format!(" xmlns='{}'", URIS[uri]));
            format!(
                "<patch xmlns:p='{}' xmlns:q='{}'{default}>{}</patch>",
                URIS[p],
                URIS[q],
                operations.concat()
            )
        })
}

/// Each element and attribute with its namespace, and each text, as the parser of the library sees them.
fn names(document: &str) -> Vec<String> {
    let document = uppsala::parse(document).unwrap_or_else(|error| panic!("{error}: {document}"));
    let mut names = Vec::new();
    for id in document.descendants(document.root()) {
        let Some(element) = document.element(id) else { continue };
        names.push(format!("{:?} {}", element.name.namespace_uri, element.name.local_name));
        for attribute in &element.attributes {
            let name = &attribute.name;
            names
                .push(format!("{:?} @{}={}", name.namespace_uri, name.local_name, attribute.value));
        }
    }
    names.sort();
    names
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some generated documents are refused, as where two attributes get one name; the others are kept.
    #[test]
    fn serialisation_is_a_fixed_point_and_keeps_every_name(document in document()) {
        if let Ok(tree) = XmlDocument::parse(document.as_bytes()) {
            let once = text(&tree);
            prop_assert_eq!(&text(&parse(&once)), &once);
            prop_assert_eq!(names(&once), names(&document));
        }
    }

    #[test]
    fn a_patched_document_is_read_again_and_a_failed_patch_changes_nothing(
        document in document(), patches in proptest::collection::vec(patch(), 1..6)
    ) {
        let Ok(mut tree) = XmlDocument::parse(document.as_bytes()) else { return Ok(()) };
        for patch in patches {
            let before = text(&tree);
            // The same patch on the tree that is read from the text has the same outcome.
            let mut fresh = parse(&before);
            let outcome = fresh.apply(PieceForm::XmlPatch, patch.as_bytes(), MAX_PIECE);
            let applied = tree.apply(PieceForm::XmlPatch, patch.as_bytes(), MAX_PIECE);
            prop_assert_eq!(&applied, &outcome, "{} with {}", before, patch);
            let after = text(&tree);
            prop_assert_eq!(&text(&fresh), &after, "{} with {}", before, patch);
            match applied {
                Ok(()) => {
                    let again = XmlDocument::parse(after.as_bytes());
                    prop_assert!(again.is_ok(), "{:?}: {} with {}", again, before, patch);
                    prop_assert_eq!(&text(&parse(&after)), &after, "{} with {}", before, patch);
                }
                Err(_) => prop_assert_eq!(after, before, "{}", patch),
            }
        }
    }

    /// Added content has the names that it has in the patch, whatever prefixes the document binds.
    #[test]
    fn added_content_keeps_its_names(document in document(), element in element(), p in 0usize..3, q in 0usize..3) {
        let Ok(mut tree) = XmlDocument::parse(document.as_bytes()) else { return Ok(()) };
        let declared = format!("xmlns:p='{}' xmlns:q='{}'", URIS[p], URIS[q]);
        let patch = format!("<patch {declared}><add sel='/*'>{element}</add></patch>");
        let before = names(&text(&tree));
        let Ok(()) = tree.apply(PieceForm::XmlPatch, patch.as_bytes(), MAX_PIECE) else { return Ok(()) };
        let wrapped = parse(&format!("<wrapper {declared}>{element}</wrapper>"));
        let mut expected = names(&text(&wrapped));
        expected.retain(|name| name != "None wrapper");
        expected.extend(before);
        expected.sort();
        prop_assert_eq!(names(&text(&tree)), expected, "{} with {}", document, patch);
    }
}
