//! The `consort` command.

mod command;
mod logging;

use std::process::ExitCode;

use clap::Parser as _;

/// Most of what a node allocates is small, short-lived, and freed by another thread than the one that took
/// it: the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    command::Cli::parse().run()
}
