//! `consort db dump`: a backup, written as SQL.

use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use consort_db::dump::{DumpError, dump};

use super::DatabaseArgs;
use super::transfer::{ProgressLine, failed};

#[derive(Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A copy that is removed when the command ends.
struct TemporaryCopy(PathBuf);

pub(super) fn run(arguments: &DumpArgs) -> ExitCode {
    arguments.database.run(async |databases, name| {
        let copy = TemporaryCopy::new(name);
        let progress = ProgressLine::default();
        let position = databases.backup(name, &copy.0, |step| progress.show(step)).await;
        progress.end();
        let position = position.map_err(|error| failed(&error))?;
        eprintln!("consort: '{name}' as of {position}");
        write_dump(&copy.0)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes the text to standard output. A reader that has had enough, as `head` has, is no failure.
fn write_dump(file: &Path) -> Result<(), String> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = dump(file, &mut out).and_then(|()| Ok(out.flush()?));
    match written {
        Err(DumpError::Io(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| error.to_string()),
    }
}

impl TemporaryCopy {
    fn new(name: &str) -> TemporaryCopy {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let file = format!("consort-dump-{name}-{}-{now}.db", std::process::id());
        TemporaryCopy(std::env::temp_dir().join(file))
    }
}

impl Drop for TemporaryCopy {
    fn drop(&mut self) {
        // It may not have been created.
        let _ = std::fs::remove_file(&self.0);
    }
}
