//! All specs of the node and of a list of parts, with the lookups that reading a config needs.

use super::node_tables::NODE;
use super::part::{DeclarationSpec, PartConfig};
use super::spec::{Setting, TableSpec, Visibility};

/// The specs of a node with certain parts.
#[derive(Clone, Debug)]
pub(crate) struct Catalog(Vec<&'static PartConfig>);

impl Catalog {
    /// The node's own tables come before those of the parts.
    pub(crate) fn new(parts: &[&'static PartConfig]) -> Catalog {
        Catalog([&NODE].into_iter().chain(parts.iter().copied()).collect())
    }

    /// The specs of these alone.
    pub(crate) fn from_parts(parts: &[&'static PartConfig]) -> Catalog {
        Catalog(parts.to_vec())
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = &'static PartConfig> {
        self.0.iter().copied()
    }

    /// The tables with fixed names.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &'static TableSpec> {
        self.parts().flat_map(|part| part.tables)
    }

    pub(crate) fn table(&self, name: &str) -> Option<&'static TableSpec> {
        self.tables().find(|table| table.name == name)
    }

    /// The settings of all tables with fixed names.
    pub(crate) fn settings(&self) -> impl Iterator<Item = Setting> {
        self.tables().flat_map(TableSpec::all)
    }

    /// The setting of this path, such as `http.listen`.
    pub(crate) fn find(&self, path: &str) -> Option<Setting> {
        let (table, name) = path.split_once('.')?;
        self.table(table)?.all().find(|setting| setting.spec.name == name)
    }

    pub(crate) fn declarations(&self) -> impl Iterator<Item = &'static DeclarationSpec> {
        self.parts().flat_map(|part| part.declarations)
    }

    pub(crate) fn declaration(&self, table: &str) -> Option<&'static DeclarationSpec> {
        self.declarations().find(|spec| spec.table == table)
    }

    /// The declared table that takes a setting which `spec` is easily taken to have.
    pub(crate) fn sibling_with(
        &self,
        spec: &DeclarationSpec,
        setting: &str,
    ) -> Option<&'static str> {
        let sibling = self.declaration(spec.sibling?)?;
        sibling.find(setting).map(|_| sibling.table)
    }

    /// How much of a line may be shown that sets `name`, in whichever table; `None` for an unknown name. The table
    /// that hides most decides. A `url` is the exception: it may be shown as the engine's, without its password.
    pub(crate) fn visibility_of(&self, name: &str) -> Option<Visibility> {
        let fixed = self.settings().map(|setting| setting.spec);
        let declared = self.declarations().flat_map(|spec| spec.settings);
        let all = fixed.chain(declared).flat_map(|spec| [spec].into_iter().chain(spec.inner()));
        let found = all.filter(|spec| spec.name == name).map(|spec| spec.visibility);
        let found: Vec<Visibility> = found.collect();
        match found.contains(&Visibility::Url) {
            true => Some(Visibility::Url),
            false => found.into_iter().max(),
        }
    }

    /// Whether the server or a part has paths that begin with this segment.
    pub(crate) fn reserves(&self, segment: &str) -> bool {
        self.parts().any(|part| part.reserved.contains(&segment))
    }

    /// Why the environment and flags cannot give the settings of a declared table: their names are free.
    pub(crate) fn declared_in_file(&self, spec: &DeclarationSpec) -> String {
        let only_declared = |spec: &DeclarationSpec| self.table(spec.table).is_none();
        let plurals: Vec<&str> = match only_declared(spec) {
            true => self.declarations().filter(|s| only_declared(s)).map(|s| s.plural).collect(),
            false => vec![spec.plural],
        };
        let list = match &plurals[..] {
            [many @ .., last] if !many.is_empty() => format!("{} and {last}", many.join(", ")),
            few => few.concat(),
        };
        format!("{list} are declared in the config file")
    }
}

impl TableSpec {
    /// Its settings.
    pub(crate) fn all(&'static self) -> impl Iterator<Item = Setting> {
        self.settings.iter().map(|spec| Setting { table: self.name, spec })
    }
}
