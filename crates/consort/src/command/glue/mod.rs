//! `consort glue`: documents of collections from the command line. Data goes to standard output, words to standard error.

mod decide;
mod pieces;
mod reading;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use consort_client::{Client, ClientError, GlueClient};

use super::remote::{RemoteArgs, explain};

const GET_EXAMPLES: &str = "\
Examples:
  consort glue get content crid://a/1                the document as it is now
  consort glue get content crid://a/1 --version 7    as it was at version 7 (needs 'history')

Exit codes:
  0  the document is on standard output; standard error tells its ETag and state
  1  there is none, or it could not be read; standard error says why";

const PUT_EXAMPLES: &str = "\
The document is read from a file, or from standard input without one. The answer is on standard output.

Examples:
  consort glue put content crid://a/1 a1.json
  consort glue put guides g1 --xml g1.xml
  consort glue put content crid://a/1 a1.json --source epg --seq 12    repeat it safely

Exit codes:
  0  the document is applied, or waits for a missing number
  1  it was refused or rejected; standard error says why";

const PATCH_EXAMPLES: &str = "\
The patch is read from a file, or from standard input without one. The answer is on standard output.

  --form merge-patch   RFC 7396: members of an object are set, null removes one (the default)
  --form json-patch    RFC 6902: a list of operations
  --form xml-patch     RFC 5261: a document of add, replace and remove

Examples:
  echo '{\"title\": \"A\"}' | consort glue patch content crid://a/1
  consort glue patch content crid://a/1 --form json-patch changes.json
  consort glue patch content crid://a/1 --dry-run change.json          say what it would do

Exit codes:
  0  the patch is applied, or waits for a missing number
  1  it was refused or rejected; standard error says why";

const VERSIONS_EXAMPLES: &str = "\
Each line is one version as JSON, newest first. The collection needs 'history'.

Examples:
  consort glue versions content crid://a/1
  consort glue versions content crid://a/1 --limit 1000 | jq .source";

const REJECTS_EXAMPLES: &str = "\
Each line is one rejected piece as JSON, oldest first in each shard.

Examples:
  consort glue rejects content
  consort glue rejects content --id crid://a/1 | jq '{place, reason, detail}'";

/// What can be asked of collections.
#[derive(Subcommand)]
pub(crate) enum GlueCommand {
    /// Prints a document
    #[command(after_help = GET_EXAMPLES)]
    Get(reading::GetArgs),
    /// Creates or replaces a document
    #[command(after_help = PUT_EXAMPLES)]
    Put(pieces::PutArgs),
    /// Changes a document
    #[command(after_help = PATCH_EXAMPLES)]
    Patch(pieces::PatchArgs),
    /// Prints the versions of a document
    #[command(after_help = VERSIONS_EXAMPLES)]
    Versions(reading::VersionsArgs),
    /// Prints rejected pieces
    #[command(after_help = REJECTS_EXAMPLES)]
    Rejects(reading::RejectsArgs),
    /// Applies the piece that halted a document again, or a replacement for it
    #[command(after_help = decide::RETRY_EXAMPLES)]
    Retry(decide::RetryArgs),
    /// Rejects the piece that halted a document for good
    #[command(after_help = decide::DISCARD_EXAMPLES)]
    Discard(decide::DiscardArgs),
    /// Replays the log of a collection and compares the result with the stored documents
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
}

/// A collection of a running node.
#[derive(Args)]
pub(super) struct CollectionArgs {
    /// The collection, as [glue.NAME] declares it
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// The tenant; an access token of a tenant names it already
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

pub(super) fn run(command: &GlueCommand) -> ExitCode {
    match command {
        GlueCommand::Get(arguments) => reading::get(arguments),
        GlueCommand::Put(arguments) => pieces::put(arguments),
        GlueCommand::Patch(arguments) => pieces::patch(arguments),
        GlueCommand::Versions(arguments) => reading::versions(arguments),
        GlueCommand::Rejects(arguments) => reading::rejects(arguments),
        GlueCommand::Retry(arguments) => decide::retry(arguments),
        GlueCommand::Discard(arguments) => decide::discard(arguments),
        GlueCommand::Verify(arguments) => verify::run(arguments),
    }
}

impl CollectionArgs {
    /// Runs what a command does with a client of the collection.
    fn run(&self, command: impl AsyncFnOnce(GlueClient) -> Result<ExitCode, String>) -> ExitCode {
        self.remote.run(async |client: Client| {
            command(client.glue(&self.collection, self.tenant.as_deref())).await
        })
    }
}

/// The node's words, with the name of the problem.
fn told(error: &ClientError) -> String {
    match error.kind() {
        Some(kind) if !kind.is_empty() => format!("{} ({kind})", explain(error)),
        _ => explain(error),
    }
}
