//! An interactive transaction: it goes on over multiple requests and has the writer for itself meanwhile, within
//! bounds of time.

use tokio::sync::{mpsc, oneshot};

use super::batch::{BatchJob, BatchOutcome};
use super::queue::{Settled, WriteFailure, WriterReply};

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
