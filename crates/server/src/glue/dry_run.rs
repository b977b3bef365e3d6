//! `dry_run=true`: the plan on the document as it is stored, and nothing is stored.

use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use consort_cluster::worker::{Plan, Rehearsal};
use consort_glue::stored::{DocumentBody, OutcomeEntry, PieceOutcome};
use consort_glue::{DocumentFormat, PieceForm};
use consort_kernel::{
    Cell, Digest, Frame, FrameKind, Kind, LogEntry, Operation, Partition, Producer, Records, Value,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::faults::store_failed;
use super::open::OpenCollection;
use super::outcome_answers::{body, settled};
use super::piece_request::PieceRequest;
use crate::problem::Problem;
use crate::streams::apart;

/// What the pieces of a collection do.
#[derive(Clone)]
pub struct PlanOf(Arc<dyn Plan>);

impl PlanOf {
    /// The plan that its owners fold by.
    pub fn new(plan: Arc<dyn Plan>) -> PlanOf {
        PlanOf(plan)
    }
}

impl fmt::Debug for PlanOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlanOf").finish_non_exhaustive()
    }
}

/// What would come of the piece now.
struct Rehearsed {
    outcome: OutcomeEntry,
    document: Option<DocumentBody>,
}

/// Answers what the piece would do.
pub(super) async fn answer(
    collection: &OpenCollection,
    piece: &PieceRequest,
    content: &[u8],
) -> Result<Response, Problem> {
    let Some(Rehearsed { outcome, document }) = rehearse(collection, piece, content).await? else {
        return Err(store_failed("the plan told no outcome of the piece"));
    };
    let PieceOutcome::Applied(tag) = outcome.outcome else {
        return Ok(settled(&piece.id, &outcome, None));
    };
    let mut answer = json!({ "dry_run": true, "version": tag.version });
    if let Some(document) = document.filter(|_| piece.form != PieceForm::Delete) {
        let text = String::from_utf8_lossy(&document.document).into_owned();
        answer["document"] = match collection.definition.format {
            DocumentFormat::Xml => text.into(),
            DocumentFormat::Json => parsed(text)?,
        };
    }
    Ok(body(StatusCode::OK, &answer))
}

fn parsed(text: String) -> Result<serde_json::Value, Problem> {
    let raw = RawValue::from_string(text).and_then(|raw| serde_json::from_str(raw.get()));
    raw.map_err(|error| store_failed(format!("the document could not be read: {error}")))
}

async fn rehearse(
    collection: &OpenCollection,
    piece: &PieceRequest,
    content: &[u8],
) -> Result<Option<Rehearsed>, Problem> {
    let index = collection.reader.partition(piece.tenant.as_str(), &piece.id);
    let partition = Partition::new(collection.ingress.stream().clone(), index);
    let time = collection.store.now().await.map_err(store_failed)?;
    let record = piece.record(content).encode();
    let frame = Frame {
        kind: FrameKind::Events,
        producer: Producer(0),
        sequence: 0,
        time,
        records: Records::one(|buffer| buffer.extend_from_slice(&record)),
    };
    let entry = LogEntry { offset: 0, digest: Digest::of(b"dry run"), frame };
    let (plan, shards) = (collection.plan.clone(), collection.store.shards());
    let named = {
        let mut rehearsal = Rehearsal::new(&*plan.0, &partition, shards);
        rehearsal.reads(&entry)
    };
    let mut known = Vec::with_capacity(named.len());
    for (shard, key) in named {
        let cells = [Cell::new(Kind::Bytes, key.clone())];
        let values = collection.store.get(shard, &cells).await.map_err(store_failed)?;
        let value = match values.into_iter().next().flatten() {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        known.push((shard, key, value));
    }
    let outcomes = collection.reader.cells().outcomes().clone();
    let body = collection.reader.cells().body(piece.tenant.as_str(), &piece.id);
    // A patch may take some time, which requests should not wait for.
    let work = async move {
        let mut rehearsal = Rehearsal::new(&*plan.0, &partition, shards);
        known.into_iter().for_each(|(shard, key, value)| rehearsal.know(shard, key, value));
        let (mut outcome, mut document) = (None, None);
        let steps = rehearsal.apply(&entry);
        for operation in steps.into_iter().flat_map(|step| step.operations).flat_map(|(_, all)| all)
        {
            match operation {
                Operation::Append(note) if note.feed == outcomes => {
                    outcome = OutcomeEntry::decode(&note.entry).ok();
                }
                Operation::Put { key, value } if key == body => {
                    document = DocumentBody::decode(&value).ok();
                }
                _ => {}
            }
        }
        outcome.map(|outcome| Rehearsed { outcome, document })
    };
    Ok(apart::run(&collection.intake, work).await)
}
