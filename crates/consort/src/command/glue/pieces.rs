//! `consort glue put` and `patch`.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use consort_client::{GlueClient, Method, SentPiece};

use super::{CollectionArgs, told};
use crate::command::print;

#[derive(Args)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    collection: CollectionArgs,
    /// The document
    #[arg(value_name = "ID")]
    id: String,
    /// Its content is XML
    #[arg(long)]
    xml: bool,
    #[command(flatten)]
    piece: PieceArgs,
}

#[derive(Args)]
pub(crate) struct PatchArgs {
    #[command(flatten)]
    collection: CollectionArgs,
    /// The document
    #[arg(value_name = "ID")]
    id: String,
    /// What the patch is
    #[arg(long, value_enum, default_value_t = PatchForm::Merge)]
    form: PatchForm,
    #[command(flatten)]
    piece: PieceArgs,
}

/// The forms of patches.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PatchForm {
    #[value(name = "merge-patch")]
    Merge,
    #[value(name = "json-patch")]
    Json,
    #[value(name = "xml-patch")]
    Xml,
}

#[derive(Args)]
struct PieceArgs {
    /// The file with the content; standard input, if it is left out
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The sender's name; with --seq the piece is applied in the order of its number, and once
    #[arg(long, value_name = "NAME", requires = "seq")]
    source: Option<String>,
    /// The sender's number for this piece of the document, from 1
    #[arg(long, value_name = "NUMBER", requires = "source")]
    seq: Option<u64>,
    /// A key by which a repeat of this piece is known
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Apply it only to this version, by its ETag; '*' for any document that exists
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    /// Only say what the piece would do
    #[arg(long)]
    dry_run: bool,
}

impl PatchForm {
    fn content_type(self) -> &'static str {
        match self {
            PatchForm::Merge => "application/merge-patch+json",
            PatchForm::Json => "application/json-patch+json",
            PatchForm::Xml => "application/xml-patch+xml",
        }
    }
}

pub(super) fn put(arguments: &PutArgs) -> ExitCode {
    let PutArgs { collection, id, xml, piece } = arguments;
    let content_type = if *xml { "application/xml" } else { "application/json" };
    send(collection, id, Method::PUT, content_type, piece)
}

pub(super) fn patch(arguments: &PatchArgs) -> ExitCode {
    let PatchArgs { collection, id, form, piece } = arguments;
    send(collection, id, Method::PATCH, form.content_type(), piece)
}

fn send(
    collection: &CollectionArgs,
    id: &str,
    method: Method,
    content_type: &str,
    piece: &PieceArgs,
) -> ExitCode {
    collection.run(async |mut client: GlueClient| {
        let PieceArgs { source, seq, key, if_match, dry_run, .. } = piece;
        let sent = SentPiece {
            method,
            content_type: content_type.to_owned(),
            content: piece.content()?.into(),
            source: source.clone().zip(*seq),
            key: key.clone(),
            if_match: if_match.clone(),
            dry_run: *dry_run,
        };
        let answer = client.piece(id, sent).await.map_err(|error| told(&error))?;
        if answer.is_repeat {
            eprintln!("the piece came before; this is its first outcome");
        }
        print(&format!("{}\n", answer.answer))?;
        Ok(ExitCode::SUCCESS)
    })
}

impl PieceArgs {
    fn content(&self) -> Result<Vec<u8>, String> {
        match &self.file {
            Some(path) => std::fs::read(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display())),
            None => {
                let mut content = Vec::new();
                let read = std::io::stdin().lock().read_to_end(&mut content);
                read.map_err(|error| format!("cannot read standard input: {error}"))?;
                Ok(content)
            }
        }
    }
}
