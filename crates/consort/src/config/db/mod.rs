//! The config of the db part: the databases `[db.NAME]`.

mod database;
mod database_spec;
mod schema_folder;

use consort_db::settings::DatabaseSettings;
use serde_json::{Value, json};

use super::Config;
use super::part::{PartConfig, Summary, counted, insert_defaults};
use super::read::{duration_text, size_text};
pub(crate) use schema_folder::schema_files;

pub(crate) static PART: PartConfig = PartConfig {
    declarations: &[database_spec::DATABASE],
    reserved: &["db"],
    insert: insert_defaults::<DbConfig>,
    summary,
    ..PartConfig::new("db")
};

/// The databases of a config.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DbConfig {
    pub databases: Vec<DatabaseSettings>,
}

impl Config {
    /// The databases.
    pub fn db(&self) -> &DbConfig {
        self.part()
    }

    /// Gives a database another folder of schema files: the tour writes its own.
    pub fn set_schema_folder(&mut self, database: &str, folder: std::path::PathBuf) {
        let databases = &mut self.part_mut::<DbConfig>().databases;
        if let Some(settings) = databases.iter_mut().find(|one| one.name.as_str() == database) {
            settings.schema = Some(folder);
        }
    }
}

/// What all nodes agree on: everything but the folder of schema files, since a node without one starts as well.
pub(crate) fn definition(settings: &DatabaseSettings) -> Value {
    let millis = |time: std::time::Duration| time.as_millis() as u64;
    let DatabaseSettings {
        name: _,
        schema: _,
        readers,
        max_size,
        max_stale,
        wait,
        write_time,
        read_time,
        transaction_time,
        ddl_time,
        max_rows,
        max_answer,
    } = settings;
    json!({
        "readers": {
            "min": readers.min,
            "max": readers.max,
            "per_reads": readers.per_reads,
            "window": millis(readers.window),
        },
        "max_size": max_size,
        "max_stale": millis(*max_stale),
        "wait": millis(*wait),
        "write_time": millis(*write_time),
        "read_time": millis(*read_time),
        "transaction_time": millis(*transaction_time),
        "ddl_time": millis(*ddl_time),
        "max_rows": max_rows,
        "max_answer": max_answer,
    })
}

fn summary(config: &Config) -> Summary {
    let databases = &config.db().databases;
    let counts = (!databases.is_empty()).then(|| counted(databases.len(), "database"));
    Summary {
        counts: counts.into_iter().collect(),
        lines: databases.iter().map(describe_database).collect(),
    }
}

fn describe_database(settings: &DatabaseSettings) -> String {
    let readers = match (settings.readers.min, settings.readers.max) {
        (min, max) if min == max => counted(min.into(), "reader"),
        (min, max) => format!("{min} to {max} readers"),
    };
    let schema = match &settings.schema {
        Some(folder) => {
            // A folder that cannot be read was told before.
            let files = schema_files(folder).map_or(0, |files| files.len());
            format!("{} in {}", counted(files, "schema file"), folder.display())
        }
        None => "no schema files".to_owned(),
    };
    let (name, size) = (&settings.name, size_text(settings.max_size));
    let stale = duration_text(settings.max_stale);
    format!("database '{name}': {readers}, up to {size}, reads up to {stale} stale, {schema}")
}
