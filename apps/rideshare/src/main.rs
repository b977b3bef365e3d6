//! The `rideshare` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    rideshare::run_command_line()
}
