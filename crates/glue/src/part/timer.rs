//! The timer of a collection: appends a control record where a deadline has passed.
//!
//! The log decides: a word that no longer fits its document changes nothing. So a timer that dies, or two at once, do
//! no harm. A due cell goes with the commit that takes its word. Until then the timer appends no further record for
//! the document.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort_cluster::worker::{Cells, Control, FORGET_AFTER, Stand};
use consort_cluster::{Appender, Ended, Place, Runtime, Tenure};
use consort_kernel::limits::PAGE_ROWS;
use consort_kernel::{Key, Kind, Partition, Shard, Store, Timestamp, Value, partition_of};
use futures::future::{join_all, try_join_all};
use tokio::sync::Mutex;

use super::PIPELINE;
use crate::stored::word::{PART, due_word};
use crate::{CollectionCells, partition_key};

/// How often it looks.
const ROUND: Duration = Duration::from_secs(1);

/// Pages of due cells that it reads of each shard in a round. What is due beyond them waits for the next round.
const PAGES: usize = 10;

/// Words in one frame at most: a word has about a kilobyte, and a frame four megabytes.
const FRAME_WORDS: usize = 1_000;

/// What a timer needs.
pub(super) struct Timer {
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) appender: Arc<Appender>,
    pub(super) cells: CollectionCells,
    pub(super) partitions: u32,
}

/// A document, by the key of its head.
type Document = (u32, Key);

/// The last words that were appended, by document, until they are passed. At most the due cells of a round, and
/// those of earlier rounds whose partition is behind.
#[derive(Debug, Default)]
pub(super) struct AppendedWords(BTreeMap<Document, Place>);

/// A deadline that has passed.
struct DueWord {
    document: Document,
    record: Bytes,
}

impl Timer {
    /// Looks again and again until the tenure ends.
    pub(super) async fn run(self, tenure: Tenure) -> Ended {
        let appended = Mutex::new(AppendedWords::default());
        let round = || async {
            let done = self.round(&mut *appended.lock().await).await;
            (done.err(), ROUND)
        };
        tenure.rounds(&*self.runtime, round).await
    }

    /// Appends the words that are due.
    pub(super) async fn round(&self, appended: &mut AppendedWords) -> Result<(), String> {
        self.forget_passed(appended).await?;
        let now = self.store.now().await.map_err(|fault| fault.to_string())?;
        // Partitions beyond the shards share the shards of the others.
        let shards = self.partitions.min(self.store.shards().into());
        let shards = (0..shards).map(|index| CollectionCells::shard(index, self.store.shards()));
        let due = try_join_all(shards.map(|shard| self.due(shard, now))).await?;
        let mut words: BTreeMap<u32, Vec<DueWord>> = BTreeMap::new();
        for word in due.into_iter().flatten() {
            if !appended.0.contains_key(&word.document) {
                words.entry(word.document.0).or_default().push(word);
            }
        }
        let appends = words.into_iter().map(|(index, words)| self.append(index, words));
        let mut trouble = None;
        for result in join_all(appends).await {
            match result {
                Ok(places) => appended.0.extend(places),
                Err(error) => trouble = Some(error),
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    /// Forgets the words that their partitions have passed.
    async fn forget_passed(&self, appended: &mut AppendedWords) -> Result<(), String> {
        let mut indexes: Vec<u32> = appended.0.keys().map(|(index, _)| *index).collect();
        indexes.dedup();
        let stands = indexes.into_iter().map(|index| async move {
            let partition = self.partition(index);
            let cells = Cells::new(&PIPELINE, &partition, self.store.shards());
            let shard = CollectionCells::shard(index, self.store.shards());
            // A word without effect moves the checkpoint alone.
            let checkpoint = cells.read_checkpoint(&*self.store).await;
            let mark = cells.read_mark(&*self.store, shard).await;
            let told = |error: &dyn std::fmt::Display| format!("{partition}: {error}");
            let checkpoint = checkpoint.map_err(|error| told(&error))?.stand;
            Ok::<_, String>((index, [checkpoint, mark.map_err(|error| told(&error))?.stand]))
        });
        let stands: BTreeMap<u32, [Stand; 2]> = try_join_all(stands).await?.into_iter().collect();
        appended.0.retain(|(index, _), place| {
            let Some(stands) = stands.get(index) else { return true };
            !stands.iter().any(|stand| has_passed(stand, place))
        });
        Ok(())
    }

    /// The words of a shard that are due.
    async fn due(&self, shard: Shard, now: Timestamp) -> Result<Vec<DueWord>, String> {
        let mut due = Vec::new();
        let mut after: Option<Key> = None;
        for _ in 0..PAGES {
            let dues = self.cells.dues();
            let page = self.store.scan(shard, Kind::Bytes, dues, after.as_ref(), PAGE_ROWS).await;
            let page = page.map_err(|error| error.to_string())?;
            let Some((last, _)) = page.last() else { return Ok(due) };
            after = Some(last.clone());
            for (key, value) in page {
                if self.cells.deadline(&key).is_none_or(|deadline| deadline > now) {
                    return Ok(due);
                }
                due.extend(self.word(&key, &value));
            }
        }
        Ok(due)
    }

    fn word(&self, key: &Key, value: &Value) -> Option<DueWord> {
        let Value::Bytes(cell) = value else { return None };
        let word = match due_word(cell) {
            Ok(word) => word,
            Err(error) => {
                tracing::error!(?key, %error, "a deadline cannot be read and is passed over");
                return None;
            }
        };
        let (tenant, id) = (&word.tenant, &word.id);
        let index = partition_of(partition_key(tenant, id).as_bytes(), self.partitions);
        let document = (index, self.cells.head(tenant, id));
        let record = Control::Word { part: PART.to_owned(), text: word.encode() }.encode();
        Some(DueWord { document, record })
    }

    /// Appends words of one partition. An append whose outcome is unknown counts as none: the same word again is
    /// harmless.
    async fn append(
        &self,
        index: u32,
        words: Vec<DueWord>,
    ) -> Result<Vec<(Document, Place)>, String> {
        let partition = self.partition(index);
        let mut places = Vec::with_capacity(words.len());
        for words in words.chunks(FRAME_WORDS) {
            let records: Vec<Bytes> = words.iter().map(|word| word.record.clone()).collect();
            let place = self.appender.control(&partition, records).await;
            let place = place.map_err(|error| format!("{partition}: {error}"))?;
            places.extend(words.iter().map(|word| (word.document.clone(), place.clone())));
        }
        Ok(places)
    }

    fn partition(&self, index: u32) -> Partition {
        Partition::new(self.cells.stream().clone(), index)
    }
}

/// Producers are forgotten by log time: when that is so far beyond the frame, it was passed long ago.
fn has_passed(stand: &Stand, place: &Place) -> bool {
    stand.has_passed(place.producer, place.sequence)
        || stand.watermark().since(place.time) > FORGET_AFTER
}
