//! One client's socket with a watch on it: each phase of a connection has a time-out of its own.
//!
//! hyper has one timer, which runs from the end of the last answer to the end of the next request's
//! headers. It cannot tell a silent client (who may rest for a minute) from a slow one (who holds a
//! request open), so the phases are told apart here, where the bytes arrive.
//!
//! ```text
//! FirstByte ──a byte──▶ Head ──headers complete──▶ Answering ──answer handed over──▶ Idle ──a byte──▶ Head …
//! ```
//!
//! While *Answering*, reads are not timed (the body has its own guard); writes always are.
//!
//! A client may end its sending side after its request and wait for the answer. From here that looks like
//! a client that closed its socket: the same FIN comes in both cases, and only bytes sent to a closed socket
//! come back as a reset. So the end of input ends no request. A reset does, at once: hyper does not look
//! for it while it has nothing to read or write, but it flushes each time it is woken, so the watch is there.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::limits::Limits;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    FirstByte,
    Head,
    Answering,
    Idle,
}

/// What the socket gave up waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    Read(Phase),
    Write,
}

/// The connection's phase, shared between the socket (which sees bytes) and the service (which sees
/// requests). Every change has a new number, so that a timer can tell the second *Idle* from the
/// first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

/// A stream whose reads fail with [`io::ErrorKind::TimedOut`] when their phase lasts too long.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    inner: S,
    /// What is to be read before anything else.
    unread: Bytes,
    limits: Limits,
    progress: Progress,
    read_timer: Option<ReadTimer>,
    write_timer: Option<Pin<Box<Sleep>>>,
    lapse: Option<Lapse>,
    /// The watch for a reset, once the client has ended its sending side.
    reset: Option<ResetWatch>,
}

/// Resolves when the connection is reset.
pub(crate) struct ResetWatch(Pin<Box<dyn Future<Output = ()> + Send>>);

/// The streams under a [`Socket`].
pub(crate) trait Watched: AsyncRead + AsyncWrite + Unpin {
    /// Looks at what has arrived, and leaves it there: the number of bytes, 0 at the end of input.
    fn poll_look(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>>;

    fn watch_reset(&self) -> ResetWatch;
}

/// The watch on reads. A timer that was set for an earlier phase is left to run out, and then set anew:
/// most phases end long before, and setting a timer costs more than looking at a clock.
#[derive(Debug)]
struct ReadTimer {
    /// Which phase it was last seen in, by its number.
    stamp: u64,
    /// When that has lasted too long.
    due: Instant,
    sleep: Pin<Box<Sleep>>,
}

const PHASES: [Phase; 4] = [Phase::FirstByte, Phase::Head, Phase::Answering, Phase::Idle];

impl Progress {
    pub(crate) fn phase(&self) -> Phase {
        phase_of(self.0.load(Ordering::Acquire))
    }

    /// The connection's own task is the only writer, so reading and then storing loses nothing.
    pub(crate) fn enter(&self, phase: Phase) {
        let turn = self.0.load(Ordering::Acquire) / PHASES.len() as u64 + 1;
        self.0.store(turn * PHASES.len() as u64 + phase as u64, Ordering::Release);
    }

    fn stamp(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

fn phase_of(stamp: u64) -> Phase {
    PHASES[(stamp % PHASES.len() as u64) as usize]
}

impl<S> Socket<S> {
    pub(crate) fn new(inner: S, limits: Limits, progress: Progress) -> Socket<S> {
        Socket {
            inner,
            unread: Bytes::new(),
            limits,
            progress,
            read_timer: None,
            write_timer: None,
            lapse: None,
            reset: None,
        }
    }

    /// Has `bytes`, which were read, read again.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        self.unread = bytes;
    }

    /// Why a read or write of this socket timed out, if one did.
    pub(crate) fn lapse(&self) -> Option<Lapse> {
        self.lapse
    }

    pub(crate) fn into_inner(self) -> S {
        self.inner
    }

    fn allowance(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::FirstByte => Some(self.limits.first_byte),
            Phase::Head => Some(self.limits.header),
            Phase::Answering => None,
            Phase::Idle => Some(self.limits.keep_alive_idle),
        }
    }

