//! `consort glue get`, `versions` and `rejects`.

use std::process::ExitCode;

use clap::Args;
use consort_client::GlueClient;
use serde_json::Value;

use super::{CollectionArgs, told};
use crate::command::print;

/// Items of one page.
const PAGE: usize = 500;

#[derive(Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    collection: CollectionArgs,
    /// The document
    #[arg(value_name = "ID")]
    id: String,
    /// The document as it was at this version
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
}

#[derive(Args)]
pub(crate) struct VersionsArgs {
    #[command(flatten)]
    collection: CollectionArgs,
    /// The document
    #[arg(value_name = "ID")]
    id: String,
    /// How many versions at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
}

#[derive(Args)]
pub(crate) struct RejectsArgs {
    #[command(flatten)]
    collection: CollectionArgs,
    /// The pieces of this document alone
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// How many pieces at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
}

pub(super) fn get(arguments: &GetArgs) -> ExitCode {
    let GetArgs { collection, id, version } = arguments;
    collection.run(async |mut client: GlueClient| {
        let document = client.document(id, *version).await.map_err(|error| told(&error))?;
        eprintln!("ETag {} {}", document.etag, document.state);
        print(&String::from_utf8_lossy(&document.text))?;
        print("\n")?;
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn versions(arguments: &VersionsArgs) -> ExitCode {
    let VersionsArgs { collection, id, limit } = arguments;
    collection.run(async |mut client: GlueClient| {
        let (mut left, mut after) = (*limit, None);
        while left > 0 {
            let page = client.versions(id, left.min(PAGE), after).await;
            let page = page.map_err(|error| told(&error))?;
            left = left.saturating_sub(print_all(&page["versions"])?);
            after = page["next"].as_u64();
            if after.is_none() {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn rejects(arguments: &RejectsArgs) -> ExitCode {
    let RejectsArgs { collection, id, limit } = arguments;
    collection.run(async |mut client: GlueClient| {
        let (mut left, mut after) = (*limit, None::<String>);
        while left > 0 {
            let page = client.rejects(id.as_deref(), left.min(PAGE), after.as_deref()).await;
            let page = page.map_err(|error| told(&error))?;
            left = left.saturating_sub(print_all(&page["rejects"])?);
            after = page["next"].as_str().map(str::to_owned);
            if after.is_none() {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints the items of a list, one a line; how many there are.
fn print_all(list: &Value) -> Result<usize, String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
    print(&lines)?;
    Ok(items.len())
}
