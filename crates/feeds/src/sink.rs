//! Sinks: where rows are delivered to.

mod amqp;
pub(crate) mod config;
mod events;
mod file;
mod influx;
mod line;
mod open;
mod webhook;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::{Name, Row};

pub use open::Unopened;
pub(crate) use open::open;

/// A row to be delivered.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The feed that it stands in.
    pub feed: Name,
    /// Its number there.
    pub number: u64,
    /// The row.
    pub row: Row,
}

/// Why a delivery did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It may succeed later. Some of the rows may have been taken.
    Retry {
        /// What happened, and what to do where somebody has to do something.
        reason: String,
        /// When to come again, if the sink said so.
        after: Option<Duration>,
    },
    /// At least one of the rows will never be taken. Some of the others may have been.
    Refused {
        /// Why.
        reason: String,
    },
}

impl Failed {
    pub(crate) fn retry(reason: impl Into<String>) -> Failed {
        Failed::Retry { reason: reason.into(), after: None }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Failed {
        Failed::Refused { reason: reason.into() }
    }
}

/// Takes rows, and keeps them when the call returns.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// Delivers all rows, in their order where the sink has one. At least one row is given. Rows come again
    /// after a failure, and sometimes without one; a sink or whoever reads it knows a row by its name,
    /// group and window, and of two revisions the higher counts.
    ///
    /// The call may be dropped at any await: its caller has a bound on its time.
    async fn deliver(&self, rows: &[Delivery]) -> Result<(), Failed>;
}
