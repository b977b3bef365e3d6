//! `consort glue retry` and `discard`: decisions on the piece that halted a document.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use consort_client::{ClientError, GlueClient, PieceAnswer};
use serde_json::Value;

use super::{CollectionArgs, told};
use crate::command::print;

pub(super) const RETRY_EXAMPLES: &str = "\
A collection with on_reject = \"halt\" stops a document at a piece that does not apply, and queues the pieces
behind it. `consort glue rejects` and the answer to the piece name its place. A halted document does not
change, so the same piece fails again: give a replacement, or a piece that failed for a reason outside.

Examples:
  consort glue retry content crid://a/1 3-0-41872-5
  consort glue retry content crid://a/1 3-0-41872-5 --form merge-patch fixed.json

Exit codes:
  0  the piece, or its replacement, is applied; those behind it follow
  1  nothing was changed, or it failed again; standard error says why";

pub(super) const DISCARD_EXAMPLES: &str = "\
The piece is rejected for good, and the pieces behind it are applied. Of a document that waits for a missing
number the number is skipped.

Examples:
  consort glue discard content crid://a/1 3-0-41872-5

Exit codes:
  0  the piece is discarded
  1  nothing was changed; standard error says why";

#[derive(Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    collection: CollectionArgs,
    /// The document
    #[arg(value_name = "ID")]
    id: String,
    /// The place of the piece that halted it: PARTITION-ERA-OFFSET-RECORD
    #[arg(value_name = "PLACE")]
    place: String,
    /// The form of the replacement: whole, merge-patch, json-patch, xml-patch or delete
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// The file with the replacement
    #[arg(value_name = "FILE", requires = "form")]
    file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    collection: CollectionArgs,
    /// The document
    #[arg(value_name = "ID")]
    id: String,
    /// The place of the piece that halted it: PARTITION-ERA-OFFSET-RECORD
    #[arg(value_name = "PLACE")]
    place: String,
}

pub(super) fn retry(arguments: &RetryArgs) -> ExitCode {
    let RetryArgs { collection, id, place, form, file } = arguments;
    collection.run(async |mut client: GlueClient| {
        let piece = match file {
            Some(file) => read(file)?,
            None => Value::Null,
        };
        let replacement = form.as_deref().map(|form| (form, piece));
        decided(client.retry(id, place, replacement).await)
    })
}

pub(super) fn discard(arguments: &DiscardArgs) -> ExitCode {
    let DiscardArgs { collection, id, place } = arguments;
    collection.run(async |mut client: GlueClient| decided(client.discard(id, place).await))
}

fn decided(answer: Result<PieceAnswer, ClientError>) -> Result<ExitCode, String> {
    let answer = answer.map_err(|error| told(&error))?;
    print(&format!("{}\n", answer.answer))?;
    Ok(ExitCode::SUCCESS)
}

/// JSON as it is; anything else, such as XML, as a text.
fn read(file: &PathBuf) -> Result<Value, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
