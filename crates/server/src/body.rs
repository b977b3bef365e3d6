//! The request body under guard: at most so many bytes, at most so much waiting, and a share of the memory that all
//! bodies have together.
//!
//! Only the time we spend waiting for the client counts. A handler that takes its time between two
//! reads does not use up the client's allowance, and a client that sends one byte a second does. Nor does a node
//! that is too busy to read: a wait is counted in short slices, and a slice counts once, however late it ends.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::memory::{BodiesFull, BodyShare};
use crate::problem::Problem;
use crate::problems;

/// The longest slice of a wait. A node that is busy for seconds sees its timer late, and the client's bytes later
/// still: it counts one slice for all of that.
const SLICE: Duration = Duration::from_millis(100);

/// Why a body was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    #[error("the body did not arrive within {0:?}")]
    Slow(Duration),
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    NoMemory(BodiesFull),
}

/// Where a guarded body leaves its fault. The handler sees only *an* error and answers what it
/// makes of it; the door looks here and answers the real reason.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultNote(Arc<OnceLock<BodyFault>>);

/// A body that fails with a [`BodyFault`] rather than be late or too large.
pub(crate) struct GuardedBody {
    inner: Body,
    note: FaultNote,
    /// What a handler that keeps the whole body takes of the node's memory; none for a body that is streamed, whose
    /// handler counts what it keeps.
    share: Option<BodyShare>,
    max_bytes: u64,
    bytes_left: u64,
    patience: Duration,
    patience_left: Duration,
    /// Whether the patience is for each wait, not for all of them together.
    renewed: bool,
    wait: Option<Wait>,
}

/// A slice of a wait for the client.
struct Wait {
    since: Instant,
    slice: Duration,
    timer: Pin<Box<Sleep>>,
}

impl BodyFault {
    pub(crate) fn problem(self) -> Problem {
        match self {
            BodyFault::Slow(patience) => Problem::new(
                problems::BODY_TIMEOUT,
                format!(
                    "the request body did not arrive within {patience:?} ([http] body_timeout)"
                ),
            ),
            BodyFault::TooLarge(max) => Problem::new(
                problems::BODY_TOO_LARGE,
                format!(
                    "the request body is larger than {max} bytes ([http] max_body); \
                     send it in smaller parts"
                ),
            ),
            BodyFault::NoMemory(full) => full.problem(),
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
    /// A body that its handler keeps whole, in its share of the node's memory.
    pub(crate) fn new(
        inner: Body,
        max_bytes: u64,
        patience: Duration,
        share: BodyShare,
    ) -> (GuardedBody, FaultNote) {
        let note = FaultNote::default();
        let body = GuardedBody {
            inner,
            note: note.clone(),
            share: Some(share),
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
        let (body, note) = GuardedBody::new(inner, u64::MAX, patience, BodyShare::default());
        (GuardedBody { renewed: true, share: None, ..body }, note)
    }

    fn fail(&self, fault: BodyFault) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // A second fault of the same body changes nothing: the first is the reason.
        let _ = self.note.0.set(fault);
        Poll::Ready(Some(Err(axum::Error::new(fault))))
    }

    /// Ready when the client has used up its patience.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.patience_left.is_zero() {
            let slice = self.patience_left.min(SLICE);
            let wait = self.wait.get_or_insert_with(|| Wait::new(slice));
            ready!(wait.timer.as_mut().poll(cx));
            self.patience_left = self.patience_left.saturating_sub(wait.slice);
            wait.renew(self.patience_left.min(SLICE));
        }
        Poll::Ready(())
    }

    /// The client has sent something.
    fn end_wait(&mut self) {
        let Some(wait) = self.wait.take() else { return };
        self.patience_left = match self.renewed {
            true => self.patience,
            false => self.patience_left.saturating_sub(wait.since.elapsed().min(wait.slice)),
        };
    }

    /// Counts a piece of the body.
    fn count(&mut self, length: usize) -> Result<(), BodyFault> {
        let left = self.bytes_left.checked_sub(length as u64);
        self.bytes_left = left.ok_or(BodyFault::TooLarge(self.max_bytes))?;
        self.share.as_ref().map_or(Ok(()), |share| share.add(length)).map_err(BodyFault::NoMemory)
    }
}

impl Wait {
    fn new(slice: Duration) -> Wait {
        let since = Instant::now();
        Wait { since, slice, timer: Box::pin(tokio::time::sleep_until(since + slice)) }
    }

    fn renew(&mut self, slice: Duration) {
        (self.since, self.slice) = (Instant::now(), slice);
        self.timer.as_mut().reset(self.since + slice);
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
        self.end_wait();
        let Some(Ok(frame)) = &next else {
            return Poll::Ready(next);
        };
        match self.count(frame.data_ref().map_or(0, Bytes::len)) {
            Ok(()) => Poll::Ready(next),
            Err(fault) => self.fail(fault),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc;
    use futures::{FutureExt as _, StreamExt as _};
    use tokio::time::advance;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    type Pieces = mpsc::UnboundedSender<Result<Bytes, std::io::Error>>;

    fn guarded(patience: Duration) -> (Pieces, axum::body::BodyDataStream, FaultNote) {
        let (sender, pieces) = mpsc::unbounded();
        let body = Body::from_stream(pieces);
        let (body, note) = GuardedBody::new(body, u64::MAX, patience, BodyShare::default());
        (sender, Body::new(body).into_data_stream(), note)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_has_arrived_is_not_late_because_the_node_was_busy() {
        let (sender, mut body, note) = guarded(PATIENCE);
        for _ in 0..100 {
            assert!(body.next().now_or_never().is_none(), "there is nothing yet");
            sender.unbounded_send(Ok(Bytes::from_static(b"piece"))).unwrap();
            // The node is busy for a while, and only then reads what came at once.
            advance(Duration::from_secs(10)).await;
            assert!(body.next().await.is_some_and(|piece| piece.is_ok()), "{:?}", note.fault());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_drips_uses_up_its_patience() {
        let (sender, mut body, note) = guarded(PATIENCE);
        let dripping = tokio::spawn(async move {
            while sender.unbounded_send(Ok(Bytes::from_static(b"x"))).is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut pieces = 0;
        while body.next().await.is_some_and(|piece| piece.is_ok()) {
            pieces += 1;
        }
        assert_eq!(note.fault(), Some(BodyFault::Slow(PATIENCE)));
        assert!((29..=32).contains(&pieces), "{pieces}");
        drop(body);
        dripping.await.unwrap();
    }
}
