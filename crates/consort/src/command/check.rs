//! `consort check`: everything that is wrong with a config, or what it would run.

use std::process::ExitCode;

use consort::Config;

use super::settings::SettingArgs;
use super::{FAILED, fail};

pub(super) fn run(settings: &SettingArgs) -> ExitCode {
    let Some(file) = &settings.config else {
        return fail(FAILED, "check needs a config file: consort check -c consort.toml");
    };
    match settings.resolve() {
        Ok(config) => {
            eprintln!("{} is good. {}", file.display(), would_run(&config));
            ExitCode::SUCCESS
        }
        Err(problems) => fail(FAILED, &problems),
    }
}

fn would_run(config: &Config) -> String {
    let engine = &config.engine;
    let node = config
        .node
        .id
        .as_deref()
        .map_or("with a name made at start".to_owned(), |id| format!("'{id}'"));
    let broker =
        engine.broker.as_ref().map_or(String::new(), |broker| format!(", streams on {broker}"));
    let access =
        if config.http.tokens.is_empty() { "open to this machine" } else { "with access tokens" };
    let mut text = format!(
        "It would run:\n  node    {node}\n  http    http://{}, {access}\n  engine  {}{broker}\n          \
         namespace '{}', {} partitions, {} shards",
        config.http.listen,
        engine.url,
        engine.namespace,
        engine.partitions(),
        engine.shards
    );
    text.push_str(&format!("\n  {}", config.counts()));
    for line in config.declared() {
        text.push_str(&format!("\n  {line}"));
    }
    text
}
