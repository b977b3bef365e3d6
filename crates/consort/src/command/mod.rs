//! The command line: what can be asked, and where it is done.

mod bench;
mod check;
mod db;
mod drain;
mod glue;
mod greeting;
mod parent;
mod relay;
mod remote;
mod resolve;
mod sample_upstream;
mod serve;
mod settings;
mod signals;
mod status;
mod table;
mod tour;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::extension::Extension;

use bench::BenchCommand;
use db::DbCommand;
use drain::DrainArgs;
use glue::GlueCommand;
use relay::RelayArgs;
use resolve::ResolveArgs;
use sample_upstream::SampleUpstreamArgs;
use serve::ServeArgs;
use settings::SettingArgs;
use status::StatusArgs;
use up::UpArgs;

/// Runs the command line of this process, with nodes that have what `extension` adds. A program that calls it is
/// `consort` with that addition: `up` starts its nodes as processes of the same program.
pub fn run_command_line(extension: &Extension) -> ExitCode {
    Cli::parse().run(extension)
}

/// Config mistakes, a taken port, and whatever has no code of its own.
pub(crate) const FAILED: u8 = 1;

/// The command did what it was asked to, and found that something is wrong in the cluster.
pub(crate) const SOMETHING_WRONG: u8 = 3;

/// The engine could not be opened, or failed for good (EX_IOERR of sysexits.h).
pub(crate) const ENGINE_FAILED: u8 = 74;

const EXAMPLES: &str = "\
Examples:
  consort serve                              take the tour: data in ./consort-tour, no other program needed
  consort config --defaults > consort.toml   write a config file to start from
  consort check -c consort.toml              report every mistake in it
  consort serve -c consort.toml              run a node
  consort up --max 8 -c consort.toml         run as many nodes on this machine as the load wants
  consort status                             who does what in the cluster, and what is wrong
  consort drain a                            retire node 'a' without an interruption
  consort relay -c relay.toml                copy lines to two nodes, and to a database
  consort glue get content crid://a/1        read a document
  consort db shell notes                     run SQL statements
  consort bench lifts                        post lift rides, measure, and check the answers
  consort sample-upstream                    an upstream to try [once.NAME] with, which can be told to misbehave

Exit codes:
  0   done, stopped by SIGTERM or SIGINT, or retired by `consort drain`
  1   a mistake in the config, an address or node id in use, or another error
  2   the command line was not understood
  3   `consort status` or `consort db status` found something wrong, or a `verify` data that differs
  74  the engine could not be opened, or failed while running";

const SERVE_EXAMPLES: &str = "\
Examples:
  consort serve -c consort.toml --listen 127.0.0.1:7500 --node b
  consort serve -c consort.toml --engine redis://127.0.0.1:6379/0 --set engine.namespace=trial
  CONSORT_LOG_FORMAT=json consort serve -c consort.toml

Flags win over environment variables, those over the file, the file over defaults.
Every setting has a variable: CONSORT_, the table, the name, in capitals (CONSORT_HTTP_MAX_BODY). Streams,
views, sinks, collections, tenants, databases and spaces of once are the exception: the file alone declares
them.
SIGTERM or SIGINT stops gracefully: roles are handed over, running requests are finished; a second
signal stops at once. A node that was killed and is started again with the same id waits until the
lease of the one before has lapsed.";

const CHECK_EXAMPLES: &str = "\
Environment variables and flags count as they would for `consort serve`.
Exit code 0: the node would start with this. Exit code 1: every mistake is on standard error.";

/// Many nodes, one answer.
///
/// Consort keeps views of event streams exact and live on every node, sends the rows of their time windows to
/// InfluxDB, webhooks, RabbitMQ or files, assembles documents from pieces in order, replicates SQL databases, and
/// computes an answer once although many servers are asked. It keeps its data in a local folder, or on Redis, Redis Cluster and RabbitMQ.
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
    Serve(ServeArgs),
    /// Runs as many nodes on this machine as the load wants
    #[command(after_help = up::HELP)]
    Up(UpArgs),
    /// Reads a config and reports everything that is wrong with it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(SettingArgs),
    /// Shows nodes and roles, and what is wrong
    #[command(after_help = status::EXAMPLES)]
    Status(StatusArgs),
    /// Retires a node: it hands its roles over and its process ends
    #[command(after_help = drain::EXAMPLES)]
    Drain(DrainArgs),
    /// Makes a partition go on that stopped because data was lost
    #[command(after_help = resolve::EXAMPLES)]
    Resolve(ResolveArgs),
    /// Reads and changes documents of collections, and checks them against the log
    #[command(subcommand)]
    Glue(GlueCommand),
    /// Shows, queries, backs up and repairs databases
    #[command(subcommand)]
    Db(DbCommand),
    /// Puts load on nodes and checks their answers
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Copies lines to several targets, by UDP and HTTP
    #[command(after_help = relay::EXAMPLES)]
    Relay(RelayArgs),
    /// Runs an upstream to try once with: a list that is another one each time it is asked
    #[command(after_help = sample_upstream::EXAMPLES)]
    SampleUpstream(SampleUpstreamArgs),
    /// Prints settings
    Config {
        /// Print a commented config file with every setting and its default
        #[arg(long, required = true)]
        defaults: bool,
    },
}

impl Cli {
    fn run(self, extension: &Extension) -> ExitCode {
        match self.command {
            Command::Serve(arguments) => serve::run(&arguments, extension),
            Command::Up(arguments) => up::run(&arguments),
            Command::Check(settings) => check::run(&settings),
            Command::Status(arguments) => status::run(&arguments),
            Command::Drain(arguments) => drain::run(&arguments),
            Command::Resolve(arguments) => resolve::run(&arguments),
            Command::Glue(command) => glue::run(&command),
            Command::Db(command) => db::run(&command),
            Command::Bench(command) => bench::run(&command),
            Command::Relay(arguments) => relay::run(&arguments),
            Command::SampleUpstream(arguments) => sample_upstream::run(&arguments),
            Command::Config { .. } => print_defaults(),
        }
    }
}

fn print_defaults() -> ExitCode {
    match print(&consort::config::commented_defaults()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(FAILED, &reason),
    }
}

/// Writes data to standard output. A reader that has had enough, as `head` has, is no failure.
pub(crate) fn print(text: &str) -> Result<(), String> {
    use std::io::{ErrorKind, Write as _};
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
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

    #[test]
    fn the_help_names_everything_that_the_file_alone_declares() {
        let help = super::SERVE_EXAMPLES.replace('\n', " ").to_lowercase();
        let parts = crate::parts::configs();
        let declared = parts.iter().flat_map(|part| part.declarations);
        for plural in declared.map(|spec| spec.plural) {
            assert!(help.contains(plural), "{plural}");
        }
    }
}
