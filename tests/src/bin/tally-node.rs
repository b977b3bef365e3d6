//! A node whose only part is the tally: joins, works until it is told to leave, and says on the way out
//! how it left.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::Parser;
use consort::config::{ConfigFile, Flag, Sources};
use consort::parts::RolesPart;
use consort::{Config, Node};
use consort_cluster::{Left, Part};
use consort_tests::cluster::nodes::{JOINED, REPLACED};
use consort_tests::tally::{SHARDS, TallyPart};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Parser)]
struct Arguments {
    /// The engine's address.
    #[arg(long)]
    engine: String,
    /// The broker's address, if the log is on one.
    #[arg(long)]
    broker: Option<String>,
    #[arg(long)]
    namespace: String,
    /// The node's id.
    #[arg(long)]
    node: String,
    #[arg(long)]
    listen: String,
    /// How long a lease lasts.
    #[arg(long)]
    lease: String,
    /// How often leases are renewed.
    #[arg(long)]
    heartbeat: String,
}

/// Some threads are blocked at times, by commits that are late on purpose; the others go on.
#[tokio::main(worker_threads = 8)]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::new("info,consort_cluster=debug,lapin=off");
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).init();
    match run(Arguments::parse()).await {
        Ok(left) => {
            eprintln!("tally-node: {left}");
            match left {
                Left::Drained | Left::Stopped => ExitCode::SUCCESS,
                Left::Replaced { .. } => ExitCode::from(REPLACED),
                Left::Failed { .. } => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("tally-node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<Left> {
    let mut terminated = signal(SignalKind::terminate())?;
    let tally = |services: &_| vec![Arc::new(TallyPart::new(services)) as Arc<dyn Part>];
    let parts = vec![Arc::new(RolesPart::new(tally)) as _];
    let node = Node::start_with(config(arguments)?, parts).await?;
    eprintln!("{JOINED}{}", node.address());
    let left = tokio::select! {
        left = node.left() => left,
        reason = node.failed() => bail!("the engine failed: {reason}"),
        _ = terminated.recv() => Left::Stopped,
    };
    node.stop().await;
    Ok(left)
}

fn config(arguments: Arguments) -> anyhow::Result<Config> {
    let mut settings = vec![
        ("engine.url", arguments.engine),
        ("engine.namespace", arguments.namespace),
        ("engine.shards", SHARDS.to_string()),
        ("node.id", arguments.node),
        ("http.listen", arguments.listen),
        ("cluster.lease", arguments.lease),
        ("cluster.heartbeat", arguments.heartbeat),
    ];
    settings.extend(arguments.broker.map(|broker| ("engine.broker", broker)));
    let flags = settings.into_iter().map(|(path, value)| Flag::new("--set", path, value));
    // An empty file: without any, a node runs its tour on an engine of its own.
    let file = ConfigFile { name: "tally-node".into(), text: String::new() };
    let sources = Sources { file: Some(file), flags: flags.collect(), ..Sources::default() };
    Ok(Config::resolve(&sources)?)
}
