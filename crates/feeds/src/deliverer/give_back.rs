//! What a deliverer does that finds itself replaced: it has its last request made good by its successor.

use std::sync::atomic::{AtomicBool, Ordering};

use consort_kernel::{Cursor, Operation};

use super::SinkFeed;
use crate::backoff;
use crate::cell::{Changed, Found};
use crate::feed;

/// How often a deliverer that was replaced tries to give back the rows that it sent. With the longest pauses between
/// them, these tries take longer than any engine is away.
const GIVE_BACK_TRIES: u32 = 50;

/// What the successor is to do again.
pub(super) enum Redo {
    /// Deliver the rows behind this cursor.
    Rows(Cursor),
    /// Release a subject: the operations park it again and ask for the release.
    Release(Vec<Operation>),
}

impl SinkFeed {
    /// Has the rows of a replaced attempt delivered again by the successor, if any of them were sent: the request may
    /// have arrived behind newer ones.
    pub(super) async fn give_back(&self, claimed: &Found, sent: &AtomicBool) {
        self.have_redone(&Redo::Rows(claimed.stand.cursor()), sent).await;
    }

    /// Tries until the successor knows, or for longer than any engine is away.
    pub(super) async fn have_redone(&self, redo: &Redo, sent: &AtomicBool) {
        if !sent.load(Ordering::Relaxed) {
            return;
        }
        let SinkFeed { sink_name, shard, .. } = self;
        let feed = &self.spec.feed;
        for tries in 1..=GIVE_BACK_TRIES {
            match self.hand_to_successor(redo).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(reason) => {
                    let pause = backoff::wait(tries, self.entropy.next(), None);
                    tracing::warn!(sink = %sink_name, %feed, %shard, ?pause,
                        "another delivers now, and could not be told to deliver the last rows again: {reason}");
                    self.runtime.sleep(pause).await;
                }
            }
        }
        tracing::error!(sink = %sink_name, %feed, %shard,
            "a deliverer that was replaced could not have its last rows delivered again: the sink may hold \
             an older revision of some of them");
    }

    /// Moves the cursor back, at most to the oldest row there is. False if the cell was changed meanwhile.
    ///
    /// The cell is changed even if the cursor has not come further yet: the successor may have its own request
    /// answered, with ours arriving behind it, and be about to move the cursor. It is refused then, and
    /// delivers again.
    async fn hand_to_successor(&self, redo: &Redo) -> Result<bool, String> {
        let now = self.cell.read().await?;
        let (from, operations) = match redo {
            Redo::Rows(from) => (self.kept(from).await?, Vec::new()),
            Redo::Release(operations) => (now.stand.cursor(), operations.clone()),
        };
        let changed = self.cell.change(&now, now.stand.given_back(&from), operations).await?;
        Ok(matches!(changed, Changed::Done(_)))
    }

    /// This cursor, or the oldest row if the cursor's is gone.
    async fn kept(&self, from: &Cursor) -> Result<Cursor, String> {
        let first = feed::first(&*self.store, self.shard, &self.spec.feed).await;
        let first = first.map_err(|error| error.to_string())?;
        let oldest = from.last.map_or(from.next, |(number, _)| number);
        Ok(if oldest < first { Cursor::at(first) } else { *from })
    }
}
