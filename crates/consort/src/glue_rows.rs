//! Rows of glue's collections as the payload of a feed. Glue knows no feeds, and feeds know no glue: the two meet here.

#[cfg(test)]
mod node_tests;

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use consort_feeds::{
    CoveredChanges, FeedSpec, Payload, Retention, Subject, SubjectChange, SubjectPayload,
    SubjectRevision, SubjectState,
};
use consort_glue::reading::ReadingError;
use consort_glue::states::{AskedState, DocumentStates};
use consort_glue::stored::{GlueRow, RowForm};
use consort_glue::{Collection, DocumentTag, PieceForm, PiecePlace};
use consort_kernel::{Change, ChangeError, Fault, NameError, QueryError, Shard, Store};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The payload of a collection's feed.
#[derive(Clone, Debug)]
pub(crate) struct GlueRows(DocumentStates);

/// The feed of a collection, which goes to these sinks.
pub(crate) fn feed(collection: &Collection, sinks: &[String]) -> Result<FeedSpec, NameError> {
    let rows = GlueRows::new(collection)?;
    Ok(FeedSpec {
        path: format!("glue/{}", collection.name),
        feed: rows.0.cells().feed().clone(),
        retention: Retention { age: collection.feed_keep, bytes: collection.feed_bytes },
        sinks: sinks.to_vec(),
        payload: Arc::new(rows),
    })
}

/// The members of a row that tell its subject.
#[derive(Deserialize)]
struct RowSubject<'a> {
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    life: PiecePlace,
    version: u64,
    form: RowForm,
}

impl GlueRows {
    /// The payload of this collection's feed.
    pub(crate) fn new(collection: &Collection) -> Result<GlueRows, NameError> {
        DocumentStates::new(collection).map(GlueRows)
    }
}

impl Payload for GlueRows {
    fn name(&self) -> &'static str {
        "glue"
    }

    fn decode(&self, entry: &[u8]) -> Result<Change, ChangeError> {
        let mut change = Change::decode(entry)?;
        if let Some(payload) = without_epoch(change.payload.get()) {
            let payload = RawValue::from_string(payload);
            change.payload = payload.map_err(|error| ChangeError::Malformed(error.to_string()))?;
        }
        Ok(change)
    }

    /// Tenant, collection, id and ETag. Neither of the names, nor the ETag, has a `/`.
    fn id(&self, change: &Change) -> Result<String, String> {
        let row = subject(change)?;
        let tag = DocumentTag { life: row.life, version: row.version };
        Ok(format!("{}/{}/{}/{tag}", row.tenant, self.0.collection(), change.subject))
    }

    fn subjects(&self) -> Option<&dyn SubjectPayload> {
        Some(self)
    }
}

#[async_trait]
impl SubjectPayload for GlueRows {
    fn subject_change(&self, change: &Change) -> Result<SubjectChange, String> {
        let row = subject(change)?;
        Ok(SubjectChange {
            subject: Subject { tenant: row.tenant.into_owned(), id: change.subject.clone() },
            revision: SubjectRevision { life: to_numbers(row.life), version: row.version },
            is_end: row.form == RowForm::Piece(PieceForm::Delete),
        })
    }

    fn shard(&self, subject: &Subject, shards: u16) -> Shard {
        self.0.shard(&subject.tenant, &subject.id, shards)
    }

    async fn states(
        &self,
        store: &dyn Store,
        shard: Shard,
        asked: &[CoveredChanges],
        most_bytes: usize,
    ) -> Result<Vec<Option<SubjectState>>, QueryError> {
        let asked: Vec<AskedState> = asked.iter().map(asked_state).collect();
        let rows = self.0.rows(store, shard, &asked, most_bytes).await.map_err(to_query_error)?;
        let state = |row: GlueRow| SubjectState {
            revision: SubjectRevision { life: to_numbers(row.life), version: row.version },
            change: row.to_change(),
        };
        Ok(rows.into_iter().map(|row| row.map(state)).collect())
    }
}

/// The epoch of a row's owner tells rows of two owners apart in the store. It is the last member, and no row that is
/// sent has it.
fn without_epoch(payload: &str) -> Option<String> {
    let rest = payload.strip_suffix('}')?.trim_end_matches(|c: char| c.is_ascii_digit());
    rest.strip_suffix(",\"epoch\":").map(|rest| format!("{rest}}}"))
}

fn subject(change: &Change) -> Result<RowSubject<'_>, String> {
    serde_json::from_str(change.payload.get()).map_err(|error| error.to_string())
}

/// The lives of one document begin at places of one partition, in their order.
fn to_numbers(life: PiecePlace) -> [u64; 4] {
    [life.partition.into(), life.era, life.offset, life.record.into()]
}

