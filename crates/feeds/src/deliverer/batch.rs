//! A batch: the deliveries that a run of rows comes to.

use std::sync::Arc;

use consort_kernel::{ChangeError, limits::READ_ENTRIES};

use super::{BATCH, SinkFeed};
use crate::parked_subject::ParkedSubjects;
use crate::row::Row;
use crate::sink::Delivery;
use crate::states::{StateBounds, read_states};
use crate::subjects::{SendMode, SubjectChange};

/// The deliveries of a run of rows.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) items: Vec<Item>,
    /// How many of the rows the batch stands for.
    pub(super) rows: usize,
}

/// One delivery.
#[derive(Debug)]
pub(super) struct Item {
    /// The first row that it stands for.
    pub(super) first: usize,
    pub(super) number: u64,
    pub(super) delivery: Result<Delivery, ChangeError>,
    /// The subject that a refusal parks.
    pub(super) subject: Option<SubjectChange>,
}

impl Batch {
    /// How many rows are settled when the first `done` items are. Rows that are passed over are settled with the
    /// items before them.
    pub(super) fn settled(&self, done: usize) -> usize {
        self.items.get(done).map_or(self.rows, |item| item.first)
    }
}

impl SinkFeed {
    /// The deliveries of these rows, without those of parked subjects.
    pub(super) async fn batch(
        &self,
        rows: &[Row],
        parked: &ParkedSubjects,
    ) -> Result<Batch, String> {
        match (self.send, self.spec.payload.subjects()) {
            (SendMode::States, Some(subjects)) => {
                let bounds = StateBounds { items: READ_ENTRIES, bytes: BATCH.bytes };
                let run = read_states(&*self.store, self.shard, subjects, rows, bounds).await;
                let run = run.map_err(|error| format!("states cannot be read: {error}"))?;
                let items = run.items.into_iter().map(|item| {
                    let delivery = item.change.map(|change| self.delivery(item.number, change));
                    Item { first: item.first, number: item.number, delivery, subject: None }
                });
                Ok(Batch { items: items.collect(), rows: run.rows })
            }
            _ => Ok(Batch { items: self.pieces(rows, parked), rows: rows.len() }),
        }
    }

    fn pieces(&self, rows: &[Row], parked: &ParkedSubjects) -> Vec<Item> {
        let is_sent = |row: &Row| !row.subject.as_ref().is_some_and(|change| parked.covers(change));
        let sent = rows.iter().enumerate().filter(|(_, row)| is_sent(row));
        let item = |(first, row): (usize, &Row)| {
            let delivery = row.change.clone().map(|change| self.delivery(row.number, change));
            let subject = row.subject.clone().filter(|_| self.parks_subjects());
            Item { first, number: row.number, delivery, subject }
        };
        sent.map(item).collect()
    }

    fn delivery(&self, number: u64, change: consort_kernel::Change) -> Delivery {
        Delivery { feed: Arc::clone(&self.spec), number, change }
    }
}
