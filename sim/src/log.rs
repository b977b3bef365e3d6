//! The log as one node sees it: the memory engine, far away.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::memory::MemoryLog;
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, Log, LogEntry, Most, Partition, ReadError,
};
use futures::FutureExt;

use crate::faults::{FaultKind, Faults};
use crate::link::Link;
use crate::runtime::NodeRuntime;

/// One node's way to the log that all share.
#[derive(Debug)]
pub struct SimLog {
    inner: Arc<MemoryLog>,
    link: Link,
}

impl SimLog {
    /// The log as the node of `runtime` sees it in this life.
    pub fn new(inner: Arc<MemoryLog>, runtime: NodeRuntime, faults: Arc<Faults>) -> Self {
        SimLog { inner, link: Link::new(runtime, faults) }
    }
}

#[async_trait]
impl Log for SimLog {
    async fn append(&self, at: &Partition, frame: &Frame) -> Result<(), AppendError> {
        // A refusal is the caller's mistake: every engine tells it before anything is sent.
        frame.encode()?;
        let twice = self.link.strikes(FaultKind::LandsTwice);
        let (producer, sequence) = (frame.producer, frame.sequence);
        let times = if twice { " twice" } else { "" };
        let what = format!("append of {producer}'s {sequence} to {at}{times}");
        let (inner, at, frame) = (Arc::clone(&self.inner), at.clone(), frame.clone());
        let effect = async move {
            if twice {
                inner.append(&at, &frame).await?;
            }
            inner.append(&at, &frame).await
        };
        self.link.write(&what, effect.boxed()).await
    }

    async fn read(
        &self,
        at: &Partition,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<LogEntry>, ReadError> {
        let what = format!("read of {at} from {}", after.next);
        let listen = || self.inner.listen(at);
        let look = || self.inner.read(at, after, most, Duration::ZERO);
        let look = self.link.look_for(wait, listen, look);
        self.link.read(&what, FaultKind::ReadFails, look).await
    }

    async fn first(&self, at: &Partition) -> Result<u64, Fault> {
        let look = self.inner.first(at);
        self.link.read(&format!("first of {at}"), FaultKind::ReadFails, look).await
    }

    async fn trim(&self, at: &Partition, before: u64) -> Result<(), Fault> {
        let trim = self.inner.trim(at, before);
        self.link.read(&format!("trim of {at} before {before}"), FaultKind::ReadFails, trim).await
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.link.read("ping", FaultKind::ReadFails, self.inner.ping()).await
    }
}
