//! `problems.md`: every kind of problem; and the entries of the troubleshooting page.

use std::collections::BTreeSet;
use std::fs;

use consort_server::problems::ALL;

use super::{compare, root, row};

const HEAD: &str = "
# Problems

An answer that is not a success is a JSON object of the media type `application/problem+json`
([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)):

- `type`: `urn:consort:problem:` and one of the names below. Programs should look at this alone.
- `title` and `status`: the HTTP status.
- `detail`: what happened, to what, and what to do.

[Troubleshooting](../operate/troubleshooting.md) has an entry for each of them. The routes of InfluxDB (`/write`,
`/api/v2/write`) answer in the form that InfluxDB's clients expect.

| name | status | meaning | what to do |
| --- | --- | --- | --- |
";

const TROUBLESHOOTING: &str = "docs/operate/troubleshooting.md";

#[test]
fn the_page_of_problems_is_current() {
    let mut text = HEAD.to_owned();
    for kind in ALL {
        let name = format!("[`{0}`](../operate/troubleshooting.md#{0})", kind.name);
        text.push_str(&row(&[&name, kind.status.as_str(), kind.meaning, kind.remedy]));
    }
    compare("problems.md", &text);
}

#[test]
fn troubleshooting_has_an_entry_for_every_problem_and_no_other() {
    let page = fs::read_to_string(root().join(TROUBLESHOOTING)).expect("the page is there");
    let headings: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with('#'))
        .filter_map(|line| line.trim_start_matches('#').trim().strip_prefix('`')?.strip_suffix('`'))
        .filter(|name| !name.contains('`'))
        .collect();
    let unique: BTreeSet<&str> = headings.iter().copied().collect();
    assert_eq!(unique.len(), headings.len(), "a problem has two entries");
    let known: BTreeSet<&str> = ALL.iter().map(|kind| kind.name).collect();
    let missing: Vec<_> = known.difference(&unique).collect();
    let unknown: Vec<_> = unique.difference(&known).collect();
    assert!(missing.is_empty(), "{TROUBLESHOOTING} has no entry for {missing:?}");
    assert!(unknown.is_empty(), "{TROUBLESHOOTING} has entries for no problem: {unknown:?}");
}

#[test]
fn no_problem_is_named_outside_the_list() {
    let mut stack = vec![root().join("crates")];
    while let Some(folder) = stack.pop() {
        for entry in
            fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            let is_test = entry.ends_with("tests") || entry.ends_with("tests.rs");
            if entry.is_dir() && !is_test {
                stack.push(entry);
            } else if entry.extension().is_some_and(|kind| kind == "rs") && !is_test {
                let text = fs::read_to_string(&entry).expect("a source file");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                for (_, rest) in code
                    .match_indices("\"urn:consort:problem:")
                    .map(|(at, _)| code.split_at(at + 1))
                {
                    let name =
                        rest["urn:consort:problem:".len()..].split('"').next().unwrap_or_default();
                    let is_listed = name == "{}" || ALL.iter().any(|kind| kind.name == name);
                    assert!(
                        is_listed,
                        "{entry:?} names the problem '{name}', which is not in problems.rs"
                    );
                }
            }
        }
    }
}
