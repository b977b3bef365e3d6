//! `consort db`: databases from the command line. Data goes to standard output, words and progress to standard error.

mod dump;
mod orders;
mod rows;
mod shell;
mod status;
mod transfer;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use consort_client::{Client, ClientError, DbAdminClient};

use super::remote::{RemoteArgs, explain};

const STATUS_EXAMPLES: &str = "\
Examples:
  consort db status                 all databases
  consort db status notes           one: its leader, its workers, its snapshots
  consort db status notes --json    for programs: the answer of GET /db/notes

Exit codes:
  0  every database has a leader and all its workers
  1  no node could be asked, or there is no such database
  3  something is wrong; standard error says what";

const BACKUP_EXAMPLES: &str = "\
The file is a SQLite database as of one position, which standard error tells. The database goes on meanwhile.
An existing file is not overwritten, and a copy that breaks off leaves none.

Examples:
  consort db backup notes notes-monday.db
  sqlite3 notes-monday.db 'SELECT count(*) FROM notes'

Exit codes:
  0  the file is complete
  1  there is no file; standard error says why";

const RESTORE_EXAMPLES: &str = "\
The file replaces the whole database: it begins a new era, and all workers load it. What was written since the
backup is gone, and positions of the old era are refused, so clients notice. Take a backup of the present state
first. The file must be a SQLite database whose tables can be replicated, of at most max_size.

Examples:
  consort db backup notes before.db && consort db restore notes notes-monday.db

Exit codes:
  0  the database is in the new era; its position is on standard output
  1  nothing was changed; standard error says why";

const DUMP_EXAMPLES: &str = "\
The text makes the database again in sqlite3: tables with their rows, indexes, triggers and views. A copy of the
file is kept in the folder for temporary files (TMPDIR) meanwhile.

Examples:
  consort db dump notes > notes.sql
  consort db dump notes | sqlite3 notes.db

Exit codes:
  0  the text is complete
  1  it is not; standard error says why";

const SHELL_EXAMPLES: &str = "\
Each statement ends with ';' and is a request of its own: there is no BEGIN and no COMMIT. Queries read a
snapshot that has everything written before.
  .tables        the tables and views
  .schema [NAME] the statements that made them
  .help, .quit

Examples:
  consort db shell notes                                    a prompt
  consort db shell notes 'SELECT id, title FROM notes'      one statement
  consort db shell notes < migration.sql                    statements of a file, up to the first that fails
  consort db shell notes --json 'SELECT * FROM notes'       for programs: each row as a JSON list

Exit codes:
  0  all statements succeeded
  1  one failed; standard error says why";

const VERIFY_EXAMPLES: &str = "\
Every worker scans all rows of its file and compares their hash with the one that the feed says. Workers do the
same every ten minutes. A worker whose file differs loads it anew; its node's log has the details.

Examples:
  consort db verify notes

Exit codes:
  0  all files are the same
  1  no node could be asked
  3  a file differs, or a worker could not be asked";

const ANALYZE_EXAMPLES: &str = "\
Every worker runs ANALYZE on its file, so that SQLite plans queries by the numbers of rows. Nothing is replicated:
a worker that loads a new file later has no statistics until this runs again.

Examples:
  consort db analyze notes

Exit codes:
  0  all workers did
  1  no node could be asked
  3  a worker did not";

const RESOLVE_EXAMPLES: &str = "\
A database stops when its store has lost entries that it had acknowledged, for example after Redis failed over to a
copy that lagged behind. It takes no writes until an operator decides. Both decisions begin a new era.
  --accept           go on with what the store still has; the lost entries are gone
  --from-worker ID   go on with the file of a worker that has more than the store

Examples:
  consort db status notes                    the reason, and how far each worker is
  consort db backup notes before.db
  consort db resolve notes --from-worker 3

Exit codes:
  0  the database goes on; its position is on standard output
  1  nothing was changed; standard error says why";

/// What can be asked of databases.
#[derive(Subcommand)]
pub(crate) enum DbCommand {
    /// Shows databases, their workers, and what is wrong
    #[command(after_help = STATUS_EXAMPLES)]
    Status(status::StatusArgs),
    /// Runs SQL statements
    #[command(after_help = SHELL_EXAMPLES)]
    Shell(shell::ShellArgs),
    /// Writes a database into a SQLite file
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(transfer::BackupArgs),
    /// Replaces a database by a SQLite file
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(transfer::RestoreArgs),
    /// Prints a database as SQL text
    #[command(after_help = DUMP_EXAMPLES)]
    Dump(dump::DumpArgs),
    /// Compares the files of all workers
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(orders::VerifyArgs),
    /// Has every worker count rows for the query planner
    #[command(after_help = ANALYZE_EXAMPLES)]
    Analyze(orders::AnalyzeArgs),
    /// Makes a database go on that stopped because data was lost
    #[command(after_help = RESOLVE_EXAMPLES)]
    Resolve(orders::ResolveArgs),
}

/// A database of a running node.
#[derive(Args)]
pub(super) struct DatabaseArgs {
    /// The database, as [db.NAME] declares it
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

pub(super) fn run(command: &DbCommand) -> ExitCode {
    match command {
        DbCommand::Status(arguments) => status::run(arguments),
        DbCommand::Shell(arguments) => shell::run(arguments),
        DbCommand::Backup(arguments) => transfer::backup(arguments),
        DbCommand::Restore(arguments) => transfer::restore(arguments),
        DbCommand::Dump(arguments) => dump::run(arguments),
        DbCommand::Verify(arguments) => orders::verify(arguments),
        DbCommand::Analyze(arguments) => orders::analyze(arguments),
        DbCommand::Resolve(arguments) => orders::resolve(arguments),
    }
}

impl DatabaseArgs {
    /// Runs what a command does with the databases of a node.
    fn run(
        &self,
        command: impl AsyncFnOnce(DbAdminClient, &str) -> Result<ExitCode, String>,
    ) -> ExitCode {
        self.remote.run(async |client: Client| command(client.databases(), &self.name).await)
    }
}

/// The node's words, with the name of the problem.
fn told(error: &ClientError) -> String {
    match error.kind() {
        Some(kind) if !kind.is_empty() => format!("{} ({kind})", explain(error)),
        _ => explain(error),
    }
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_unit_that_fits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (28_672, "28.0 KiB"),
            (1 << 31, "2.0 GiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }
}
