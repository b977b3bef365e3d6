//! All settings as plain data, for a reference page.

use super::catalog::Catalog;
use super::spec::{Setting, SettingSpec, Visibility};
use crate::parts::configs;

/// A table of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReference {
    /// `http`; `stream.NAME` where the user gives the name; `stream.NAME.amqp` for a table in that; `[route]` for a list
    /// of tables.
    pub name: String,
    pub doc: &'static str,
    pub settings: Vec<SettingReference>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingReference {
    pub name: &'static str,
    /// Its meaning, in lines.
    pub doc: &'static [&'static str],
    /// As a file would have it; none if the setting has no fixed default.
    pub default: Option<String>,
    /// A value as a file would have it.
    pub example: String,
    /// The environment variable that gives it. The settings of declared tables stand in the file alone.
    pub variable: Option<String>,
    /// Whether messages never show its value.
    pub secret: bool,
}

/// All tables with all their settings: those with fixed names first, then those that a user names.
pub fn reference() -> Vec<TableReference> {
    let catalog = Catalog::new(&configs());
    let fixed = catalog.tables().map(|table| TableReference {
        name: table.name.to_owned(),
        doc: table.doc,
        settings: table.all().map(|s| setting(s.spec, Some(s))).collect(),
    });
    let mut tables: Vec<TableReference> = fixed.collect();
    for spec in catalog.declarations() {
        let name = format!("{}.NAME", spec.table);
        tables.push(table_reference(name.clone(), spec.doc, spec.settings));
        for outer in spec.settings.iter().filter(|spec| !spec.inner().is_empty()) {
            let doc = outer.doc.first().copied().unwrap_or_default();
            tables.push(table_reference(format!("{name}.{}", outer.name), doc, outer.inner()));
        }
    }
    tables
}

/// A table whose settings stand in a file alone.
pub(super) fn table_reference(
    name: String,
    doc: &'static str,
    settings: &'static [SettingSpec],
) -> TableReference {
    let settings = settings.iter().map(|spec| setting(spec, None)).collect();
    TableReference { name, doc, settings }
}

/// `given` is the setting where the environment can give it.
fn setting(spec: &'static SettingSpec, given: Option<Setting>) -> SettingReference {
    SettingReference {
        name: spec.name,
        doc: spec.doc,
        default: spec.default_text(),
        example: spec.example_text(),
        variable: given.map(|setting| setting.variable()),
        secret: spec.visibility == Visibility::Secret,
    }
}
