//! One line of a bulk request, or one message of a queue: a piece with all that belongs to it.
//!
//! Names are those of feed rows, so a page of a feed can be posted to another collection. Members that are none of a
//! piece are passed over.

use std::borrow::Cow;

use consort_glue::stored::PieceRecord;
use consort_glue::stored::record::{Condition, SourceNumber};
use consort_glue::{
    DocumentFormat, PieceForm, Reason, check_document_id, check_idempotency_key, check_tenant,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::conditions::parse_tag;
use super::open::OpenCollection;
use super::piece_request::checked_source;
use super::pieces::check;
use crate::tenants::{Caller, TenantName};

/// A piece that is no piece, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub(super) struct RefusedLine {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

/// A good line: its partition, its tenant and its record.
#[derive(Debug)]
pub(super) struct LinePiece {
    pub(super) partition: u32,
    pub(super) tenant: TenantName,
    pub(super) record: Vec<u8>,
}

/// Whose pieces lines are, unless they say so themselves.
#[derive(Clone, Debug)]
pub(super) struct LineTenant {
    pub(super) caller: Caller,
    /// The one of the request, or of the queue.
    pub(super) tenant: TenantName,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    form: Cow<'a, str>,
    #[serde(borrow)]
    piece: Option<&'a RawValue>,
    /// Of rows that are states, in place of the piece.
    #[serde(borrow)]
    document: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<Cow<'a, str>>,
    seq: Option<u64>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    if_match: Option<Cow<'a, str>>,
    #[serde(borrow)]
    if_none_match: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tenant: Option<Cow<'a, str>>,
}

/// Reads a line. `default_key` is the key of a line that has none: the id of its message.
pub(super) fn read(
    collection: &OpenCollection,
    line: &[u8],
    of: &LineTenant,
    default_key: Option<&str>,
) -> Result<LinePiece, RefusedLine> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| {
        malformed(format!("a line is an object with 'id', 'form' and 'piece': {error}"))
    })?;
    let format = collection.definition.format;
    check_document_id(&line.id).map_err(|error| refused("id", error))?;
    let tenant = line_tenant(of, line.tenant.as_deref())?;
    // A state stands for the whole document.
    let (form, content) = match &*line.form {
        "state" => (PieceForm::Whole, line.document),
        name => match PieceForm::parse(name) {
            Some(form) => (form, line.piece),
            None => return Err(malformed(format!("there is no form '{name:.50}' of pieces"))),
        },
    };
    if !taken(format, form) {
        let detail = format!("a collection of {format} documents takes no '{form}'");
        return Err(refused("content-type", detail));
    }
    let content = self::content(format, form, content).map_err(malformed)?;
    check(format, form, &content)
        .map_err(|rejection| refused(rejection.reason.as_str(), rejection.detail))?;
    let key = line.key.as_deref().or(default_key);
    if let Some(key) = key {
        check_idempotency_key(key).map_err(|error| refused("idempotency-key", error))?;
    }
    let record = PieceRecord {
        tenant: tenant.as_str(),
        id: &line.id,
        form,
        key,
        source: source(&line)?,
        condition: condition(&line)?,
        wanted: false,
        content: &content,
    };
    let record = record.encode();
    let partition = collection.reader.partition(tenant.as_str(), &line.id);
    Ok(LinePiece { partition, tenant, record })
}

/// The content of a piece as the log has it: JSON as it was sent, XML out of its text, nothing for a delete.
pub(super) fn content<'a>(
    format: DocumentFormat,
    form: PieceForm,
    piece: Option<&'a RawValue>,
) -> Result<Cow<'a, [u8]>, String> {
    match (form, piece) {
        (PieceForm::Delete, None) => Ok(Cow::Borrowed(b"")),
        (PieceForm::Delete, Some(_)) => Err("a delete has no 'piece'".to_owned()),
        (_, None) => Err(format!("a piece of the form '{form}' needs 'piece'")),
        (_, Some(piece)) => match format {
            DocumentFormat::Json => Ok(Cow::Borrowed(piece.get().as_bytes())),
            DocumentFormat::Xml => serde_json::from_str::<String>(piece.get())
                .map(|text| Cow::Owned(text.into_bytes()))
                .map_err(|error| format!("'piece' is the XML as a text: {error}")),
        },
    }
}

fn taken(format: DocumentFormat, form: PieceForm) -> bool {
    match form {
        PieceForm::Whole | PieceForm::Delete => true,
        PieceForm::MergePatch | PieceForm::JsonPatch => format == DocumentFormat::Json,
        PieceForm::XmlPatch => format == DocumentFormat::Xml,
    }
}

fn line_tenant(of: &LineTenant, named: Option<&str>) -> Result<TenantName, RefusedLine> {
    let Some(named) = named else { return Ok(of.tenant.clone()) };
    check_tenant(named).map_err(|error| refused("tenant", error))?;
    match &of.caller {
        Caller::Operator => named.parse().map_err(|error| refused("tenant", error)),
        Caller::Tenant(own) if own.as_str() == named => Ok(own.clone()),
        Caller::Tenant(_) => {
            Err(refused("other-tenant", "the line names another tenant than the access token"))
        }
    }
}

fn source<'a>(line: &'a Line<'_>) -> Result<Option<SourceNumber<'a>>, RefusedLine> {
    match (line.source.as_deref(), line.seq) {
        (None, None) => Ok(None),
        (Some(source), Some(seq)) => {
            checked_source(source, seq).map_err(|error| refused("parameter", error))?;
            Ok(Some(SourceNumber { source, seq }))
        }
        _ => Err(refused("parameter", "'source' and 'seq' come together")),
    }
}

fn condition(line: &Line<'_>) -> Result<Option<Condition>, RefusedLine> {
    match (line.if_match.as_deref(), line.if_none_match.as_deref()) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(Condition::Exists)),
        (Some(tag), None) => match parse_tag(tag) {
            Ok(tag) => Ok(Some(Condition::Is(tag))),
            Err(problem) => Err(refused("condition", problem.detail())),
        },
        (None, Some("*")) => Ok(Some(Condition::Absent)),
        (None, Some(_)) => Err(refused("condition", "'if_none_match' of a piece is \"*\"")),
        (Some(_), Some(_)) => {
            Err(refused("condition", "give 'if_match' or 'if_none_match', not both"))
        }
    }
}

fn malformed(detail: String) -> RefusedLine {
    refused(Reason::MALFORMED.as_str(), detail)
}

fn refused(reason: &'static str, detail: impl ToString) -> RefusedLine {
    RefusedLine { reason, detail: detail.to_string() }
}
