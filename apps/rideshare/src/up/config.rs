//! The config of the Consort that `rideshare up` starts.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use crate::start_error::StartError;

/// The config file, in the folder.
pub(super) const CONFIG_FILE: &str = "consort.toml";

/// The tables: Consort applies the files of its schema folder in order of name, each once.
const SCHEMA: [(&str, &str); 1] = [("01-tables.sql", include_str!("../../schema/01-tables.sql"))];

/// The engine on one machine: files below the folder, in which Consort runs.
const EMBEDDED: &str = "embedded:consort-data";

/// The settings that differ between one `up` and another.
#[derive(Debug)]
pub(super) struct ConsortConfig<'a> {
    pub(super) listen: SocketAddr,
    pub(super) engine: Option<&'a str>,
    pub(super) window: &'a str,
}

impl ConsortConfig<'_> {
    /// Writes config and schema into the folder.
    pub(super) fn write(&self, folder: &Path) -> Result<(), StartError> {
        let schema = folder.join("schema");
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| StartError::Write { path, source }
        };
        fs::create_dir_all(&schema).map_err(failed(&schema))?;
        for (name, text) in SCHEMA {
            let file = schema.join(name);
            fs::write(&file, text).map_err(failed(&file))?;
        }
        let file = folder.join(CONFIG_FILE);
        fs::write(&file, self.text()).map_err(failed(&file))
    }

    fn text(&self) -> String {
        let listen = quoted(&self.listen.to_string());
        let (engine, window) = (quoted(self.engine.unwrap_or(EMBEDDED)), quoted(self.window));
        format!(
            r#"# Written by `rideshare up`.
[http]
listen = {listen}

[engine]
url = {engine}

[db.rideshare]
schema     = "schema"
readers    = {{ min = 1, max = 8, per_reads = 20, window = {window} }}
max_rows   = 1000000
max_answer = "64MiB"
"#
        )
    }
}

/// A text in TOML. JSON quotes it in the same way.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_has_config_and_schema() {
        let folder = tempfile::tempdir().unwrap();
        let listen = "127.0.0.1:8004".parse().unwrap();
        let config = ConsortConfig { listen, engine: None, window: "5s" };
        config.write(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(CONFIG_FILE)).unwrap();
        for line in [
            "listen = \"127.0.0.1:8004\"",
            "url = \"embedded:consort-data\"",
            "readers    = { min = 1, max = 8, per_reads = 20, window = \"5s\" }",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let schema = fs::read_to_string(folder.path().join("schema/01-tables.sql")).unwrap();
        assert!(schema.contains("CREATE TABLE riders"));
    }

    #[test]
    fn texts_are_quoted() {
        let listen = "127.0.0.1:8004".parse().unwrap();
        let engine = Some("redis://:a\"b\\c@h:1/0");
        let text = ConsortConfig { listen, engine, window: "2m" }.text();
        assert!(text.contains(r#"url = "redis://:a\"b\\c@h:1/0""#), "{text}");
    }
}
