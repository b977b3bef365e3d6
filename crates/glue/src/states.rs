//! The present states of documents, as rows of the change feed.
//!
//! A feed that sends states stands for several versions of a document with one row: the document as it is when the row
//! is sent. [`DocumentStates`] reads many documents of a shard within a bound, and makes these rows.

use bytes::Bytes;
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Cell, Kind, Moment, QueryError, Shard, Store, Value, partition_of};
use serde_json::value::{RawValue, to_raw_value};

use crate::reading::{CurrentDocument, DocumentText, ReadingError};
use crate::stored::row::moment_of;
use crate::stored::{DocumentBody, DocumentHead, DocumentTag, Existence, GlueRow, RowForm};
use crate::{Collection, CollectionCells, DocumentFormat, PieceForm, partition_key};

/// How often a document is read again whose head and body are of different states.
const TRIES: usize = 5;

/// The cells of a document in one read: its head and its body.
const CELLS_EACH: usize = 2;

/// A document whose state is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedState {
    /// Its tenant.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// The version before the first one that the state stands for.
    pub was: u64,
    /// The tag and time of a delete, if the document is to be told as deleted when there is no trace of it.
    pub deleted: Option<(DocumentTag, Moment)>,
}

/// Reads the states of a collection's documents.
#[derive(Clone, Debug)]
pub struct DocumentStates {
    collection: String,
    format: DocumentFormat,
    partitions: u32,
    cells: CollectionCells,
}

impl DocumentStates {
    /// The states of this collection.
    ///
    /// # Errors
    /// If the collection's name is none.
    pub fn new(collection: &Collection) -> Result<Self, consort_kernel::NameError> {
        Ok(DocumentStates {
            collection: collection.name.clone(),
            format: collection.format,
            partitions: collection.partitions,
            cells: CollectionCells::new(&collection.name)?,
        })
    }

    /// The collection.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// The keys of its cells.
    pub fn cells(&self) -> &CollectionCells {
        &self.cells
    }

    /// The shard of a document, in a store with so many shards.
    pub fn shard(&self, tenant: &str, id: &str, shards: u16) -> Shard {
        let partition = partition_of(partition_key(tenant, id).as_bytes(), self.partitions);
        CollectionCells::shard(partition, shards)
    }

    /// The rows of these documents of a shard, in the order asked. The answer ends early when its documents have
    /// `most_bytes`, after one at least. A row is missing where there is no trace of the document.
    pub async fn rows(
        &self,
        store: &dyn Store,
        shard: Shard,
        asked: &[AskedState],
        most_bytes: usize,
    ) -> Result<Vec<Option<GlueRow>>, ReadingError> {
        let asked = &asked[..self.fitting(store, shard, asked, most_bytes).await?];
        let mut rows = Vec::with_capacity(asked.len());
        for chunk in asked.chunks(PAGE_ROWS / CELLS_EACH) {
            let found = self.read(store, shard, chunk).await?;
            for (one, found) in chunk.iter().zip(found) {
                let document = match found {
                    Some(document) => document,
                    None => self.read_again(store, shard, one).await?,
                };
                rows.push(self.row(one, document)?);
            }
        }
        Ok(rows)
    }

    /// How many of these documents fit the bound, by their heads.
    async fn fitting(
        &self,
        store: &dyn Store,
        shard: Shard,
        asked: &[AskedState],
        most_bytes: usize,
    ) -> Result<usize, ReadingError> {
        let (mut count, mut bytes) = (0, 0);
        for chunk in asked.chunks(PAGE_ROWS) {
            let heads = chunk.iter().map(|one| self.cells.head(&one.tenant, &one.id));
            for head in read_cells(store, shard, heads.collect()).await? {
                count += 1;
                let head = head.map(|cell| DocumentHead::decode(&cell)).transpose()?;
                bytes += head.map_or(0, |head| head.size as usize);
                if bytes >= most_bytes {
                    return Ok(count);
                }
            }
        }
        Ok(count)
    }

    /// These documents; none where head and body are of different states.
    async fn read(
        &self,
        store: &dyn Store,
        shard: Shard,
        asked: &[AskedState],
    ) -> Result<Vec<Option<CurrentDocument>>, ReadingError> {
        let keys = asked.iter().flat_map(|one| {
            let AskedState { tenant, id, .. } = one;
            [self.cells.head(tenant, id), self.cells.body(tenant, id)]
        });
        let cells = read_cells(store, shard, keys.collect()).await?;
        cells.chunks(CELLS_EACH).map(|pair| document(&pair[0], &pair[1])).collect()
    }

