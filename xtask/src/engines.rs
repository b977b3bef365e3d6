//! That no engine leaves out a case of the contract suites.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use crate::shell::{cargo, read};

/// The engines, each by the module its suites run in, and whether it is a log and a store.
const ENGINES: [(&str, bool, bool); 5] = [
    ("memory", true, true),
    ("embedded_engine", true, true),
    ("redis_engine", true, true),
    ("redis_cluster_engine", true, true),
    ("rabbitmq", true, false),
];
/// The suites of `Store` begin with its name; the model test is one of them.
const STORE_SUITES: [&str; 2] = ["store", "model"];

/// Compares the list of tests with the memory engine's: every engine runs every case.
pub(crate) fn run_every_case() -> Result<()> {
    let list =
        read(&mut cargo(&["nextest", "list", "--workspace", "--message-format", "oneline"]))?;
    let mut cases: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in list.lines() {
        let test = line.split_whitespace().last().unwrap_or_default();
        let Some((engine, case)) = test.split_once("::") else { continue };
        if let Some((engine, _, _)) = ENGINES.iter().find(|(name, _, _)| *name == engine) {
            cases.entry(engine).or_default().insert(case.to_string());
        }
    }
    let all = cases.get("memory").cloned().unwrap_or_default();
    ensure!(all.len() > 50, "the contract suites are not in the list of tests:\n{list}");
    for (engine, log, store) in ENGINES {
        let has = cases.get(engine).cloned().unwrap_or_default();
        let wanted = all.iter().filter(|case| {
            let suite = case.split("::").next().unwrap_or_default();
            (log && suite == "log")
                || (store && STORE_SUITES.iter().any(|of| suite.starts_with(of)))
        });
        let missing: Vec<&String> = wanted.filter(|case| !has.contains(*case)).collect();
        ensure!(missing.is_empty(), "the engine {engine} does not run {missing:?}");
        eprintln!("  {engine}: {} cases", has.len());
    }
    Ok(())
}
