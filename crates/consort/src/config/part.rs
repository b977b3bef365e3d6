//! What a part hands to the config code: its tables, its settings, its reserved paths, its checks and its lines for
//! `consort check`. The parts are those of [`parts::standard`](crate::parts::standard); the config loops over them.

use std::fmt;

use super::catalog::Catalog;
use super::declared::Declaration;
use super::document::Document;
use super::problem::Problem;
use super::reader::Reader;
use super::redact::SecretUrl;
use super::routes::Routes;
use super::spec::{SettingSpec, TableSpec};
use super::typed::{PartSettings, SettingsMap};
use super::{Config, Given};

/// The config side of a part: what [`Part::config`](crate::parts::Part::config) gives.
pub struct PartConfig {
    pub(crate) name: &'static str,
    /// Tables with fixed names.
    pub(crate) tables: &'static [TableSpec],
    /// Tables with names of the user's choice. The parts are read in the order of their list, and each part's
    /// declarations in this order.
    pub(crate) declarations: &'static [DeclarationSpec],
    /// First path segments that no route of a user may begin with.
    pub(crate) reserved: &'static [&'static str],
    /// Puts the part's own type into the config. [`insert_defaults`] does for most parts.
    pub(crate) insert: fn(&mut Config),
    /// Checks across settings, and settings that derive from others. Runs when all sources have been read, in the
    /// order of the list: a part may look at the settings of those before it, as feeds do at those of streams.
    pub(crate) finish: fn(&mut Config, &Given, &mut Vec<Problem>),
    /// What a config declares of the part.
    pub(crate) summary: fn(&Config) -> Summary,
}

/// A table that the user names: `[stream.NAME]`. Only the file declares such tables.
#[derive(Debug)]
pub(crate) struct DeclarationSpec {
    /// The table, which is also the noun for one declaration.
    pub(crate) table: &'static str,
    /// The noun for several.
    pub(crate) plural: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) settings: &'static [SettingSpec],
    /// Reads one declaration into the config, and tells every mistake in it.
    pub(crate) read: fn(&mut Reader<'_>, &Declaration, &mut Context<'_>),
    /// The names that it may have.
    pub(crate) names: NameRule,
    /// Whether settings of other tables name these declarations: they are read before all others.
    pub(crate) named_by_others: bool,
    /// Another declared table whose settings are easily taken for this one's.
    pub(crate) sibling: Option<&'static str>,
    /// Examples for `consort config --defaults`. Together they show every setting.
    pub(crate) examples: &'static [ExampleSpec],
}

/// Names of declarations: letters, digits, `_` and `-`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameRule {
    /// The most characters.
    pub(crate) most: usize,
    /// Whether dots are allowed as well; the header then has the name in quotes.
    pub(crate) dots: bool,
}

impl NameRule {
    /// The rule of most declarations.
    pub(crate) const PLAIN: NameRule = NameRule { most: consort_views::NAME_MOST, dots: false };
}

/// A declaration to start from.
#[derive(Debug)]
pub(crate) struct ExampleSpec {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) settings: &'static [ExampleSetting],
}

/// A setting in an example.
#[derive(Debug)]
pub(crate) enum ExampleSetting {
    /// With the value and the doc of its spec.
    Shown(&'static str),
    /// With another value, and a doc that explains it; an empty doc stands for that of the spec.
    With(&'static str, &'static str, &'static str),
    /// Instead of the setting above: it stays a comment when the example is used.
    Instead(&'static str),
}

/// What a config declares of a part.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Such as `2 streams`.
    pub(crate) counts: Vec<String>,
    /// A line for each declaration.
    pub(crate) lines: Vec<String>,
}

/// What surrounds a declaration while it is read.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a mut Config,
    /// The routes of all parts, which must differ.
    pub(crate) routes: Routes,
    given: &'a mut Given,
    document: &'a Document<'a>,
    /// What a part remembers of one declaration for another.
    notes: SettingsMap,
}

impl DeclarationSpec {
    pub(crate) fn find(&self, setting: &str) -> Option<&'static SettingSpec> {
        self.settings.iter().find(|spec| spec.name == setting)
    }
}

impl PartConfig {
    /// A part without any settings; statics are built from it.
    pub const fn new(name: &'static str) -> PartConfig {
        PartConfig {
            name,
            tables: &[],
            declarations: &[],
            reserved: &[],
            insert: |_| {},
            finish: |_, _, _| {},
            summary: |_| Summary::default(),
        }
    }
}

/// Puts the defaults of a part's type into the config.
pub(crate) fn insert_defaults<T: PartSettings>(config: &mut Config) {
    config.part_mut::<T>();
}

/// `1 field`, `2 fields`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        config: &'a mut Config,
        given: &'a mut Given,
        document: &'a Document<'a>,
        catalog: &Catalog,
    ) -> Context<'a> {
        let routes = Routes::new(catalog);
        Context { config, routes, given, document, notes: SettingsMap::default() }
    }

    /// The declarations of one table, of whichever part, in the order of the file. Those with mistakes are among
    /// them.
    pub(crate) fn declarations(
        &self,
        table: &'static str,
    ) -> impl Iterator<Item = &'a Declaration> + use<'a> {
        let document = self.document;
        document.declarations.iter().filter(move |declaration| declaration.spec.table == table)
    }

    /// The notes of this type, which other declarations of the same config find.
    pub(crate) fn notes<T: PartSettings>(&mut self) -> &mut T {
        self.notes.get_mut()
    }

    /// The engine's broker, which is the default of others. An error if it could not be read.
    pub(crate) fn broker(&self) -> Result<Option<SecretUrl>, ()> {
        match self.given.unreadable.contains("engine.broker") {
            true => Err(()),
            false => Ok(self.config.engine.broker.clone()),
        }
    }

    /// Notes an address that the part connects to with the authority of `[engine] tls_ca`; `None` if it could not
    /// be read.
    pub(crate) fn connects_to(&mut self, url: Option<&str>) {
        match url {
            Some(url) => self.given.over_tls |= url.starts_with("amqps:"),
            None => self.given.may_be_over_tls = true,
        }
    }
}

impl fmt::Debug for PartConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
