//! Many events in one request: appended in large steps, and bounded in memory.

use consort_views::Event;

use super::answers::{Appended, Bulk};
use super::{Encoder, Entrance};
use crate::ingress::BulkSender;
use crate::problem::Problem;

/// Events of one request on their way into the log.
pub(super) struct Intake<'a> {
    entrance: &'a Entrance,
    encoder: Encoder,
    sender: BulkSender<'a>,
    /// Why the request ended early, apart from its appends.
    failure: Option<Problem>,
}

impl<'a> Intake<'a> {
    pub(super) fn new(entrance: &'a Entrance) -> Self {
        let sender = entrance.ingress.bulk();
        Intake { entrance, encoder: Encoder::default(), sender, failure: None }
    }

    /// Takes an event, or tells why no log would.
    pub(super) fn take(&mut self, event: Event, bulk: &mut Bulk) {
        match self.encoder.encode(&self.entrance.stream, event) {
            Ok((partition, record)) => self.sender.push(partition, record),
            Err(too_large) => {
                self.entrance.ingress.metrics().rejected.inc();
                bulk.reject(|| too_large.to_string());
            }
        }
    }

    /// Whether it is time to send.
    pub(super) fn is_full(&self) -> bool {
        self.sender.is_full()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some() || self.sender.has_failed()
    }

    /// Nothing more is sent. The first reason is the one that is told.
    pub(super) fn fail(&mut self, problem: Problem) {
        self.sender.drop_unsent();
        self.failure.get_or_insert(problem);
    }

    /// Bytes of records that are kept, or on their way.
    pub(super) fn held(&self) -> usize {
        self.sender.held()
    }

    pub(super) fn entrance(&self) -> &'a Entrance {
        self.entrance
    }

    /// Sends what was taken, and waits only while too much is on its way.
    pub(super) async fn flush(&mut self) {
        self.sender.flush().await;
    }

    /// Sends the rest and waits until all of it is answered.
    pub(super) async fn finish(self) -> Appended {
        let mut appended = Appended::from(self.sender.finish().await);
        appended.failure = appended.failure.or(self.failure);
        appended
    }
}
