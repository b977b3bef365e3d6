//! Sinks: where changes are delivered to.

mod amqp;
pub(crate) mod config;
mod events;
mod file;
mod influx;
mod open;
mod webhook;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort_kernel::Change;

use crate::spec::FeedSpec;

pub use open::Unopened;
pub(crate) use open::open;

/// A change to be delivered.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The feed that it stands in.
    pub feed: Arc<FeedSpec>,
    /// Its number there.
    pub number: u64,
    /// The change.
    pub change: Change,
}

impl Delivery {
    /// The change's id, which a repeat has as well.
    pub(crate) fn id(&self) -> Result<String, String> {
        self.feed.payload.id(&self.change)
    }

    /// The change as a point of line protocol.
    fn point(&self) -> Result<consort_line::Point<'static>, String> {
        let payload = &self.feed.payload;
        let no_form = || config::no_line_protocol(&**payload);
        payload.points().ok_or_else(no_form)?.point(&self.change)
    }
}

/// Appends a point to `text` as a line, with its line end.
fn write_line(point: &consort_line::Point<'_>, text: &mut String) -> Result<(), String> {
    let told = |error: consort_line::WriteError| format!("line protocol cannot say it: {error}");
    consort_line::write(point, text).map_err(told)?;
    text.push('\n');
    Ok(())
}

/// Why a delivery did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// It may succeed later. Some of the changes may have been taken.
    Retry {
        /// What happened, and what to do where somebody has to do something.
        reason: String,
        /// When to come again, if the sink said so.
        after: Option<Duration>,
    },
    /// At least one of the changes will never be taken. Some of the others may have been.
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

/// Takes changes, and keeps them when the call returns.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// Delivers all changes, in their order where the sink has one. At least one change is given. Changes come
    /// again after a failure, and sometimes without one. A repeat has the same id, and of two revisions of the
    /// same thing the higher counts.
    ///
    /// The call may be dropped at any await: its caller has a bound on its time.
    async fn deliver(&self, changes: &[Delivery]) -> Result<(), Failed>;
}
