//! What the node writes to standard error while it runs: lines for people, or one JSON object a
//! line.

use std::io::IsTerminal as _;

use consort::config::{LogConfig, LogFormat};
use tracing_subscriber::EnvFilter;

/// What the libraries below have to say is of use only when they fail, or when it is asked for by name:
/// directives of the user's own come later and win.
const QUIET: &str = "fjall=warn,lsm_tree=warn,lapin=warn,redis=warn,hyper=warn";

/// From now on, everything traced goes to standard error. Called once, by `serve`.
pub(crate) fn start(config: &LogConfig) {
    // The level was read when the config was; should it not be readable now, everything from `info`
    // on is told.
    let filter = EnvFilter::try_new(format!("{QUIET},{}", config.level))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

/// Tells the user something at start or stop: a plain line that no log level hides, or, so that a
/// JSON log stays one, an object of level `info`.
pub(crate) fn announce(format: LogFormat, line: &str) {
    match format {
        LogFormat::Text => eprintln!("{line}"),
        LogFormat::Json => tracing::info!("{line}"),
    }
}
