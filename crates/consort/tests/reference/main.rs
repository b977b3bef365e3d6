//! The reference pages come from the code. Each test makes one page anew and compares it with the page in
//! `docs/reference/`; with `WRITE_DOCS=1`, which `cargo xtask docs` sets, it writes the page instead.

mod command_line;
mod config;
mod expressions;
mod formats;
mod http;
mod metrics;
mod problems;

use std::fs;
use std::path::{Path, PathBuf};

/// The first line of every page here.
const MADE: &str = "<!-- Made from the code by `cargo xtask docs`. Do not edit. -->\n";

/// Compares a page of the reference with its text, or writes it.
fn compare(page: &str, text: &str) {
    let text = format!("{MADE}{}\n", text.trim_end());
    let path = root().join("docs/reference").join(page);
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {path:?}: {error}"));
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    for (at, (found, made)) in found.lines().zip(text.lines()).enumerate() {
        let line = at + 1;
        assert_eq!(
            found, made,
            "docs/reference/{page}:{line} is not what the code says: run `cargo xtask docs`"
        );
    }
    assert_eq!(
        found.len(),
        text.len(),
        "docs/reference/{page} has another end: run `cargo xtask docs`"
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A cell of a table: a bar would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A row of a table.
fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    format!("| {} |\n", cells.join(" | "))
}