    /// Ready when the present phase has lasted too long.
    fn poll_read_lapse(&mut self, cx: &mut Context<'_>) -> Poll<Phase> {
        let stamp = self.progress.stamp();
        let phase = phase_of(stamp);
        let Some(allowance) = self.allowance(phase) else {
            return Poll::Pending;
        };
        let timer = self.read_timer.get_or_insert_with(|| {
            let due = Instant::now() + allowance;
            ReadTimer { stamp, due, sleep: Box::pin(tokio::time::sleep_until(due)) }
        });
        if timer.stamp != stamp {
            (timer.stamp, timer.due) = (stamp, Instant::now() + allowance);
            if timer.sleep.deadline() > timer.due {
                timer.sleep.as_mut().reset(timer.due);
            }
        }
        while timer.sleep.as_mut().poll(cx).is_ready() {
            if timer.sleep.deadline() >= timer.due {
                return Poll::Ready(phase);
            }
            timer.sleep.as_mut().reset(timer.due);
        }
        Poll::Pending
    }

    /// Watches one attempt to write: `Pending` for too long becomes an error.
    fn watch_write(
        &mut self,
        cx: &mut Context<'_>,
        attempt: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if attempt.is_ready() {
            self.write_timer = None;
            return attempt;
        }
        let allowance = self.limits.write_stall;
        let timer = self.write_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(allowance)));
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.lapse = Some(Lapse::Write);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: Watched> Socket<S> {
    /// Waits until the client resets the connection, after it has ended its sending side.
    pub(crate) async fn reset(&mut self) {
        poll_fn(|cx| self.poll_reset(cx)).await
    }

    /// Ready when a client whose request is being answered has left for certain.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reset.is_none() {
            match self.inner.poll_look(cx) {
                Poll::Ready(Ok(0)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                // Behind what has arrived nothing can be seen.
                Poll::Ready(Ok(_)) | Poll::Pending => return Poll::Pending,
            }
        }
        self.poll_reset(cx)
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let inner = &self.inner;
        self.reset.get_or_insert_with(|| inner.watch_reset()).0.as_mut().poll(cx)
    }
}

impl Watched for TcpStream {
    fn poll_look(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut byte = [0];
        self.poll_peek(cx, &mut ReadBuf::new(&mut byte))
    }

    /// A second descriptor for the socket, since readiness of the first is taken up by reads: they find it ended
    /// for ever. Few clients end their sending side, and a connection has one such watch at most.
    fn watch_reset(&self) -> ResetWatch {
        let copy = self.as_fd().try_clone_to_owned();
        let watched = copy.and_then(|copy| TcpStream::from_std(copy.into()));
        ResetWatch(Box::pin(async move {
            match watched {
                Ok(watched) => drop(watched.ready(Interest::ERROR).await),
                // Without descriptors to spare the answer is written, and a reset is seen then.
                Err(_) => std::future::pending().await,
            }
        }))
    }
}

impl fmt::Debug for ResetWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetWatch")
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let length = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        if let Poll::Ready(outcome) = Pin::new(&mut self.inner).poll_read(cx, buffer) {
            let arrived = buffer.filled().len() > before;
            if arrived && matches!(self.progress.phase(), Phase::FirstByte | Phase::Idle) {
                self.progress.enter(Phase::Head);
                tracing::trace!("a request begins to arrive");
            }
            return Poll::Ready(outcome);
        }
        self.poll_read_lapse(cx).map(|phase| {
            self.lapse = Some(Lapse::Read(phase));
            Err(io::ErrorKind::TimedOut.into())
        })
    }
}

impl<S: Watched> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch_write(cx, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.watch_write(cx, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.progress.phase() == Phase::Answering && self.poll_left(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
