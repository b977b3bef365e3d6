//! How a submission can fail. A caller needs to know whether its records may be in the log.

use consort_kernel::{AppendError, Fault, Refusal};

/// Why records were not stored, or not for certain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// No frame takes these records. They are not stored, and would not be the next time.
    #[error("no frame takes the records: {0}")]
    Refused(#[from] Refusal),
    /// They are not in the log for certain. The same records may be submitted again.
    #[error("the records were not stored: {0}")]
    NotStored(#[from] NotStored),
    /// They may be in the log, or not.
    #[error("it is not known whether the records were stored: {0}")]
    Unknown(Fault),
}

/// Why records are not in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// The log failed.
    #[error("{0}")]
    Engine(Fault),
    /// The partition queue has no room.
    #[error("more records wait for this partition than the log takes")]
    QueueFull,
    /// Their deadline passed while they waited for a frame.
    #[error("the log was too slow for them to be stored in time")]
    Late,
    /// They stood behind records of the same ticket that were not stored, or not for certain.
    #[error("an earlier part of the same request was not stored, or not for certain")]
    Behind,
}

impl From<AppendError> for SubmitError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Refused(refusal) => SubmitError::Refused(refusal),
            AppendError::Unknown(fault) => SubmitError::Unknown(fault),
            AppendError::Engine(fault) => SubmitError::NotStored(NotStored::Engine(fault)),
        }
    }
}
