//! Lines over connections: each may stay open, and bring lines for as long as it likes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use consort_line::Point;
use consort_server::streams::{Line, PointLines, Split as _};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::intake::{Intake, now};
use super::until;

/// Connections at one time; more are closed at once.
const CONNECTIONS_MOST: usize = 256;

/// What is read at once.
const READ_BYTES: usize = 64 * 1024;

/// The longest line, which must fit a datagram.
const LINE_MOST: usize = 60 * 1024;

/// A sender that pauses within a line is waited for this long before what it sent is looked at again.
const IDLE: Duration = Duration::from_millis(20);

/// The pause after a failed `accept`, so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes connections until it is stopped.
pub(super) async fn connections(
    intake: Arc<Intake>,
    listener: TcpListener,
    stopped: watch::Receiver<bool>,
) {
    let mut stop = pin!(until(stopped.clone()));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if !intake.is_allowed(Some(from.ip().to_canonical())) {
            intake.counts.refused("disallowed").inc();
        } else if open.len() >= CONNECTIONS_MOST {
            intake.counts.refused("connections").inc();
        } else {
            open.spawn(read(Arc::clone(&intake), stream, stopped.clone()));
        }
    }
    while open.join_next().await.is_some() {}
}

/// Reads a connection to its end, or to the stop.
async fn read(intake: Arc<Intake>, mut stream: TcpStream, stopped: watch::Receiver<bool>) {
    let mut stop = pin!(until(stopped));
    let mut split = PointLines::new(LINE_MOST);
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    loop {
        buffer.reserve(READ_BYTES);
        let read = tokio::select! {
            biased;
            read = stream.read_buf(&mut buffer) => read,
            () = tokio::time::sleep(IDLE), if split.waits() => {
                split.look_again();
                take(&intake, &mut split);
                continue;
            }
            () = &mut stop => break,
        };
        match read {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                split.feed(buffer.split().freeze());
                take(&intake, &mut split);
            }
        }
    }
    split.look_again();
    take(&intake, &mut split);
    if let Some(line) = split.last() {
        take_line(&intake, line);
    }
}

fn take(intake: &Intake, split: &mut PointLines) {
    while let Some(line) = split.next() {
        take_line(intake, line);
    }
}

fn take_line(intake: &Intake, line: Line<'_>) {
    match line {
        Line::Whole(line, _) => intake.take(line, &mut Point::default(), now()),
        Line::TooLong => {
            intake.counts.refused("oversize").inc();
        }
    }
}
