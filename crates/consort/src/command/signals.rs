//! The signals that end a command which would run for ever.

use std::io;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Shells report a process ended by signal n as 128 + n.
const ENDED_BY_SIGNAL: u8 = 128;

/// What a process ends with that a second signal ended.
pub(super) fn ended_by(number: u8) -> ExitCode {
    ExitCode::from(ENDED_BY_SIGNAL + number)
}

/// SIGTERM (service managers, containers) and SIGINT (Ctrl-C).
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The number of the next signal.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }
}
