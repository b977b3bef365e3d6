//! What must hold for all documents together.

use std::collections::BTreeSet;

use libtest_mimic::{Failed, Trial};

use crate::page::Page;
use crate::{files, links};

/// Each ignored block is a promise that nothing checks.
const IGNORED_AT_MOST: usize = 9;

/// A newcomer decides within a minute.
const README_LINES: usize = 130;

const SUMMARY: &str = "docs/SUMMARY.md";

/// The page that says how much is tested.
const TESTED: &str = "docs/about/how-it-is-tested.md";

/// The documentation tests of the pages.
const RUST_PAGES: &str = "crates/consort/src/documents.rs";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("all/every_page_has_its_place_in_the_summary", summary),
        Trial::test("all/the_readme_is_short", readme),
        Trial::test("all/few_blocks_are_ignored", ignored),
        Trial::test("all/rust_blocks_are_documentation_tests", rust),
        Trial::test("all/the_page_on_tests_counts_as_the_code_does", counts),
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

fn counts() -> Result<(), Failed> {
    let page = files::read(TESTED);
    let seeds = thousands(
        constant("sim/tests/seeds.rs", "SEEDS_IN_A_PART") * constant("sim/tests/seeds.rs", "PARTS"),
    );
    let windows = constant("sim/tests/windows.rs", "SEEDS");
    let collections = constant("sim/tests/glue.rs", "SEEDS");
    let rules: usize = ["mutations", "windows", "glue"]
        .map(|name| broken_rules(&format!("sim/tests/{name}.rs")))
        .iter()
        .sum();
    let missing: Vec<String> = [
        format!("{} cases for logs, {} for stores", cases("log_suite"), cases("store_suite")),
        format!("{seeds} seeds, {windows} for windows and {collections} for collections"),
        format!("{rules} rules, each found"),
    ]
    .into_iter()
    .filter(|words| !page.contains(words))
    .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("{TESTED} does not say {missing:?}").into()),
    }
}

/// A number of a constant in a source file.
fn constant(file: &str, name: &str) -> usize {
    let text = files::read(file);
    let line = text.lines().find(|line| line.starts_with(&format!("const {name}: ")));
    let value = line.and_then(|line| line.split_once("= ")?.1.strip_suffix(';'));
    let value = value.and_then(|value| value.replace('_', "").parse().ok());
    value.unwrap_or_else(|| panic!("{file} has no number {name}"))
}

/// How many cases a suite of the contracts has. The model is a test of its own.
fn cases(suite: &str) -> usize {
    let text = files::read("crates/kernel/src/contract/mod.rs");
    let begin = text.find(&format!("macro_rules! {suite} ")).expect("the suite is there");
    let suite = &text[begin..begin + text[begin..].find("\n}\n").expect("the suite ends")];
    let suite = suite.split("contract_cases! { model").next().unwrap_or(suite);
    let is_case = |line: &&str| {
        let name = line.trim();
        line.starts_with("            ")
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    suite.lines().filter(is_case).count()
}

/// How many tests of a file break a rule and find it.
fn broken_rules(file: &str) -> usize {
    files::read(file)
        .lines()
        .filter(|line| line.starts_with("fn ") && line.ends_with("found() {"))
        .count()
}

/// 1,000 for 1000.
fn thousands(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", number / 1_000, number % 1_000),
    }
}