    async fn read_again(
        &self,
        store: &dyn Store,
        shard: Shard,
        one: &AskedState,
    ) -> Result<CurrentDocument, ReadingError> {
        for _ in 0..TRIES {
            let found = self.read(store, shard, std::slice::from_ref(one)).await?;
            if let Some(document) = found.into_iter().next().flatten() {
                return Ok(document);
            }
        }
        Err(ReadingError::Restless)
    }

    fn row(
        &self,
        asked: &AskedState,
        document: CurrentDocument,
    ) -> Result<Option<GlueRow>, ReadingError> {
        let CurrentDocument { head, body } = document;
        let time = moment_of(head.time);
        let (tag, time, form, document) = match (head.existence, head.tag(), body) {
            (Existence::Live, Some(tag), Some(body)) => {
                (tag, time, RowForm::State, Some(self.raw(&body.text)?))
            }
            (Existence::Deleted, Some(tag), _) => {
                (tag, time, RowForm::Piece(PieceForm::Delete), None)
            }
            _ => match asked.deleted {
                Some((tag, time)) => (tag, time, RowForm::Piece(PieceForm::Delete), None),
                None => return Ok(None),
            },
        };
        Ok(Some(GlueRow {
            collection: self.collection.clone(),
            tenant: asked.tenant.clone(),
            id: asked.id.clone(),
            life: tag.life,
            version: tag.version,
            was: asked.was,
            form,
            piece: None,
            source: None,
            seq: None,
            time,
            document,
            epoch: None,
        }))
    }

    /// A document within a row: JSON as it is, XML as a text.
    fn raw(&self, text: &Bytes) -> Result<Box<RawValue>, ReadingError> {
        let malformed = |error: &dyn std::fmt::Display| {
            let reason = format!("a document of the collection '{}': {error}", self.collection);
            ReadingError::Query(QueryError::Engine(consort_kernel::Fault::Retryable(reason)))
        };
        let text = std::str::from_utf8(text).map_err(|error| malformed(&error))?;
        let raw = match self.format {
            DocumentFormat::Json => RawValue::from_string(text.to_owned()),
            DocumentFormat::Xml => to_raw_value(text),
        };
        raw.map_err(|error| malformed(&error))
    }
}

/// A document from its cells; none if they are of different states.
fn document(
    head: &Option<Bytes>,
    body: &Option<Bytes>,
) -> Result<Option<CurrentDocument>, ReadingError> {
    let head = head.as_ref().map(|cell| DocumentHead::decode(cell)).transpose()?;
    let head = head.unwrap_or_default();
    if head.existence != Existence::Live {
        return Ok(Some(CurrentDocument { head, body: None }));
    }
    let body = body.as_ref().map(DocumentBody::decode).transpose()?;
    let body = body.filter(|body| head.tag() == Some(body.tag));
    Ok(body.map(|DocumentBody { tag, document }| {
        let body = Some(DocumentText { tag, text: document });
        CurrentDocument { head, body }
    }))
}

