//! What must hold for all documents together.

use std::collections::BTreeSet;

use libtest_mimic::{Failed, Trial};

use crate::page::Page;
use crate::{files, links};

/// Each ignored block is a promise that nothing checks.
const IGNORED_AT_MOST: usize = 16;

/// A newcomer decides within a minute.
const README_LINES: usize = 130;

const SUMMARY: &str = "docs/SUMMARY.md";

/// The documentation tests of the pages.
const RUST_PAGES: &str = "crates/consort/src/documents.rs";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("all/every_page_has_its_place_in_the_summary", summary),
        Trial::test("all/the_readme_is_short", readme),
        Trial::test("all/few_blocks_are_ignored", ignored),
        Trial::test("all/rust_blocks_are_documentation_tests", rust),
    ]
}

fn summary() -> Result<(), Failed> {
    let listed: BTreeSet<String> =
        links::targets(SUMMARY, &files::read(SUMMARY)).into_iter().collect();
    let documents = files::documents();
    let pages = documents.iter().filter(|file| file.starts_with("docs/") && *file != SUMMARY);
    let missing: Vec<&String> = pages.filter(|file| !listed.contains(*file)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("{SUMMARY} does not list {missing:?}").into()),
    }
}

fn readme() -> Result<(), Failed> {
    let lines = files::read("README.md").lines().count();
    match lines <= README_LINES {
        true => Ok(()),
        false => Err(format!("README.md has {lines} lines, and at most {README_LINES} fit").into()),
    }
}

fn ignored() -> Result<(), Failed> {
    let mut reasons = Vec::new();
    for file in files::documents() {
        // Mistakes in a page fail the page's own test.
        if let Ok(page) = Page::parse(&file, &files::read(&file)) {
            reasons.extend(page.ignored.iter().map(|reason| format!("{file}: {reason}")));
        }
    }
    eprintln!("{} ignored blocks:\n{}", reasons.len(), reasons.join("\n"));
    match reasons.len() <= IGNORED_AT_MOST {
        true => Ok(()),
        false => Err(format!(
            "{} blocks do not run, and at most {IGNORED_AT_MOST} may:\n{}",
            reasons.len(),
            reasons.join("\n")
        )
        .into()),
    }
}

fn rust() -> Result<(), Failed> {
    let tested = files::read(RUST_PAGES);
    for file in files::documents() {
        let has_rust = Page::parse(&file, &files::read(&file)).is_ok_and(|page| page.has_rust);
        if has_rust && !tested.contains(&format!("/{file}\"")) {
            return Err(
                format!("{file} has Rust code that is not tested: add it to {RUST_PAGES}").into()
            );
        }
    }
    Ok(())
}
