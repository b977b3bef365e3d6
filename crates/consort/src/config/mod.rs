//! The node's settings: defaults, file, environment and flags, laid over each other in that order.
//!
//! Every setting is one [`SettingSpec`](spec::SettingSpec). The node's own are in [`node_tables`]; each part brings
//! its own in a [`PartConfig`]. File, environment, `--set`, suggestions, redaction,
//! `consort config --defaults` and the [`reference()`] come from the specs. All problems of all sources are
//! collected, each with its place; none of them ever repeats a secret.
//!
//! Streams, views, sinks, collections, tenants, databases and spaces of once have names of the user's choice, so the
//! file alone declares them: [`document`] finds them, and the parts read them.

pub(crate) mod catalog;
mod checks;
pub(crate) mod db;
pub(crate) mod declared;
mod defaults;
mod document;
pub(crate) mod feeds;
pub(crate) mod glue;
mod node_config;
mod node_tables;
pub(crate) mod once;
mod overrides;
pub(crate) mod part;
pub(crate) mod problem;
pub(crate) mod read;
pub(crate) mod reader;
mod redact;
mod reference;
pub mod relay;
mod routes;
pub(crate) mod spec;
mod spot;
pub(crate) mod streams;
mod suggest;
mod typed;

use std::any::type_name;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use db::DbConfig;
pub use defaults::commented_defaults;
pub use feeds::FeedsConfig;
pub use glue::{CollectionSettings, GlueConfig, PieceQueue, TenantSettings};
pub use node_config::{
    ClusterConfig, Durability, EngineConfig, HttpConfig, LogConfig, LogFormat, NodeConfig,
};
pub use once::OnceConfig;
pub use overrides::Flag;
pub use part::PartConfig;
pub use problem::{Problem, Problems};
pub use redact::SecretUrl;
pub use reference::{SettingReference, TableReference, reference};
pub use streams::{AmqpSource, Gate, StreamSettings, StreamsConfig, UdpSource};
pub use typed::PartSettings;

use consort_cluster::ScaleSettings;

use crate::parts::configs;
use catalog::Catalog;
use document::Document;
use part::Context;
use problem::Place;
use read::Raw;
use reader::Reader;
use spec::Setting;
use typed::SettingsMap;

/// The engine of the tour, which runs when no config file is given.
pub const TOUR_ENGINE: &str = "embedded:./consort-tour";

/// What the tour shows: its streams, views and spaces. Its other settings are the defaults.
const TOUR: &str =
    concat!(include_str!("../../../../examples/lifts.toml"), include_str!("tour.toml"));

/// A duration such as "500ms", for the command line.
pub fn duration(text: &str) -> Result<Duration, String> {
    read::duration(&Raw::Loose(text.to_owned()), Duration::ZERO..=Duration::from_secs(3600))
}

/// A size such as "64KiB", for the command line.
pub fn size(text: &str, most: u64) -> Result<u64, String> {
    read::size(&Raw::Loose(text.to_owned()), 0..=most)
}

/// Everything a node can be told.
#[derive(Debug, Clone)]
pub struct Config {
    pub node: NodeConfig,
    pub http: HttpConfig,
    pub engine: EngineConfig,
    pub cluster: ClusterConfig,
    pub scale: ScaleSettings,
    pub log: LogConfig,
    /// The settings of the parts, each by its own type.
    parts: SettingsMap,
    /// The specs that it was read by.
    catalog: Catalog,
}

/// Where settings come from; the environment wins over the file, and the flags over both.
#[derive(Clone, Default)]
pub struct Sources {
    /// Without a file the node runs the tour.
    pub file: Option<ConfigFile>,
    /// The process's environment; only names that begin with `CONSORT_` are looked at.
    pub environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    pub flags: Vec<Flag>,
}

/// A config file that has been read.
#[derive(Clone)]
pub struct ConfigFile {
    /// As the user named it, for messages.
    pub name: String,
    pub text: String,
}

/// The environment is left out: it is full of other programs' secrets.
impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// One setting, given somewhere.
pub(crate) struct Assignment {
    setting: Setting,
    raw: Raw,
    place: Place,
}

/// Where each setting came from, and which could not be read: checks across settings need to know.
#[derive(Default)]
pub(crate) struct Given {
    /// By the paths of settings.
    places: BTreeMap<String, Place>,
    unreadable: BTreeSet<String>,
    /// Whether there is no file, so that the tour runs.
    tour: bool,
    /// Whether a part connects over TLS, and whether it may, by an address that could not be read.
    over_tls: bool,
    may_be_over_tls: bool,
}

