//! What the node writes to standard error while it runs: lines for people, or one JSON object a
//! line.

use std::ffi::OsString;
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
        LogFormat::Text => {
            let no_color = std::env::var_os("NO_COLOR");
            builder.with_ansi(has_color(std::io::stderr().is_terminal(), no_color)).init()
        }
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}

/// Colour is for terminals, and for users who did not turn it off: `NO_COLOR`, set to anything but an empty
/// text, turns it off (no-color.org).
fn has_color(is_terminal: bool, no_color: Option<OsString>) -> bool {
    is_terminal && no_color.is_none_or(|value| value.is_empty())
}

/// Tells the user several things in one piece: no other line comes between them, unless the log is JSON.
pub(crate) fn announce_all(format: LogFormat, lines: &[String]) {
    match format {
        // One call writes all of it: standard error has no buffer that would cut it.
        LogFormat::Text => eprint!("{}", lines.join("\n") + "\n"),
        LogFormat::Json => lines.iter().for_each(|line| announce(format, line)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_whose_user_wants_it() {
        let cases = [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (true, Some("0"), false),
            (false, None, false),
            (false, Some("1"), false),
        ];
        for (is_terminal, no_color, expected) in cases {
            let has = has_color(is_terminal, no_color.map(OsString::from));
            assert_eq!(has, expected, "{is_terminal} {no_color:?}");
        }
    }
}
