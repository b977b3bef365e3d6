//! `consort bench`: puts load on nodes, and checks their answers against its own count.

mod answers;
mod load;
mod progress;
mod rides;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use consort_client::Client;

use super::{FAILED, fail, print};
use load::{Load, Outcome};
use rides::Season;

pub(super) const EXAMPLES: &str = "\
Examples:
  consort bench lifts                                      100,000 rides through 64 connections
  consort bench lifts --requests 1000000 --threads 256
  consort bench lifts --url http://a:7400 --url http://b:7400 --retry

The nodes must run the streams and views of examples/lifts.toml, as `consort serve` without a config
does. Each run posts into a season of its own, so that it can count. Data is on standard output.
Exit code 1: an answer differs from what was counted, or the nodes could not be reached.";

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Posts random lift rides, measures, and checks the six answers
    #[command(after_help = EXAMPLES)]
    Lifts(LiftsArgs),
}

#[derive(Args)]
pub(crate) struct LiftsArgs {
    /// A node's address; several share the load
    #[arg(long, env = "CONSORT_URL", default_value = "http://127.0.0.1:7400")]
    url: Vec<String>,
    /// The access token, where nodes ask for one
    #[arg(long, env = "CONSORT_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// How many rides to post
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    requests: u64,
    /// How many connections post at the same time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    threads: u64,
    /// Give each ride an Idempotency-Key, and send it until it is accepted, so that the count is exact
    /// even while nodes are killed
    #[arg(long)]
    retry: bool,
    /// Of how many skiers the answers are checked
    #[arg(long, default_value_t = 1_000)]
    skiers: usize,
    /// The season to post into; must be new
    #[arg(long, value_parser = Season::named)]
    season: Option<Season>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &BenchCommand) -> ExitCode {
    let BenchCommand::Lifts(arguments) = command;
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => match runtime.block_on(lifts(arguments)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => fail(FAILED, &reason),
        },
        Err(error) => fail(FAILED, &format!("cannot start threads: {error}")),
    }
}

async fn lifts(arguments: &LiftsArgs) -> Result<(), String> {
    let token = arguments.token.as_deref();
    let clients = arguments.url.iter().map(|url| Client::new(url, token));
    let clients: Vec<Client> =
        clients.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let season = match &arguments.season {
        Some(season) => season.clone(),
        None => Season::fresh(),
    };
    let load = Load {
        clients: clients.clone(),
        requests: arguments.requests,
        connections: arguments.threads,
        retry: arguments.retry,
        season: season.clone(),
    };
    let outcome = load.run().await?;
    print(&figures(&outcome, arguments.json))?;
    eprintln!("checking the answers against {} accepted rides …", outcome.rides.len());
    let checked = answers::check(&clients, &season, &outcome, arguments.skiers).await?;
    eprintln!("{checked}");
    match outcome.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} requests failed; {}", outcome.first_failure())),
    }
}

fn figures(outcome: &Outcome, json: bool) -> String {
    let Outcome { rides, refused, failed, took, .. } = outcome;
    let rate = rides.len() as f64 / took.as_secs_f64();
    let times = outcome.times();
    if json {
        let figures = serde_json::json!({
            "requests_per_second": rate, "accepted": rides.len(), "refused": refused, "failed": failed,
            "seconds": took.as_secs_f64(), "mean_ms": times.mean, "median_ms": times.median,
            "p99_ms": times.p99, "max_ms": times.max,
        });
        return format!("{figures}\n");
    }
    format!(
        "accepted    {accepted:>10} rides in {took:.1?}\nthroughput  {rate:>10.0} requests/s\n\
         mean        {mean:>10.2} ms\nmedian      {median:>10.2} ms\np99         {p99:>10.2} ms\n\
         max         {max:>10.2} ms\nrefused     {refused:>10} (503, sent again)\nerrors      {failed:>10}\n",
        accepted = rides.len(),
        mean = times.mean,
        median = times.median,
        p99 = times.p99,
        max = times.max,
    )
}
