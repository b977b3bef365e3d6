//! The command line: what can be asked, and where it is done.

mod check;
mod serve;
mod settings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use settings::SettingArgs;

/// Config mistakes, a taken port, and whatever has no code of its own.
pub(crate) const FAILED: u8 = 1;

/// The engine could not be opened, or failed for good (EX_IOERR of sysexits.h).
pub(crate) const ENGINE_FAILED: u8 = 74;

const EXAMPLES: &str = "\
Examples:
  consort serve                              take the tour: everything in ./consort-tour, nothing else needed
  consort config --defaults > consort.toml   write a config file to start from
  consort check -c consort.toml              report every mistake in it
  consort serve -c consort.toml              run a node

Exit codes:
  0   done, or stopped by SIGTERM or SIGINT
  1   a mistake in the config, an address in use, or another error
  2   the command line was not understood
  74  the engine could not be opened, or failed while running";

const SERVE_EXAMPLES: &str = "\
Examples:
  consort serve -c consort.toml --listen 127.0.0.1:7500 --node b
  consort serve -c consort.toml --engine redis://127.0.0.1:6379/0 --set engine.namespace=trial
  CONSORT_LOG_FORMAT=json consort serve -c consort.toml

Flags win over environment variables, those over the file, the file over defaults.
Every setting has a variable: CONSORT_, the table, the name, in capitals (CONSORT_HTTP_MAX_BODY).
SIGTERM or SIGINT stops gracefully: running requests are finished; a second signal stops at once.";

const CHECK_EXAMPLES: &str = "\
Environment variables and flags count as they would for `consort serve`.
Exit code 0: the node would start with this. Exit code 1: every mistake is on standard error.";

/// Many nodes, one answer.
///
/// Consort counts each event once although two servers received it, glues a document's pieces in
/// order across workers, computes an answer once although five servers were asked, and stores SQL
/// with an elected writer.
#[derive(Parser)]
#[command(name = "consort", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a node until it is told to stop
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(SettingArgs),
    /// Reads a config and reports everything that is wrong with it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(SettingArgs),
    /// Prints settings
    Config {
        /// Print a commented config file with every setting and its default
        #[arg(long, required = true)]
        defaults: bool,
    },
}

impl Cli {
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            Command::Serve(settings) => serve::run(&settings),
            Command::Check(settings) => check::run(&settings),
            Command::Config { .. } => print_defaults(),
        }
    }
}

fn print_defaults() -> ExitCode {
    use std::io::Write as _;
    match std::io::stdout().write_all(consort::config::commented_defaults().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(FAILED, &format!("cannot write to standard output: {error}")),
    }
}

/// Says on standard error why the command failed.
pub(crate) fn fail(code: u8, reason: &str) -> ExitCode {
    eprintln!("consort: {reason}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
