//! The request body under guard: at most so many bytes, and at most so much waiting.
//!
//! Only the time we spend waiting for the client counts. A handler that takes its time between two
//! reads does not use up the client's allowance, and a client that sends one byte a second does.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::problem::Problem;

/// Why a body was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    #[error("the body did not arrive within {0:?}")]
    Slow(Duration),
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
}

/// Where a guarded body leaves its fault. The handler sees only *an* error and answers what it
/// makes of it; the door looks here and answers the real reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultNote(Arc<OnceLock<BodyFault>>);

/// A body that fails with a [`BodyFault`] rather than be late or too large.
pub(crate) struct GuardedBody {
    inner: Body,
    note: FaultNote,
    max_bytes: u64,
    bytes_left: u64,
    patience: Duration,
    patience_left: Duration,
    /// Whether the patience is for each wait, not for all of them together.
    renewed: bool,
    wait: Option<Wait>,
}

struct Wait {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl BodyFault {
    pub(crate) fn problem(self) -> Problem {
        match self {
            BodyFault::Slow(patience) => Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "body-timeout",
                format!(
                    "the request body did not arrive within {patience:?} ([http] body_timeout)"
                ),
            ),
            BodyFault::TooLarge(max) => Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body-too-large",
                format!(
                    "the request body is larger than {max} bytes ([http] max_body); \
                     send it in smaller parts"
                ),
            ),
        }
        .closing()
    }
}

impl FaultNote {
    pub(crate) fn fault(&self) -> Option<BodyFault> {
        self.0.get().copied()
    }
}

impl GuardedBody {
    pub(crate) fn new(inner: Body, max_bytes: u64, patience: Duration) -> (GuardedBody, FaultNote) {
        let note = FaultNote::default();
        let body = GuardedBody {
            inner,
            note: note.clone(),
            max_bytes,
            bytes_left: max_bytes,
            patience,
            patience_left: patience,
            renewed: false,
            wait: None,
        };
        (body, note)
    }

    /// A body of any length, for a handler that takes it in bounded pieces: only a silence ends it.
    pub(crate) fn streamed(inner: Body, patience: Duration) -> (GuardedBody, FaultNote) {
        let (body, note) = GuardedBody::new(inner, u64::MAX, patience);
        (GuardedBody { renewed: true, ..body }, note)
    }

    fn fail(&self, fault: BodyFault) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // A second fault of the same body changes nothing: the first is the reason.
        let _ = self.note.0.set(fault);
        Poll::Ready(Some(Err(axum::Error::new(fault))))
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let left = self.patience_left;
        let wait = self.wait.get_or_insert_with(|| Wait {
            since: Instant::now(),
            timer: Box::pin(tokio::time::sleep(left)),
        });
        wait.timer.as_mut().poll(cx)
    }
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Poll::Ready(next) = Pin::new(&mut self.inner).poll_frame(cx) else {
            ready!(self.poll_patience(cx));
            return self.fail(BodyFault::Slow(self.patience));
        };
        if let Some(wait) = self.wait.take()
            && !self.renewed
        {
            self.patience_left = self.patience_left.saturating_sub(wait.since.elapsed());
        }
        let Some(Ok(frame)) = &next else {
            return Poll::Ready(next);
        };
        let length = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
        match self.bytes_left.checked_sub(length) {
            Some(left) => {
                self.bytes_left = left;
                Poll::Ready(next)
            }
            None => self.fail(BodyFault::TooLarge(self.max_bytes)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
