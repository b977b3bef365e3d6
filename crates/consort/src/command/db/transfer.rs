//! `consort db backup` and `restore`: whole files, with their progress on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use consort_client::{TransferError, TransferProgress};

use super::{DatabaseArgs, size, told};
use crate::command::print;

/// How often the progress is told on a terminal.
const TOLD_EVERY: Duration = Duration::from_millis(200);

#[derive(Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The file to load
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn backup(arguments: &BackupArgs) -> ExitCode {
    let BackupArgs { database, file } = arguments;
    database.run(async |databases, name| {
        let progress = ProgressLine::default();
        let position = databases.backup(name, file, |step| progress.show(step)).await;
        progress.end();
        let position = position.map_err(|error| failed(&error))?;
        eprintln!("consort: {} has '{name}' as of {position}", file.display());
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn restore(arguments: &RestoreArgs) -> ExitCode {
    let RestoreArgs { database, file } = arguments;
    database.run(async |databases, name| {
        let progress = ProgressLine::default();
        let restored = databases.restore(name, file, move |step| progress.show(step)).await;
        ProgressLine::default().end();
        let restored = restored.map_err(|error| failed(&error))?;
        let position = restored["position"].as_str().unwrap_or_default();
        eprintln!("consort: '{name}' is in a new era, and its workers load the file");
        print(&format!("{position}\n"))?;
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn failed(error: &TransferError) -> String {
    match error {
        TransferError::Node(error) => told(error),
        TransferError::File { .. } => error.to_string(),
    }
}

/// One line of a terminal that is written again and again. Elsewhere it is left out: a log would fill with it.
#[derive(Debug, Default)]
pub(super) struct ProgressLine(Mutex<Option<Instant>>);

impl ProgressLine {
    pub(super) fn show(&self, step: TransferProgress) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let Ok(mut last) = self.0.lock() else { return };
        if last.is_some_and(|last| last.elapsed() < TOLD_EVERY) {
            return;
        }
        *last = Some(Instant::now());
        let mut err = std::io::stderr().lock();
        // A terminal that is gone needs no progress.
        let _ = write!(err, "\r{}\x1b[K", line(step));
        let _ = err.flush();
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(step: TransferProgress) -> String {
    match step.total {
        Some(total) => format!("{} of {}", size(step.done), size(total)),
        None => size(step.done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_the_size_where_it_is_known() {
        let step = |total| line(TransferProgress { done: 2048, total });
        assert_eq!(
            (step(Some(4096)).as_str(), step(None).as_str()),
            ("2.0 KiB of 4.0 KiB", "2.0 KiB")
        );
    }
}
