//! Where the events of a body are taken. The task that serves a request takes those of a small body. Any other body
//! goes to threads that no other requests share, so a long one only holds up bodies like it.
//!
//! The task of the request reads a long body, piece by piece, and hands the pieces over. It reads no further piece
//! while the intake is busy, so the client's patience is not used up by ours.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream, HttpBody as _};
use bytes::Bytes;
use consort_cluster::{Runtime, Task};
use futures::channel::mpsc;
use futures::{SinkExt as _, StreamExt as _};

/// Bodies up to this size are small: a hundred single events, or what an agent sends every few seconds. Taking one
/// costs less than a millisecond, in steps.
pub(crate) const SMALL: u64 = 64 * 1024;

/// A body as it comes.
pub(crate) enum Pieces {
    Here(BodyDataStream),
    /// Another task reads it. Two pieces may wait.
    HandedOver(mpsc::Receiver<Result<Bytes, axum::Error>>),
}

impl Pieces {
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        match self {
            Pieces::Here(body) => body.next().await,
            Pieces::HandedOver(pieces) => pieces.next().await,
        }
    }
}

/// Whether a body is known to be small.
pub(crate) fn is_small(body: &Body) -> bool {
    body.size_hint().upper().is_some_and(|most| most <= SMALL)
}

/// Does the work of a body on `threads`, while this task reads the body. Dropping it ends the work at its next await.
pub(crate) async fn read<T, F>(
    threads: &Arc<dyn Runtime>,
    body: Body,
    work: impl FnOnce(Pieces) -> F,
) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (mut sender, pieces) = mpsc::channel(1);
    let mut working = std::pin::pin!(run(threads, work(Pieces::HandedOver(pieces))));
    let reading = async move {
        let mut body = body.into_data_stream();
        while let Some(piece) = body.next().await {
            let is_last = piece.is_err();
            // The work may end before the body does.
            if sender.send(piece).await.is_err() || is_last {
                return;
            }
        }
    };
    tokio::select! {
        done = &mut working => done,
        () = reading => working.await,
    }
}

/// Does some work on `threads`. Dropping it ends the work at its next await.
pub(crate) async fn run<T: Send + 'static>(
    threads: &Arc<dyn Runtime>,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match Task::spawn(&**threads, "intake", work).await {
        Ok(done) => done,
        // The door catches it, as it does where the work is done by the task of the request.
        Err(panicked) => std::panic::resume_unwind(Box::new(panicked.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use consort_cluster::{ApartRuntime, TokioRuntime};
    use consort_kernel::Turns;

    use super::*;

    #[tokio::test]
    async fn the_pieces_of_a_body_come_in_order_on_the_other_thread() {
        let threads: Arc<dyn Runtime> =
            ApartRuntime::start("intake", 1, Turns::Later, &TokioRuntime::current()).unwrap();
        let pieces: Vec<Result<Bytes, std::io::Error>> =
            (0..100u8).map(|byte| Ok(Bytes::from(vec![byte; 1000]))).collect();
        let expected: Vec<u8> = (0..100u8).flat_map(|byte| vec![byte; 1000]).collect();
        let body = Body::from_stream(futures::stream::iter(pieces));
        let (thread, all) = read(&threads, body, |mut pieces| async move {
            let mut all = Vec::new();
            while let Some(Ok(piece)) = pieces.next().await {
                all.extend_from_slice(&piece);
            }
            (std::thread::current().name().map(str::to_owned), all)
        })
        .await;
        assert_eq!((thread.as_deref(), all), (Some("intake"), expected));
    }

    #[tokio::test]
    async fn work_that_ends_early_does_not_wait_for_the_body() {
        let threads: Arc<dyn Runtime> = TokioRuntime::current();
        let endless =
            Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(read(&threads, endless, |_| async { 7 }).await, 7);
    }
}
