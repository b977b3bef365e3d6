//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::start_error::StartError;
use crate::{gateway, orchestrator, rides, up, users};

const HELP: &str = "\
Examples:
  rideshare up                                   everything on this machine; data in ./rideshare-data
  rideshare up --replicas 2 --window 10s         two instances of each service; readers grow and shrink quickly
  rideshare up --engine redis://127.0.0.1:6379/0 Consort keeps its data in Redis
  curl -X PUT http://127.0.0.1:8000/api/v1/users \\
    -d '{\"username\":\"ann\",\"password\":\"3d725109c7e7c0bfb9d709836735b56d943d263f\"}'
  curl http://127.0.0.1:8000/api/v1/users

Each setting is a flag, or a variable: --token-file or RIDESHARE_TOKEN_FILE. RUST_LOG=debug shows more.";

#[derive(Parser)]
#[command(
    name = "rideshare",
    version,
    about = "Users, rides and a gateway that keep all their data in a Consort database",
    after_help = HELP
)]
struct CommandLine {
    #[command(subcommand)]
    process: Process,
}

#[derive(Subcommand)]
enum Process {
    /// Serve users: /api/v1/users
    Users(users::UsersArgs),
    /// Serve rides: /api/v1/rides
    Rides(rides::RidesArgs),
    /// Serve both at one address, and use their healthy instances in turn
    Gateway(gateway::GatewayArgs),
    /// Serve the database itself: its tables, its workers, and drills that end a worker
    Orchestrator(orchestrator::OrchestratorArgs),
    /// Start all of these and a Consort on this machine
    Up(up::UpArgs),
}

/// Runs the program with the arguments of the process.
pub fn run_command_line() -> ExitCode {
    let process = CommandLine::parse().process;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start threads: {error}")),
    };
    match runtime.block_on(run(process)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

async fn run(process: Process) -> Result<(), StartError> {
    match process {
        Process::Users(args) => users::run(args).await,
        Process::Rides(args) => rides::run(args).await,
        Process::Gateway(args) => gateway::run(args).await,
        Process::Orchestrator(args) => orchestrator::run(args).await,
        Process::Up(args) => up::run(args).await,
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("rideshare: {reason}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_setting_has_a_variable() {
        for process in CommandLine::command().get_subcommands() {
            for setting in process.get_arguments().filter(|setting| !setting.is_hide_set()) {
                let variable = setting.get_env().map(|name| name.to_string_lossy().into_owned());
                let long = setting.get_long().unwrap();
                let expected = format!("RIDESHARE_{}", long.replace('-', "_").to_uppercase());
                assert_eq!(variable, Some(expected), "{} --{long}", process.get_name());
            }
        }
    }
}
