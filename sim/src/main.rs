//! The simulator's command: many seeds with progress, or one seed with its trace. Each seed is run for the cluster with
//! its views, and for collections.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use consort_sim::outcome::traced;
use consort_sim::{Coverage, glue, run};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

#[derive(Parser)]
#[command(
    name = "cargo xtask sim",
    about = "Runs the cluster in a simulation, one seed after another"
)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs just this one, and prints the end of its trace.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// How many events of the trace to print.
    #[arg(long, default_value_t = 200)]
    events: usize,
    /// Runs each seed twice, and compares the traces.
    #[arg(long)]
    twice: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let passed = match arguments.seed {
        Some(seed) => one(seed, arguments.events),
        None => many(&arguments),
    };
    match passed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn one(seed: u64, events: usize) -> bool {
    let (result, trace) = traced(seed, events);
    let mut out = std::io::stdout().lock();
    let mut say = |text: String| {
        // Nobody may be reading on.
        let _ = writeln!(out, "{text}");
    };
    match &result {
        Ok(outcome) => {
            trace.into_iter().for_each(&mut say);
            say(format!("seed {seed} holds: {} steps, {:?}", outcome.steps, outcome.time));
            say(format!("trace hash {:016x}\n{}", outcome.hash, outcome.coverage));
        }
        Err(violation) => say(violation.to_string()),
    }
    let collections = glue::run(seed, None);
    match &collections {
        Ok(coverage) => say(format!("collections of seed {seed} hold\n{coverage}")),
        Err(violation) => say(format!("collections: {violation}")),
    }
    result.is_ok() && collections.is_ok()
}

/// Runs the collections of a seed, twice if that is wanted.
fn collections(seed: u64, twice: bool) -> Result<Coverage, String> {
    let coverage = glue::run(seed, None)?;
    match twice && glue::run(seed, None)? != coverage {
        true => Err(format!("collections of seed {seed} came to something else the second time")),
        false => Ok(coverage),
    }
}

fn many(arguments: &Arguments) -> bool {
    let began = Instant::now();
    let mut told = began;
    let mut coverage = Coverage::default();
    let (mut done, mut steps, mut failed) = (0, 0, Vec::new());
    for seed in arguments.from..arguments.from.saturating_add(arguments.seeds) {
        match run(seed, None) {
            Ok(outcome) => {
                steps += outcome.steps;
                coverage.merge(&outcome.coverage);
                if arguments.twice && run(seed, None).map(|again| again.hash) != Ok(outcome.hash) {
                    eprintln!("seed {seed} gave another trace the second time");
                    failed.push(seed);
                }
            }
            Err(violation) => {
                eprintln!("{violation}");
                failed.push(seed);
            }
        }
        match collections(seed, arguments.twice) {
            Ok(happened) => coverage.merge(&happened),
            Err(violation) => {
                eprintln!("collections: {violation}");
                failed.push(seed);
            }
        }
        done += 1;
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(done, arguments.seeds, steps, failed.len(), began.elapsed());
        }
    }
    tell(done, arguments.seeds, steps, failed.len(), began.elapsed());
    eprint!("{coverage}");
    if !failed.is_empty() {
        eprintln!("failed: {failed:?}");
    }
    failed.is_empty()
}

fn tell(done: u64, of: u64, steps: u64, failed: usize, time: Duration) {
    let seconds = time.as_secs_f64().max(0.001);
    let rate = done as f64 / seconds;
    eprintln!(
        "{done} of {of} seeds, {failed} failed, {rate:.1} seeds/s, {:.0} steps/s",
        steps as f64 / seconds
    );
}
