//! Admission of the records of a queue: what a stream asks before they are appended, such as the quota of a tenant.

use async_trait::async_trait;

use crate::appender::Place;
use crate::collector::SubmitError;

/// Admits the submissions of one queue. A consumer asks before each submission, so while one waits its queue is paused,
/// and no other queue is.
#[async_trait]
pub trait QueueAdmission: Send + Sync {
    /// How many records one submission to a partition should have at most.
    fn records_most(&self, partition: u32) -> usize;

    /// Waits until so many records of so many bytes may be appended to a partition. Dropping the future admits none.
    async fn admit(&self, partition: u32, records: u64, bytes: u64) -> Box<dyn AdmittedRecords>;
}

/// Records that were admitted. If this is dropped before it is settled, their outcome is unknown.
pub trait AdmittedRecords: Send {
    /// The log's last word on the records.
    fn settle(self: Box<Self>, result: Result<&Place, &SubmitError>);
}

/// Admits everything at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

#[async_trait]
impl QueueAdmission for Unlimited {
    fn records_most(&self, _: u32) -> usize {
        usize::MAX
    }

    async fn admit(&self, _: u32, _: u64, _: u64) -> Box<dyn AdmittedRecords> {
        Box::new(Unlimited)
    }
}

impl AdmittedRecords for Unlimited {
    fn settle(self: Box<Self>, _: Result<&Place, &SubmitError>) {}
}
