//! What a request says of its piece, apart from the body.

use axum::http::{HeaderMap, Method, header};
use consort_glue::stored::PieceRecord;
use consort_glue::stored::record::{Condition, SourceNumber};
use consort_glue::{
    DocumentFormat, GlueNameError, PieceForm, check_document_id, check_idempotency_key, check_seq,
    check_source,
};

use super::conditions;
use super::faults::bad_name;
use super::parameters::{Parameters, refused};
use crate::problem::Problem;
use crate::problems;
use crate::tenants::{Caller, TenantName};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A piece without its content.
#[derive(Clone, Debug)]
pub(super) struct PieceRequest {
    pub(super) tenant: TenantName,
    pub(super) id: String,
    pub(super) form: PieceForm,
    pub(super) key: Option<String>,
    pub(super) source: Option<(String, u64)>,
    pub(super) condition: Option<Condition>,
    /// Whether the answer comes when the piece was applied or rejected.
    pub(super) wait: bool,
    pub(super) dry_run: bool,
}

impl PieceRequest {
    /// Reads the head of a request for a document of this format.
    pub(super) fn read(
        format: DocumentFormat,
        id: String,
        method: &Method,
        query: Option<&str>,
        headers: &HeaderMap,
        caller: &Caller,
    ) -> Result<PieceRequest, Problem> {
        check_document_id(&id).map_err(|error| bad_name(problems::INVALID_ID, &error))?;
        let known = ["source", "seq", "wait", "dry_run"];
        let parameters = Parameters::read(query, &known)?;
        let condition = conditions::of_piece(headers)?;
        let wait = match parameters.text("wait") {
            None => false,
            Some("applied") => true,
            Some(other) => return Err(refused("wait", "must be 'applied'", other)),
        };
        Ok(PieceRequest {
            tenant: caller.tenant(headers)?,
            id,
            form: form(format, method, headers)?,
            key: key(headers)?,
            source: source(&parameters)?,
            condition,
            wait: wait || condition.is_some(),
            dry_run: parameters.flag("dry_run")?,
        })
    }

    /// The record of the piece with this content.
    pub(super) fn record<'a>(&'a self, content: &'a [u8]) -> PieceRecord<'a> {
        PieceRecord {
            tenant: self.tenant.as_str(),
            id: &self.id,
            form: self.form,
            key: self.key.as_deref(),
            source: self.source.as_ref().map(|(source, seq)| SourceNumber { source, seq: *seq }),
            condition: self.condition,
            wanted: self.wait || self.dry_run,
            content,
        }
    }
}

/// The form by method and content type.
fn form(
    format: DocumentFormat,
    method: &Method,
    headers: &HeaderMap,
) -> Result<PieceForm, Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let given = given.map(|given| given.split(';').next().unwrap_or_default().trim());
    let is = |name: &str| given.is_some_and(|given| given.eq_ignore_ascii_case(name));
    let taken = match (method, format) {
        (&Method::DELETE, _) => return Ok(PieceForm::Delete),
        (&Method::PUT, DocumentFormat::Json) => &[("application/json", PieceForm::Whole)][..],
        (&Method::PUT, DocumentFormat::Xml) => {
            &[("application/xml", PieceForm::Whole), ("text/xml", PieceForm::Whole)]
        }
        (_, DocumentFormat::Json) => &[
            ("application/merge-patch+json", PieceForm::MergePatch),
            ("application/json-patch+json", PieceForm::JsonPatch),
        ],
        (_, DocumentFormat::Xml) => &[("application/xml-patch+xml", PieceForm::XmlPatch)],
    };
    if let Some((_, form)) = taken.iter().find(|(name, _)| is(name)) {
        return Ok(*form);
    }
    let names: Vec<&str> = taken.iter().map(|(name, _)| *name).collect();
    let shown: String = given.unwrap_or_default().chars().take(100).collect();
    let detail = format!(
        "{method} takes {} in this collection, not '{shown}': say which it is in 'Content-Type'",
        names.join(" or ")
    );
    Err(Problem::new(problems::CONTENT_TYPE, detail))
}

/// The types of patches that a collection takes, for `Accept-Patch`.
pub(super) fn accept_patch(format: DocumentFormat) -> &'static str {
    match format {
        DocumentFormat::Json => "application/merge-patch+json, application/json-patch+json",
        DocumentFormat::Xml => "application/xml-patch+xml",
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = given.next() else { return Ok(None) };
    let bad = |detail: &str| Problem::new(problems::IDEMPOTENCY_KEY, detail);
    if given.next().is_some() {
        return Err(bad("'Idempotency-Key' came twice"));
    }
    let key = key.to_str().map_err(|_| bad("'Idempotency-Key' has visible ASCII characters"))?;
    check_idempotency_key(key).map_err(|error| bad_name(problems::IDEMPOTENCY_KEY, &error))?;
    Ok(Some(key.to_owned()))
}

fn source(parameters: &Parameters) -> Result<Option<(String, u64)>, Problem> {
    match (parameters.text("source"), parameters.number::<u64>("seq")?) {
        (None, None) => Ok(None),
        (Some(source), Some(seq)) => {
            checked_source(source, seq)
                .map_err(|error| bad_name(problems::INVALID_QUERY, &error))?;
            Ok(Some((source.to_owned(), seq)))
        }
        (Some(_), None) | (None, Some(_)) => Err(Problem::new(
            problems::INVALID_QUERY,
            "'source' and 'seq' come together: the sender's name, and its number for this piece of the document",
        )),
    }
}

pub(super) fn checked_source(source: &str, seq: u64) -> Result<(), GlueNameError> {
    check_source(source)?;
    check_seq(seq)
}
