//! An interactive transaction: it goes on over multiple requests and has the writer for itself meanwhile, within
//! bounds of time.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::batch::{BatchJob, BatchOutcome};
use super::queue::{Settled, WriteFailure, WriterReply, WriterTask, reply};
use crate::db::Database;

/// How long a transaction may wait for its client's next request, while all other writes wait for it.
pub const TRANSACTION_IDLE: Duration = Duration::from_secs(1);

/// A client wants the writer for itself.
#[derive(Debug)]
pub struct TransactionRequest {
    /// Told when the transaction has begun.
    pub opened: oneshot::Sender<WriterReply<()>>,
    /// The steps. The transaction is rolled back when the sender is dropped.
    pub steps: mpsc::Receiver<TransactionStep>,
}

/// One request within a transaction.
#[derive(Debug)]
pub enum TransactionStep {
    /// Runs statements. A `COMMIT` or `ROLLBACK` among them ends the transaction.
    Run(BatchJob, oneshot::Sender<TransactionReply>),
}

/// The answer to a step.
pub type TransactionReply = Result<TransactionAnswer, WriteFailure>;

/// The outcome of a step, and whether the transaction goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionAnswer {
    /// The outcome; its position is that of the commit if the step ended with one.
    pub settled: Settled<BatchOutcome>,
    /// Whether the transaction is still open.
    pub is_open: bool,
}

/// The client's side of an open transaction. It is rolled back when this is dropped.
#[derive(Debug)]
pub struct ClientTransaction {
    steps: mpsc::Sender<TransactionStep>,
    /// A commit that has begun by the end of the transaction's time is settled within this time.
    settle_by: Instant,
}

/// Why a request within a transaction has no answer. The transaction has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionFailure {
    /// It was rolled back before the request.
    #[error(
        "the transaction was rolled back, because it waited for {TRANSACTION_IDLE:?} or took longer than \
         transaction_time, or the leader changed"
    )]
    RolledBack,
    /// The writer failed.
    #[error(transparent)]
    Failed(#[from] WriteFailure),
}

impl Database {
    /// Begins an interactive transaction at the leader of this node. The writer must take it before `take_by`.
    pub async fn begin_transaction(&self, take_by: Instant) -> WriterReply<ClientTransaction> {
        if let Some(reason) = self.view().now().stopped() {
            return Err(WriteFailure::Stopped(reason.to_owned()));
        }
        let (tell, opened) = oneshot::channel();
        let (steps, receiver) = mpsc::channel(1);
        let request = TransactionRequest { opened: tell, steps: receiver };
        let leader = self.local_leader().and_then(|worker| worker.jobs());
        let leader = leader.ok_or(WriteFailure::NotLeader)?;
        let ticket = leader.send(WriterTask::Transaction(request))?;
        let settings = self.settings();
        let opened = reply(ticket, opened, take_by, take_by + settings.wait).await;
        // Nothing has been changed when the writer fails to begin.
        let Settled { position, .. } = opened.map_err(|failure| match failure {
            WriteFailure::Unknown => WriteFailure::NotTaken,
            failure => failure,
        })?;
        let settle_by = Instant::now() + settings.transaction_time + settings.wait;
        Ok(Settled { position, outcome: ClientTransaction { steps, settle_by } })
    }
}

impl ClientTransaction {
    /// Runs one request. If it contains the commit and no answer comes in time, the outcome is unknown.
    pub async fn run(&self, batch: BatchJob) -> Result<TransactionAnswer, TransactionFailure> {
        let (tell, told) = oneshot::channel();
        let sent = self.steps.send(TransactionStep::Run(batch, tell));
        match timeout_at(self.settle_by, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Err(TransactionFailure::RolledBack),
        }
        match timeout_at(self.settle_by, told).await {
            Ok(Ok(Err(WriteFailure::NotTaken))) => Err(TransactionFailure::RolledBack),
            Ok(Ok(answer)) => Ok(answer?),
            // The writer has ended in the middle of it.
            Ok(Err(_)) | Err(_) => Err(WriteFailure::Unknown.into()),
        }
    }
}
