//! `consort glue verify`: the documents of a collection against a replay of its log.

use std::process::ExitCode;

use clap::Args;
use consort::verify::{DocumentFinding, FindingKind, verify_collection};
use consort_glue::reading::VerifiedCollection;
use serde_json::json;

use crate::command::settings::SettingArgs;
use crate::command::{FAILED, SOMETHING_WRONG, fail, print};

pub(super) const EXAMPLES: &str = "\
The log of the collection is replayed from its oldest frame, in memory, and each document is compared with
the stored one. Nothing is changed. A document that was created before the oldest frame cannot be made
anew; it is named as older than the log, and is no fault.

The engine of the config is opened directly. One that belongs to a single process (embedded:) must be free:
stop its node first. With Redis the nodes may go on meanwhile.

Each line on standard output is one document as JSON: {\"finding\", \"tenant\", \"id\", …}.

Examples:
  consort glue verify content -c consort.toml

Exit codes:
  0  every document that the log can make is stored as it should be
  1  the log or the store could not be read; standard error says why
  3  a document differs";

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The collection, as [glue.NAME] declares it
    #[arg(value_name = "COLLECTION")]
    collection: String,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(super) fn run(arguments: &VerifyArgs) -> ExitCode {
    let config = match arguments.settings.resolve() {
        Ok(config) => config,
        Err(problems) => return fail(FAILED, &problems),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let verified = match runtime {
        Ok(runtime) => runtime.block_on(verify_collection(&config, &arguments.collection)),
        Err(error) => return fail(FAILED, &format!("cannot start: {error}")),
    };
    match verified {
        Ok(verified) => told(&verified),
        Err(error) => fail(FAILED, &error.to_string()),
    }
}

fn told(verified: &VerifiedCollection) -> ExitCode {
    let VerifiedCollection { equal, findings } = verified;
    for finding in findings {
        if let Err(reason) = print(&format!("{}\n", shown(finding))) {
            return fail(FAILED, &reason);
        }
    }
    let older = findings.iter().filter(|one| one.kind == FindingKind::OlderThanLog).count();
    let differ = findings.len() - older;
    eprintln!(
        "{equal} documents are as the log makes them, {older} are older than the log, {differ} differ"
    );
    if differ > 0 { ExitCode::from(SOMETHING_WRONG) } else { ExitCode::SUCCESS }
}

fn shown(finding: &DocumentFinding) -> serde_json::Value {
    let DocumentFinding { tenant, id, kind, stored_version, replayed_version } = finding;
    json!({
        "finding": kind.as_str(),
        "tenant": tenant,
        "id": id,
        "stored_version": stored_version,
        "replayed_version": replayed_version,
    })
}
