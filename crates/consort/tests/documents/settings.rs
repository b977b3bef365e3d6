//! Settings that stand in a page, read as the program reads them.

use consort::Config;
use consort::config::relay::{RelayConfig, RelayFlags};
use consort::config::{ConfigFile, Sources};

/// What `consort check`, or `consort relay`, finds wrong with a config.
pub(crate) fn check(name: &str, text: &str) -> Result<(), String> {
    let file = ConfigFile { name: name.to_owned(), text: text.to_owned() };
    let is_relay = text.lines().any(|line| line.trim_end().starts_with("[relay]"));
    let problems = match is_relay {
        true => {
            let config = RelayConfig::resolve(Some(&file), &RelayFlags::default());
            config.map(drop).map_err(|problems| problems.to_string())
        }
        false => {
            let sources = Sources { file: Some(file), ..Sources::default() };
            Config::resolve(&sources).map(drop).map_err(|problems| problems.to_string())
        }
    };
    problems.map_err(|problems| format!("{problems}\nthe settings:\n{text}"))
}
