//! `consort` with a cost for each record, so that a few hundred records a second fill a node and three nodes do more
//! than one on any machine. The cost is a wait: it uses no processor.

use std::process::ExitCode;
use std::time::Duration;

use consort::Extension;
use consort_tests::scaling::capped::{COST_VARIABLE, capped};

fn main() -> ExitCode {
    let micros = std::env::var(COST_VARIABLE).ok().and_then(|cost| cost.parse().ok());
    let cost = Duration::from_micros(micros.unwrap_or_default());
    consort::run_command_line(&Extension::default().with_engine(move |engine| capped(engine, cost)))
}
