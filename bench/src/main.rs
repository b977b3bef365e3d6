//! Benchmarks: `cargo xtask bench engines`.
//!
//! Each figure stands beside its limit or peer, measured in the same run and in turn with it, since the
//! machine's own speed varies: what counts is the ratio.

mod engines;
mod measure;
mod report;

use anyhow::Result;
use clap::Parser;

use measure::Pace;
use report::Report;

#[derive(Parser)]
struct Arguments {
    /// What to measure.
    #[arg(value_parser = ["engines"])]
    what: String,
    /// A short run to see that it works.
    #[arg(long)]
    quick: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let pace = if arguments.quick { Pace::QUICK } else { Pace::FULL };
    let mut report = Report::new(&arguments.what);
    engines::run(pace, &mut report).await?;
    report.print();
    if arguments.quick {
        eprintln!("a quick run: its figures are not kept");
        return Ok(());
    }
    report.write()
}
