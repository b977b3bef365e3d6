//! Awaiting a server's start: until it answers, or has lost its port to somebody else.

use std::future::Future;
use std::time::Duration;

use crate::process::Process;

/// Starts on fresh ports before the machine is held to be broken: one race can be lost, this many
/// in a row cannot.
pub(crate) const TRIES: usize = 5;

/// Between two looks at a starting server.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// For one look. A server may accept a connection long before it answers on it.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// The lines of a server's output that a panic shows.
const LINES_SHOWN: usize = 30;

/// How a start ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It answers.
    Up,
    /// It ended because one of its ports is in use by somebody else.
    PortTaken,
}

/// Waits until `answers` says that the server answers.
///
/// # Panics
///
/// If the server ends for another reason than a taken port, or does not answer `within` that time;
/// its last output is shown.
pub(crate) async fn await_up<A, F>(process: &mut Process, within: Duration, answers: A) -> Started
where
    A: Fn() -> F,
    F: Future<Output = bool>,
{
    let look = async {
        while process.is_running() {
            if let Ok(true) = tokio::time::timeout(LOOK_WITHIN, answers()).await {
                return true;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        false
    };
    let up = tokio::time::timeout(within, look).await;
    let (name, code, output) = (process.name().to_owned(), process.exit_code(), process.output());
    match up {
        Ok(true) => Started::Up,
        Ok(false) if output.contains("Address already in use") || output.contains("eaddrinuse") => {
            Started::PortTaken
        }
        Ok(false) => panic!("{name} ended at its start with code {code:?}:\n{}", tail(&output)),
        Err(_) => panic!("{name} did not answer within {within:?}:\n{}", tail(&output)),
    }
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
