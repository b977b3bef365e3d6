//! The flags that give settings, shared by the commands that read a config.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use consort::Config;
use consort::config::{ConfigFile, Flag, Sources};

#[derive(Args)]
pub(crate) struct SettingArgs {
    /// The config file; `consort serve` without one runs the tour in ./consort-tour
    #[arg(short, long = "config", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address and port of the HTTP interface ([http] listen)
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where streams and state are kept ([engine] url)
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
    /// The RabbitMQ that keeps the streams ([engine] broker)
    #[arg(long, value_name = "URL")]
    broker: Option<String>,
    /// This node's name ([node] id)
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// A setting by its path, such as log.level=debug; may be repeated
    #[arg(long, value_name = "PATH.TO.KEY=VALUE")]
    set: Vec<String>,
}

impl SettingArgs {
    /// The same settings as arguments of a child process. Those that follow them win.
    pub(crate) fn as_arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        if let Some(config) = &self.config {
            arguments.extend(["--config".into(), config.clone().into_os_string()]);
        }
        for (flag, value) in [("--engine", &self.engine), ("--broker", &self.broker)] {
            if let Some(value) = value {
                arguments.extend([flag.into(), value.into()]);
            }
        }
        arguments.extend(self.set.iter().flat_map(|set| ["--set".into(), set.into()]));
        arguments
    }

    /// The whole config, or all that is wrong with it in words for the user.
    pub(crate) fn resolve(&self) -> Result<Config, String> {
        let sources = Sources {
            file: self.file()?,
            environment: std::env::vars_os().collect(),
            flags: self.flags(),
        };
        Config::resolve(&sources).map_err(|problems| {
            let count = problems.count();
            let (mistakes, them) =
                if count == 1 { ("mistake", "it") } else { ("mistakes", "them") };
            format!("{count} {mistakes} in the config; mend {them} and try again\n{problems}")
        })
    }

    fn file(&self) -> Result<Option<ConfigFile>, String> {
        let Some(path) = &self.config else { return Ok(None) };
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            format!("cannot read the config file {name}: {error}; `consort config --defaults` prints one to start from")
        })?;
        Ok(Some(ConfigFile { name, text }))
    }

    fn flags(&self) -> Vec<Flag> {
        let named = [
            ("--listen", "http.listen", &self.listen),
            ("--engine", "engine.url", &self.engine),
            ("--broker", "engine.broker", &self.broker),
            ("--node", "node.id", &self.node),
        ];
        let named = named.into_iter().filter_map(|(name, path, value)| {
            value.as_ref().map(|value| Flag::new(name, path, value.clone()))
        });
        named.chain(self.set.iter().map(|text| Flag::set(text))).collect()
    }
}
