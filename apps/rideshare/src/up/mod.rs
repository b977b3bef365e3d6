//! `rideshare up`: all processes and a Consort on one machine.

mod children;
mod config;
mod ports;

use std::io::{self, Write as _};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};

use crate::database::{Database, DatabaseArgs};
use crate::shutdown::shutdown;
use crate::start_error::StartError;
use children::Children;
use config::ConsortConfig;
use ports::Ports;

/// How long the first leader may take to apply the schema.
const TABLES_WITHIN: Duration = Duration::from_secs(60);

/// How often the tables are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The settings of `rideshare up`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {
    /// Folder for the config, the schema and the data of Consort
    #[arg(long, env = "RIDESHARE_FOLDER", value_name = "FOLDER", default_value = "rideshare-data")]
    folder: PathBuf,
    /// Instances of users and of rides
    #[arg(long, env = "RIDESHARE_REPLICAS", value_name = "N", default_value = "1")]
    replicas: NonZeroU16,
    /// Window in which Consort counts reads to decide on its readers
    #[arg(long, env = "RIDESHARE_WINDOW", value_name = "TIME", default_value = "2m")]
    window: String,
    /// The gateway's port; users, rides, orchestrator, Consort and further instances take the ports behind it
    #[arg(long, env = "RIDESHARE_PORT", value_name = "PORT", default_value = "8000")]
    port: u16,
    /// Where Consort keeps its data, such as redis://127.0.0.1:6379/0 [default: in the folder]
    #[arg(long, env = "RIDESHARE_ENGINE", value_name = "URL")]
    engine: Option<String>,
    /// The consort program [default: beside this one]
    #[arg(long, env = "RIDESHARE_CONSORT_BINARY", value_name = "FILE")]
    consort_binary: Option<PathBuf>,
}

/// Starts everything, tells where it is, and ends all of it together.
pub(crate) async fn run(args: UpArgs) -> Result<(), StartError> {
    let shutdown = shutdown(false)?;
    let ports = Ports::new(args.port, args.replicas)?;
    let mut children = Children::default();
    let ran = tokio::select! {
        ran = run_all(&args, &ports, &mut children) => ran,
        () = shutdown => Ok(()),
    };
    tracing::info!("ends all processes");
    children.end_all().await;
    ran
}

/// Runs until a child ends by itself.
async fn run_all(args: &UpArgs, ports: &Ports, children: &mut Children) -> Result<(), StartError> {
    start_consort(args, ports, children).await?;
    children.until(has_tables(ports)).await?;
    start_services(ports, children)?;
    children.all_healthy().await?;
    tell(&ports.addresses()).map_err(StartError::Output)?;
    children.one_ends().await
}

/// Writes config and schema into the folder, and starts Consort there.
async fn start_consort(
    args: &UpArgs,
    ports: &Ports,
    children: &mut Children,
) -> Result<(), StartError> {
    let program = consort_program(args.consort_binary.as_deref())?;
    let config = ConsortConfig {
        listen: ports.consort(),
        engine: args.engine.as_deref(),
        window: &args.window,
    };
    config.write(&args.folder)?;
    let mut command = Command::new(program);
    command.args(["serve", "-c", config::CONFIG_FILE, "--until-stdin-closes"]);
    command.current_dir(&args.folder);
    children.start("consort", command, &format!("{}/readyz", ports.consort_url()))?;
    children.all_healthy().await
}

/// Waits until Consort has a leader that has applied the schema.
async fn has_tables(ports: &Ports) -> Result<(), StartError> {
    let database = Database::new(&DatabaseArgs::at(ports.consort_url()))?;
    let deadline = Instant::now() + TABLES_WITHIN;
    while let Err(error) = database.check_tables().await {
        if Instant::now() >= deadline {
            let (name, seconds) = ("the database".to_owned(), TABLES_WITHIN.as_secs());
            return Err(StartError::NotHealthy { name, seconds, reason: error.to_string() });
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn start_services(ports: &Ports, children: &mut Children) -> Result<(), StartError> {
    let program = std::env::current_exe()
        .map_err(|source| StartError::Child { name: "rideshare".to_owned(), source })?;
    for process in ports.processes() {
        let mut command = Command::new(&program);
        command.args(&process.arguments).arg("--until-stdin-closes");
        children.start(&process.name, command, &format!("{}/healthz", process.url))?;
    }
    Ok(())
}

/// The consort program: the named one, or the one beside this program.
fn consort_program(named: Option<&Path>) -> Result<PathBuf, StartError> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.join("consort"));
    let path = named.map(Path::to_owned).or_else(beside).unwrap_or_else(|| "consort".into());
    // The child runs in another folder.
    path.canonicalize().map_err(|_| StartError::NoConsort { path })
}

fn tell(lines: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(lines.as_bytes())?;
    output.flush()
}
