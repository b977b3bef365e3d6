//! Benchmarks: `cargo xtask bench engines`, `cargo xtask bench cluster`.
//!
//! Each figure of the engines stands beside its limit or peer, measured in the same run and in turn with
//! it, since the machine's own speed varies: what counts is the ratio. The cluster's figures are times,
//! which stand beside the time to live of a lease.

mod cluster;
mod engines;
mod measure;
mod report;

use anyhow::Result;
use clap::Parser;

use cluster::Rounds;
use measure::Pace;
use report::Report;

#[derive(Parser)]
struct Arguments {
    /// What to measure.
    #[arg(value_parser = ["engines", "cluster"])]
    what: String,
    /// A short run to see that it works.
    #[arg(long)]
    quick: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let results = match arguments.what.as_str() {
        "cluster" => {
            let rounds = if arguments.quick { Rounds::QUICK } else { Rounds::FULL };
            cluster::run(rounds).await?
        }
        what => {
            let pace = if arguments.quick { Pace::QUICK } else { Pace::FULL };
            let mut report = Report::new(what);
            engines::run(pace, &mut report).await?;
            report.results()?
        }
    };
    results.print();
    if arguments.quick {
        eprintln!("a quick run: its figures are not kept");
        return Ok(());
    }
    results.write()
}