/// What these cells hold, in the order asked.
async fn read_cells(
    store: &dyn Store,
    shard: Shard,
    keys: Vec<consort_kernel::Key>,
) -> Result<Vec<Option<Bytes>>, QueryError> {
    let cells: Vec<Cell> = keys.into_iter().map(|key| Cell::new(Kind::Bytes, key)).collect();
    let mut found = Vec::with_capacity(cells.len());
    // An answer may end early where its cells are large together.
    while found.len() < cells.len() {
        let part = store.get(shard, &cells[found.len()..]).await?;
        assert!(!part.is_empty(), "a store answers for one cell at least");
        found.extend(part.into_iter().map(|value| match value {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::{Commit, Operation, SystemClock, Timestamp, memory};
    use std::sync::Arc;

    const SHARD: Shard = Shard(0);

    struct Bed {
        store: Arc<dyn Store>,
        states: DocumentStates,
    }

    fn bed(format: DocumentFormat) -> Bed {
        let (_, store) = memory::open(1, Arc::new(SystemClock::default()));
        let states = DocumentStates::new(&Collection::new("content", format, 4)).unwrap();
        Bed { store: Arc::new(store), states }
    }

    fn tag(version: u64) -> DocumentTag {
        format!("3-0-9-5.{version}").parse().unwrap()
    }

    fn asked(id: &str) -> AskedState {
        AskedState { tenant: "a".into(), id: id.into(), was: 2, deleted: None }
    }

    impl Bed {
        async fn put(&self, id: &str, existence: Existence, version: u64, text: Option<&str>) {
            let cells = self.states.cells();
            let head = DocumentHead {
                life: Some(tag(1).life),
                version,
                existence,
                time: Timestamp(1_480_876_740_000),
                size: text.map_or(0, str::len) as u64,
                ..DocumentHead::default()
            };
            let mut operations =
                vec![Operation::Put { key: cells.head("a", id), value: head.encode() }];
            if let Some(text) = text {
                let document = Bytes::copy_from_slice(text.as_bytes());
                let value = DocumentBody { tag: tag(version), document }.encode();
                operations.push(Operation::Put { key: cells.body("a", id), value });
            }
            self.store.commit(SHARD, Commit::of(operations)).await.unwrap();
        }

        async fn rows(&self, asked: &[AskedState], most: usize) -> Vec<String> {
            let rows = self.states.rows(&*self.store, SHARD, asked, most).await.unwrap();
            let shown = |row: Option<GlueRow>| {
                row.map_or("none".into(), |row| serde_json::to_string(&row).unwrap())
            };
            rows.into_iter().map(shown).collect()
        }
    }

    fn row(id: &str, version: u64, form: &str, document: &str) -> String {
        format!(
            "{{\"collection\":\"content\",\"tenant\":\"a\",\"id\":\"{id}\",\"life\":\"3-0-9-5\",\
             \"version\":{version},\"was\":2,\"form\":\"{form}\",\"time\":\"2016-12-04T18:39:00Z\"{document}}}"
        )
    }

    #[tokio::test]
    async fn a_state_is_the_document_as_it_is_or_a_delete() {
        let bed = bed(DocumentFormat::Json);
        bed.put("live", Existence::Live, 7, Some("{\"price\":1.50}")).await;
        bed.put("dead", Existence::Deleted, 8, None).await;
        let gone = AskedState { deleted: Some((tag(3), Moment(0))), ..asked("gone") };
        let rows = bed.rows(&[asked("live"), asked("dead"), asked("never"), gone], 1 << 20).await;
        let document = ",\"document\":{\"price\":1.50}";
        let told =
            row("gone", 3, "delete", "").replace("2016-12-04T18:39:00Z", "1970-01-01T00:00:00Z");
        let expected =
            [row("live", 7, "state", document), row("dead", 8, "delete", ""), "none".into(), told];
        assert_eq!(rows, expected);
    }

    #[tokio::test]
    async fn an_xml_document_is_a_text() {
        let bed = bed(DocumentFormat::Xml);
        bed.put("x", Existence::Live, 7, Some("<a b=\"c\"/>")).await;
        let document = ",\"document\":\"<a b=\\\"c\\\"/>\"";
        assert_eq!(bed.rows(&[asked("x")], 1).await, [row("x", 7, "state", document)]);
    }

    #[tokio::test]
    async fn an_answer_ends_when_its_documents_have_the_bytes_and_never_before_the_first() {
        let bed = bed(DocumentFormat::Json);
        let text = format!("\"{}\"", "x".repeat(998));
        let ids = ["a", "b", "c", "d"];
        for id in ids {
            bed.put(id, Existence::Live, 3, Some(&text)).await;
        }
        let asked = ids.map(asked);
        for (most, expected) in [(0, 1), (1_000, 1), (1_001, 2), (3_000, 3), (9_000, 4)] {
            assert_eq!(bed.rows(&asked, most).await.len(), expected, "{most} bytes");
        }
    }

    #[tokio::test]
    async fn a_body_of_another_version_is_not_sent() {
        let bed = bed(DocumentFormat::Json);
        bed.put("a", Existence::Live, 7, Some("1")).await;
        bed.put("a", Existence::Live, 8, None).await;
        let rows = bed.states.rows(&*bed.store, SHARD, &[asked("a")], 1).await;
        assert_eq!(rows, Err(ReadingError::Restless));
    }
}
