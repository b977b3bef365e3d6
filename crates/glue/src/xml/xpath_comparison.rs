//! Our selectors find the nodes that the XPath of the library finds, in documents without default namespaces.

use super::XmlDocument;
use super::locate::{self, Located, Visits};
use super::names::Scope;
use super::selector::Selector;
use super::tree::{NodeId, Tree};
use proptest::prelude::*;
use uppsala::{Document, NodeKind, XPathEvaluator, XPathValue};

const URI: &str = "urn:p";

/// The places of nodes among their siblings, from the document down, and the name of an attribute.
type Path = (Vec<usize>, String);

fn ours(document: &XmlDocument, selector: &str) -> Vec<Path> {
    let (tree, mut uris) = (&document.tree, document.uris.clone());
    let mut scope = Scope::new(&uris);
    scope.declare("p", uris.binding(URI));
    let selector = Selector::parse(selector, &|prefix| scope.resolve(prefix)).expect(selector);
    let (_, found) = locate::find(tree, &selector, &mut Visits::new()).expect("few visits");
    let mut paths: Vec<Path> = found.iter().map(|located| path(tree, *located)).collect();
    paths.sort();
    paths
}

fn path(tree: &Tree, located: Located) -> Path {
    let (id, attribute) = match located {
        Located::Node(id) => (id, String::new()),
        Located::Attribute(id, at) => {
            let element = tree.element(id).expect("an element");
            (id, element.attributes[at].name.as_str().to_string())
        }
        Located::Declaration(..) => panic!("no selector names a namespace"),
    };
    let ancestors = std::iter::successors(Some(id), |id| tree.parent(*id));
    let place =
        |id| std::iter::successors(tree.previous(id), |id: &NodeId| tree.previous(*id)).count();
    let mut places: Vec<usize> =
        ancestors.take_while(|id| *id != NodeId::DOCUMENT).map(place).collect();
    places.reverse();
    (places, attribute)
}

fn theirs(document: &mut Document<'_>, selector: &str) -> Vec<Path> {
    document.prepare_xpath();
    let mut evaluator = XPathEvaluator::new();
    evaluator.add_namespace("p", URI);
    let value = evaluator.evaluate(document, document.root(), selector);
    let Ok(XPathValue::NodeSet(nodes)) = value else { panic!("{selector}: {value:?}") };
    let mut paths = Vec::new();
    for id in nodes {
        let (mut id, attribute) = match document.node_kind(id) {
            Some(NodeKind::Attribute(name, _)) => {
                (document.parent(id).expect("an owner"), name.prefixed_name().into_owned())
            }
            _ => (id, String::new()),
        };
        let mut places = Vec::new();
        while let Some(parent) = document.parent(id) {
            places.push(
                document.children(parent).iter().position(|child| *child == id).expect("a child"),
            );
            id = parent;
        }
        places.reverse();
        paths.push((places, attribute));
    }
    paths.sort();
    paths
}

fn element() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "p:a", "p:b"]);
    let attributes =
        prop::sample::select(vec!["", " k='1'", " k='2'", " p:k='1'", " k='1' p:k='2'"]);
    let text = prop::sample::select(vec!["", "1", "2", "<!--1-->", "<?t 1?>", "<?u?>1"]);
    let leaf = (name.clone(), attributes.clone(), text.clone())
        .prop_map(|(name, attributes, text)| format!("<{name}{attributes}>{text}</{name}>"));
    leaf.prop_recursive(4, 30, 4, move |inner| {
        let children = proptest::collection::vec((inner, text.clone()), 0..4);
        (name.clone(), attributes.clone(), children).prop_map(|(name, attributes, children)| {
            let children: String = children.into_iter().map(|(child, text)| child + text).collect();
            format!("<{name}{attributes}>{children}</{name}>")
        })
    })
}

fn selector() -> impl Strategy<Value = String> {
    let separator = prop::sample::select(vec!["/", "/", "//"]);
    let name = prop::sample::select(vec!["*", "*", "a", "b", "p:a", "p:b"]);
    let condition = prop::sample::select(vec![
        "",
        "",
        "",
        "[1]",
        "[2]",
        "[@k='1']",
        "[@p:k='2']",
        "[a='1']",
        "[p:b='']",
        "[.='1']",
        "[.='']",
        "[@k='1'][2]",
        "[2][@k='1']",
        "[.='12']",
    ]);
    let last = prop::sample::select(vec![
        "",
        "",
        "",
        "/@k",
        "//@p:k",
        "/text()",
        "//text()[1]",
        "/text()[.='1']",
        "/comment()",
        "//comment()[1]",
        "//processing-instruction()",
        "/processing-instruction()[1]",
    ]);
    let steps = proptest::collection::vec((separator, name, condition), 1..5);
    (steps, last).prop_map(|(steps, last)| {
        let steps = steps
            .into_iter()
            .map(|(separator, name, condition)| [separator, name, condition].concat());
        steps.collect::<String>() + last
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn selectors_find_what_xpath_finds(
        element in element(), selectors in proptest::collection::vec(selector(), 8)
    ) {
        let text = format!("<a xmlns:p='{URI}'>{element}1{element}</a>");
        let document = XmlDocument::parse(text.as_bytes()).expect("a document");
        let mut reference = uppsala::parse(&text).expect("a document");
        for selector in selectors {
            prop_assert_eq!(ours(&document, &selector), theirs(&mut reference, &selector), "{} in {}", selector, text);
        }
    }
}

/// The generated selectors must reach matches, or the comparison would compare nothing.
#[test]
fn the_comparison_sees_nodes_attributes_and_texts() {
    let text = format!("<a xmlns:p='{URI}' k='1'>1<p:b>2</p:b><!--c--></a>");
    let document = XmlDocument::parse(text.as_bytes()).expect("a document");
    let mut reference = uppsala::parse(&text).expect("a document");
    for (selector, expected) in [
        ("//p:b", (vec![0, 1], "")),
        ("/a/@k", (vec![0], "k")),
        ("/a/text()", (vec![0, 0], "")),
        ("//comment()", (vec![0, 2], "")),
    ] {
        let expected = vec![(expected.0, expected.1.to_string())];
        assert_eq!(ours(&document, selector), expected, "{selector}");
        assert_eq!(theirs(&mut reference, selector), expected, "{selector}");
    }
}