impl Config {
    /// Lays all sources over the defaults. Reads the files that `tokens_file` and `schema` name, and no others.
    pub fn resolve(sources: &Sources) -> Result<Config, Problems> {
        Config::resolve_with(sources, &configs())
    }

    /// As [`resolve`](Config::resolve), for a node with these parts alone.
    pub(crate) fn resolve_with(
        sources: &Sources,
        parts: &[&'static PartConfig],
    ) -> Result<Config, Problems> {
        let mut problems = Vec::new();
        let mut config = Config::with_parts(parts);
        let catalog = config.catalog.clone();
        let tour = || ConfigFile { name: "the tour".to_owned(), text: TOUR.to_owned() };
        let file = sources.file.as_ref().map_or_else(|| Cow::Owned(tour()), Cow::Borrowed);
        let mut document = document::read(&file, &catalog, &mut problems);
        let mut assignments = std::mem::take(&mut document.assignments);
        let mut given = Given { tour: sources.file.is_none(), ..Given::default() };
        if given.tour {
            assignments.clear();
            config.engine.url = SecretUrl::new(TOUR_ENGINE);
        }
        overrides::from_environment(
            &sources.environment,
            &catalog,
            &mut assignments,
            &mut problems,
        );
        overrides::from_flags(&sources.flags, &catalog, &mut assignments, &mut problems);
        config.assign(assignments, &mut given, &mut problems);
        config.read_declarations(&document, &mut given, &mut problems);
        for part in catalog.parts() {
            (part.finish)(&mut config, &given, &mut problems);
        }
        if problems.is_empty() { Ok(config) } else { Err(Problems::new(problems)) }
    }

    /// The defaults of a node with these parts.
    fn with_parts(parts: &[&'static PartConfig]) -> Config {
        let mut config = Config {
            node: NodeConfig::default(),
            http: HttpConfig::default(),
            engine: EngineConfig::default(),
            cluster: ClusterConfig::default(),
            scale: ScaleSettings::default(),
            log: LogConfig::default(),
            parts: SettingsMap::default(),
            catalog: Catalog::new(parts),
        };
        parts.iter().for_each(|part| (part.insert)(&mut config));
        config
    }

    fn assign(
        &mut self,
        assignments: Vec<Assignment>,
        given: &mut Given,
        problems: &mut Vec<Problem>,
    ) {
        for Assignment { setting, raw, place } in assignments {
            match setting.read(self, &raw) {
                Ok(()) => {
                    given.places.insert(setting.path(), place);
                }
                Err(wrong) => {
                    given.unreadable.insert(setting.path());
                    problems.push(Problem::new(place, format!("{} {wrong}", setting.named())));
                }
            }
        }
    }

    /// Reads all declarations of a file. Those with a mistake are told and left out.
    fn read_declarations(
        &mut self,
        document: &Document<'_>,
        given: &mut Given,
        problems: &mut Vec<Problem>,
    ) {
        let catalog = self.catalog.clone();
        let mut found = Vec::new();
        let mut context = Context::new(self, given, document, &catalog);
        let (first, then): (Vec<_>, Vec<_>) =
            catalog.declarations().partition(|spec| spec.named_by_others);
        for spec in first.into_iter().chain(then) {
            for declaration in context.declarations(spec.table) {
                let mut reader = Reader::new(declaration, &catalog, &document.spots, &mut found);
                (spec.read)(&mut reader, declaration, &mut context);
            }
        }
        context.routes.check(&document.spots, &mut found);
        document.tell(found, problems);
    }

    /// The settings of a part, by their type.
    ///
    /// # Panics
    ///
    /// If no part of this config has settings of that type: that is a mistake in the program, never in a file.
    pub fn part<T: PartSettings>(&self) -> &T {
        match self.parts.get() {
            Some(settings) => settings,
            None => panic!("no part of this config has settings of type {}", type_name::<T>()),
        }
    }

    /// As [`part`](Config::part), to change them. Inserts the defaults where no part did.
    pub fn part_mut<T: PartSettings>(&mut self) -> &mut T {
        self.parts.get_mut()
    }

    /// A line for each declaration: streams, views, sinks, spaces of once.
    pub fn declared(&self) -> Vec<String> {
        self.catalog.parts().flat_map(|part| (part.summary)(self).lines).collect()
    }

    /// How many declarations there are, such as `2 streams, 3 views`.
    pub fn counts(&self) -> String {
        let counts = self.catalog.parts().flat_map(|part| (part.summary)(self).counts);
        counts.collect::<Vec<_>>().join(", ")
    }
}

/// The defaults of a node with all parts.
impl Default for Config {
    fn default() -> Config {
        Config::with_parts(&configs())
    }
}

#[cfg(test)]
mod tests;
