//! stub
use super::leading::{Lead, LeadEnd};
use crate::write::batch::*;
use crate::write::queue::*;
use crate::write::transaction::*;
use tokio::sync::oneshot;
impl Lead<'_> {
    pub(super) async fn batch(
        &mut self,
        _: BatchJob,
        _: oneshot::Sender<WriterReply<BatchOutcome>>,
    ) -> Result<(), LeadEnd> {
        Ok(())
    }
    pub(super) async fn transaction(&mut self, _: TransactionRequest) -> Result<(), LeadEnd> {
        Ok(())
    }
}