fn to_place([partition, era, offset, record]: [u64; 4]) -> Option<PiecePlace> {
    let (partition, record) = (partition.try_into().ok()?, record.try_into().ok()?);
    Some(PiecePlace { partition, era, offset, record })
}

fn asked_state(covered: &CoveredChanges) -> AskedState {
    let last = covered.last;
    let tag = to_place(last.life).map(|life| DocumentTag { life, version: last.version });
    AskedState {
        tenant: covered.subject.tenant.clone(),
        id: covered.subject.id.clone(),
        was: covered.was,
        deleted: tag.filter(|_| covered.is_end).map(|tag| (tag, covered.time)),
    }
}

fn to_query_error(error: ReadingError) -> QueryError {
    match error {
        ReadingError::Query(error) => error,
        error => QueryError::Engine(Fault::Retryable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_feeds::{Delivery, SendMode, SinkConfig, SinkKind, check_sink};
    use consort_glue::DocumentFormat;

    fn collection() -> Collection {
        Collection::new("content", DocumentFormat::Json, 4)
    }

    fn row(epoch: Option<u64>) -> GlueRow {
        let payload = concat!(
            "{\"collection\":\"content\",\"tenant\":\"a\",\"id\":\"crid://a/1\",\"life\":\"3-0-9-5\",",
            "\"version\":7,\"was\":6,\"form\":\"merge-patch\",\"piece\":{\"epoch\":4},",
            "\"time\":\"2016-12-04T18:39:00Z\",\"document\":{\"a\":1,\"epoch\":4}}"
        );
        GlueRow { epoch, ..serde_json::from_str(payload).unwrap() }
    }

    #[test]
    fn a_row_leaves_a_node_without_the_epoch_of_its_owner() {
        let rows = GlueRows::new(&collection()).unwrap();
        let stored =
            [row(None), row(Some(4)), row(Some(u64::MAX))].map(|row| row.to_change().encode());
        assert!(stored[0] != stored[1] && stored[1] != stored[2], "stored rows differ by it");
        for entry in stored {
            let change = rows.decode(&entry).unwrap();
            assert_eq!(change.payload.get(), serde_json::to_string(&row(None)).unwrap());
        }
    }

    #[test]
    fn a_row_tells_its_document_and_its_place_among_the_lives() {
        let rows = GlueRows::new(&collection()).unwrap();
        let change = rows.subject_change(&row(None).to_change()).unwrap();
        assert_eq!(change.subject, Subject { tenant: "a".into(), id: "crid://a/1".into() });
        assert_eq!((change.revision.life, change.revision.version), ([3, 0, 9, 5], 7));
        assert!(!change.is_end);
        let delete = GlueRow { form: RowForm::Piece(PieceForm::Delete), ..row(None) };
        assert!(rows.subject_change(&delete.to_change()).unwrap().is_end);
        let next_life = GlueRow { life: "3-0-10-0".parse().unwrap(), version: 1, ..row(None) };
        let next = rows.subject_change(&next_life.to_change()).unwrap();
        assert!(next.revision > change.revision, "a later life is a later revision");
    }

    #[test]
    fn an_event_names_tenant_collection_document_and_version() {
        let feed = Arc::new(feed(&collection(), &[]).unwrap());
        assert_eq!((feed.path.as_str(), feed.feed.as_str()), ("glue/content", "glue.content"));
        let delivery = Delivery { feed, number: 7, change: row(None).to_change() };
        let event = delivery.cloud_event().unwrap();
        let head = concat!(
            r#"{"specversion":"1.0","id":"a/content/crid://a/1/3-0-9-5.7","#,
            r#""source":"/consort/glue/content","type":"consort.glue.v1","subject":"crid://a/1","#,
            r#""time":"2016-12-04T18:39:00Z","datacontenttype":"application/json","data":{"#
        );
        assert!(event.get().starts_with(head), "{event}");
    }

    #[test]
    fn the_bounds_of_the_feed_are_those_of_the_collection() {
        let age = std::time::Duration::from_secs(7);
        let collection = Collection { feed_keep: age, feed_bytes: 9, ..collection() };
        assert_eq!(feed(&collection, &[]).unwrap().retention, Retention { age, bytes: 9 });
    }

    #[test]
    fn an_influx_sink_cannot_take_rows_of_documents() {
        let target =
            consort_feeds::InfluxTarget::V1 { database: "d".into(), retention: None, user: None };
        let influx = consort_feeds::InfluxConfig { url: "http://h".parse().unwrap(), target };
        let sink = SinkConfig {
            name: "s".parse().unwrap(),
            kind: SinkKind::Influx(influx),
            send: SendMode::Pieces,
        };
        let refused = check_sink(&sink, &GlueRows::new(&collection()).unwrap()).unwrap_err();
        assert!(refused.contains("cannot carry changes of the kind 'glue'"), "{refused}");
    }
}
