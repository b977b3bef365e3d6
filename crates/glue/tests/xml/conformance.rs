//! The conformance cases for XML patches, which are not part of the project: they are read from a folder
//! `shared/conformance` beside it. Without that folder the cases are not run, which is reported, and a failure where
//! `CI` is `true`.

use super::{apply, parse, text};
use consort_glue::Reason;
use std::path::{Path, PathBuf};
use uppsala::{Document, NodeId, NodeKind};

#[test]
fn the_conformance_cases_hold() {
    let Some(cases) = cases() else { return };
    let cases = uppsala::parse(&cases).expect("the cases are XML");
    let tests = cases.get_elements_by_tag_name("test");
    assert!(tests.len() >= 19, "{} cases", tests.len());
    for test in tests {
        let name = cases.get_attribute(test, "desc").unwrap_or_default();
        run(&cases, test, name);
    }
}

fn run(cases: &Document<'_>, test: NodeId, name: &str) {
    let part = |part: &str| {
        let is_part = |id: &NodeId| {
            cases.element(*id).is_some_and(|element| &*element.name.local_name == part)
        };
        cases.children(test).into_iter().find(is_part).expect(part)
    };
    let target = content(cases, part("target"));
    let result = apply(&target, &cases.node_to_xml(part("diff")));
    match cases.get_attribute(part("result"), "error") {
        Some(error) => {
            let expected = error.to_lowercase().replace('_', "-");
            let reason = result.expect_err(name).reason;
            assert_eq!(Some(reason), Reason::parse(&expected), "{name}");
        }
        None => {
            let result = result.unwrap_or_else(|rejection| panic!("{name}: {rejection}"));
            // Both are written by the same hand, so texts are equal if the trees are; prefixes agree in all cases.
            assert_eq!(result, text(&parse(&content(cases, part("result")))), "{name}");
        }
    }
}

/// The nodes of a part, as a document.
fn content(cases: &Document<'_>, part: NodeId) -> String {
    let nodes = cases.children(part).into_iter();
    let kept = nodes.filter(|id| !matches!(cases.node_kind(*id), Some(NodeKind::Text(_))));
    kept.map(|id| cases.node_to_xml(id)).collect()
}

fn cases() -> Option<String> {
    let Some(path) = path() else {
        let required = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!required, "shared/conformance/xml-patch.xml is not beside the project");
        eprintln!("not run: shared/conformance/xml-patch.xml is not beside the project");
        return None;
    };
    Some(std::fs::read_to_string(&path).expect("the cases can be read"))
}

/// The cases, in a folder `shared` beside the project or beside a folder that holds it.
fn path() -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/conformance/xml-patch.xml"))
        .find(|path| path.is_file())
}
