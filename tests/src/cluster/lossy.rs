//! A log whose acknowledgements get lost at times: the frame is there, and nobody is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, Log, LogEntry, Most, Partition, ReadError,
};

/// One acknowledgement in so many is lost.
const LOST_ONE_IN: u64 = 25;

/// `log`, with lost acknowledgements.
#[derive(Debug)]
pub struct LossyLog {
    log: Arc<dyn Log>,
    appended: AtomicU64,
}

impl LossyLog {
    /// Loses some of the acknowledgements of `log`.
    pub fn over(log: &Arc<dyn Log>) -> Arc<dyn Log> {
        Arc::new(LossyLog { log: Arc::clone(log), appended: AtomicU64::new(0) })
    }
}

#[async_trait]
impl Log for LossyLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        self.log.append(at, frame).await?;
        match self.appended.fetch_add(1, Ordering::Relaxed) % LOST_ONE_IN {
            0 => {
                let lost = "the acknowledgement was lost on purpose".to_string();
                Err(AppendError::Unknown(Fault::Retryable(lost)))
            }
            _ => Ok(()),
        }
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        self.log.read(at, after, most, wait).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        self.log.first(at).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        self.log.trim(at, before).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.log.ping().await
    }
}
