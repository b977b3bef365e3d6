//! Databases: what is read of them, what all nodes agree on, and every mistake with its exact message.

use consort_db::settings::DatabaseSettings;
use consort_db::supervise::scale::ScaleRule;

use super::declarations::told;
use super::*;
use crate::config::db::definition;

/// A folder with two schema files.
fn schema() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("001.sql", "CREATE TABLE t (a)"), ("002.sql", "CREATE INDEX i ON t (a)")]
    {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const REST: &str = "
readers = { min = 2, max = 4, per_reads = 100, window = '30s' }
max_size = '16GiB'
max_stale = '1s'
wait = '3s'
write_time = '100ms'
read_time = '1m'
transaction_time = '0s'
ddl_time = '10m'
max_rows = 7
max_answer = '1KiB'
[db.few]
";

fn resolved(text: &str) -> Config {
    Config::resolve(&file(text)).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn every_setting_of_a_database_is_read() {
    let folder = schema();
    let path = folder.path().display();
    let config = resolved(&format!("[db.all]\nschema = '{path}'{REST}"));
    let [all, few] = &config.db().databases[..] else { panic!("{config:?}") };
    let secs = Duration::from_secs;
    let expected = DatabaseSettings {
        name: "all".parse().unwrap(),
        schema: Some(folder.path().to_owned()),
        readers: ScaleRule { min: 2, max: 4, per_reads: 100, window: secs(30) },
        max_size: 16 << 30,
        max_stale: secs(1),
        wait: secs(3),
        write_time: Duration::from_millis(100),
        read_time: secs(60),
        transaction_time: Duration::ZERO,
        ddl_time: secs(600),
        max_rows: 7,
        max_answer: 1024,
    };
    assert_eq!(*all, expected);
    assert_eq!(*few, DatabaseSettings::new("few".parse().unwrap()));
    let lines = [
        format!(
            "database 'all': 2 to 4 readers, up to 16GiB, reads up to 1s stale, 2 schema files in {path}"
        ),
        "database 'few': 1 to 8 readers, up to 1GiB, reads up to 5s stale, no schema files".into(),
    ];
    assert_eq!(config.declared(), lines);
    assert_eq!(config.counts(), "0 streams, 0 views, 2 databases");
}

#[test]
fn nodes_agree_on_every_setting_but_the_schema_folder() {
    let default = DatabaseSettings::new("notes".parse().unwrap());
    let with_schema = DatabaseSettings { schema: Some("x".into()), ..default.clone() };
    assert_eq!(definition(&default), definition(&with_schema));
    for text in REST.lines().filter(|line| line.contains('=')) {
        let config = resolved(&format!("[db.notes]\n{text}\n"));
        assert_ne!(definition(&config.db().databases[0]), definition(&default), "{text}");
    }
}

#[test]
fn more_readers_at_least_are_more_at_most() {
    let config = resolved("[db.notes]\nreaders = { min = 20 }\n");
    let ScaleRule { min, max, .. } = config.db().databases[0].readers;
    assert_eq!((min, max), (20, 20));
    assert_eq!(
        config.declared(),
        ["database 'notes': 20 readers, up to 1GiB, reads up to 5s stale, no schema files"]
    );
}

/// What stands below `[db.x]`, from line 2 on.
const MISTAKES: &[(&str, &str)] = &[
    ("reders = {}", "2:1: unknown setting 'reders' in [db.x]; did you mean 'readers'?"),
    (
        "readers = 3",
        "2:11: 'readers' in [db.x] must be a table, as in { min = 1, max = 8 }, not a number",
    ),
    ("readers = { mni = 1 }", "2:13: unknown setting 'mni' in [db.x.readers]; did you mean 'min'?"),
    (
        "readers = { max = 65 }",
        "2:19: 'max' in [db.x.readers] must be a whole number from 1 to 64, not 65",
    ),
    (
        "readers = { min = 3, max = 2 }",
        "2:19: 'min' in [db.x.readers] must not be above 'max', but it is 3 of 2",
    ),
    (
        "readers = { window = '1ms' }",
        "2:22: 'window' in [db.x.readers] must be a duration from 1s to 1h, such as \"500ms\", \"10s\" or \"2m\", not \"1ms\"",
    ),
    (
        "max_size = '1KiB'",
        "2:12: 'max_size' in [db.x] must be a size from 1MiB to 16GiB, such as \"64KiB\" or \"8MiB\", not \"1KiB\"",
    ),
    (
        "wait = 2",
        "2:8: 'wait' in [db.x] must be a duration from 10ms to 1m, such as \"500ms\", \"10s\" or \"2m\", not a number",
    ),
    ("max_rows = 0", "2:12: 'max_rows' in [db.x] must be a whole number from 1 to 1000000, not 0"),
    (
        "schema = '/nowhere/schema'",
        "2:10: 'schema' in [db.x]: cannot read /nowhere/schema: No such file or directory (os error 2)",
    ),
    ("schema = ''", "2:10: 'schema' in [db.x] must be the path of a folder, not empty"),
];

#[test]
fn each_mistake_is_told_with_its_place() {
    for (settings, expected) in MISTAKES {
        assert_eq!(told(&format!("[db.x]\n{settings}\n")), [*expected], "{settings}");
    }
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().display();
    assert_eq!(
        told(&format!("[db.x]\nschema = '{path}'\n")),
        [format!("2:10: 'schema' in [db.x]: {path} has no *.sql files")]
    );
}

#[test]
fn names_that_libsql_clients_add_to_paths_are_refused() {
    for (text, expected) in [
        (
            "[db.v2]",
            "1:5: [db.v2] must have another name: clients of libSQL add /v2 and /v3 to the path of a database",
        ),
        (
            "[db.v3]",
            "1:5: [db.v3] must have another name: clients of libSQL add /v2 and /v3 to the path of a database",
        ),
        (
            "[db.'a b']",
            "1:5: the name of a database must be 1 to 64 characters of letters, digits, '_' and '-', not \"a b\"",
        ),
        (
            "[stream.x]\nroute = 'POST /db/x'\nfields = { a = 'int' }",
            "2:9: 'route' in [stream.x] cannot begin with '/db': such paths are Consort's own",
        ),
    ] {
        assert_eq!(told(text), [expected], "{text}");
    }
    assert_eq!(resolved("[db.v4]\n[db.A-b_9]\n").db().databases.len(), 2);
}
