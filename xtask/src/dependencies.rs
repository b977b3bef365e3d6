//! Licences, bans and sources of all dependencies, as `deny.toml` permits them. A tool such as cargo-deny reads the same
//! file and does more, but takes minutes to build and a network for vulnerabilities; this check takes neither.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::shell::{cargo, read};

const POLICY: &str = "deny.toml";

/// The build that is checked; packages of other systems may not even be there.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug, Deserialize)]
struct Policy {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// None for the packages of this workspace.
    source: Option<String>,
}

/// Checks every package of the workspace's graph.
pub(crate) fn check() -> Result<()> {
    let policy = fs::read_to_string(POLICY).with_context(|| format!("cannot read {POLICY}"))?;
    let policy: Policy =
        toml::from_str(&policy).with_context(|| format!("cannot read {POLICY}"))?;
    let metadata = read(&mut cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        TARGET,
    ]))?;
    let metadata: Metadata = serde_json::from_str(&metadata).context("cargo's metadata")?;
    let wrong: Vec<String> =
        metadata.packages.iter().filter_map(|package| policy.wrong(package)).collect();
    if !wrong.is_empty() {
        bail!("{POLICY} does not permit these packages:\n{}", wrong.join("\n"));
    }
    eprintln!("» {} packages are as {POLICY} permits", metadata.packages.len());
    Ok(())
}

impl Policy {
    /// Why a package is not permitted.
    fn wrong(&self, package: &Package) -> Option<String> {
        let Package { name, version, license, source } = package;
        let source = source.as_deref()?;
        let registry = source.strip_prefix("registry+").unwrap_or_default();
        if !self.sources.allow_registry.contains(registry) {
            return Some(format!("{name} {version} comes from {source}"));
        }
        if let Some(ban) = self.bans.deny.iter().find(|ban| ban.name == *name) {
            return Some(format!("{name} {version} is banned: {}", ban.reason));
        }
        match license {
            None => Some(format!("{name} {version} names no licence")),
            Some(license) if self.permits(license) => None,
            Some(license) => Some(format!("{name} {version} has the licence {license}")),
        }
    }

    /// Whether an SPDX expression can be met by licences that are allowed. `A/B` is how old packages write `A OR B`.
    fn permits(&self, expression: &str) -> bool {
        let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut words = words.as_slice();
        let permitted = self.any(&mut words);
        permitted && words.is_empty()
    }

    fn any(&self, words: &mut &[&str]) -> bool {
        let mut permitted = self.all(words);
        while let ["OR", rest @ ..] = words {
            *words = rest;
            permitted |= self.all(words);
        }
        permitted
    }

    fn all(&self, words: &mut &[&str]) -> bool {
        let mut permitted = self.one(words);
        while let ["AND", rest @ ..] = words {
            *words = rest;
            permitted &= self.one(words);
        }
        permitted
    }

    fn one(&self, words: &mut &[&str]) -> bool {
        match *words {
            ["(", rest @ ..] => {
                *words = rest;
                let permitted = self.any(words);
                let closed = words.first() == Some(&")");
                *words = words.get(1..).unwrap_or_default();
                permitted && closed
            }
            [license, "WITH", exception, rest @ ..] => {
                *words = rest;
                self.licenses.allow.contains(&format!("{license} WITH {exception}"))
            }
            [license, rest @ ..] => {
                *words = rest;
                self.licenses.allow.contains(*license)
            }
            [] => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let text = "[licenses]\nallow = [\"MIT\", \"ISC\", \"Apache-2.0 WITH LLVM-exception\"]\n\
                    [bans]\ndeny = [{ crate = \"bad\", reason = \"it needs cmake\" }]\n\
                    [sources]\nallow-registry = [\"https://registry\"]\n";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn an_expression_is_met_by_permitted_licences_alone() {
        for (expression, permitted) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("MIT AND ISC", true),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("(MIT OR ISC) AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("(MIT", false),
            ("", false),
        ] {
            assert_eq!(policy().permits(expression), permitted, "{expression}");
        }
    }

    #[test]
    fn packages_are_judged_by_source_ban_and_licence() {
        let package = |name: &str, source: Option<&str>, license: Option<&str>| Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(Into::into),
            source: source.map(Into::into),
        };
        let registry = Some("registry+https://registry");
        for (package, wrong) in [
            (package("good", registry, Some("MIT")), None),
            (package("ours", None, None), None),
            (package("bad", registry, Some("MIT")), Some("bad 1.0.0 is banned: it needs cmake")),
            (package("x", registry, None), Some("x 1.0.0 names no licence")),
            (package("x", registry, Some("GPL")), Some("x 1.0.0 has the licence GPL")),
            (
                package("x", Some("git+https://h/x"), Some("MIT")),
                Some("x 1.0.0 comes from git+https://h/x"),
            ),
        ] {
            assert_eq!(policy().wrong(&package).as_deref(), wrong);
        }
    }
}
