//! When the timer has to say something about a document, and which word.

use std::time::Duration;

use consort_kernel::Timestamp;

use super::DocumentState;
use crate::collection::Collection;
use crate::stored::{DocumentFlow, Existence, GlueWord, PendingState, WordAction};

/// The deadline of a document that a record of this time changed.
pub(super) fn deadline(
    collection: &Collection,
    state: &DocumentState,
    time: Timestamp,
) -> Option<Timestamp> {
    match state.head.flow {
        // An operator decides; no word would change anything.
        DocumentFlow::Halted => None,
        DocumentFlow::Releasing => Some(time),
        DocumentFlow::Open => match first_gap(collection, state) {
            Some((deadline, ..)) => Some(deadline),
            None if is_forgettable(state) && !state.is_blank() => {
                Some(behind(time, collection.tombstones))
            }
            None => None,
        },
    }
}

/// The word that the timer appends at the document's deadline.
pub fn word(
    collection: &Collection,
    (tenant, id): (&str, &str),
    state: &DocumentState,
) -> Option<(Timestamp, GlueWord)> {
    let deadline = state.head.deadline?;
    let action = match state.head.flow {
        DocumentFlow::Halted => return None,
        DocumentFlow::Releasing => WordAction::Release,
        DocumentFlow::Open => match first_gap(collection, state) {
            Some((_, source, number)) => WordAction::Gap { source: source.to_owned(), number },
            None => WordAction::forget(deadline),
        },
    };
    Some((deadline, GlueWord::new(tenant, id, action)))
}

/// Whether the head may be forgotten at its deadline: there is no document, and no piece waits.
pub(super) fn is_forgettable(state: &DocumentState) -> bool {
    state.head.existence != Existence::Live
        && state.head.flow == DocumentFlow::Open
        && state.pending.pieces.is_empty()
}

/// The number that is awaited first: until when, of which source, and which.
fn first_gap<'s>(
    collection: &Collection,
    state: &'s DocumentState,
) -> Option<(Timestamp, &'s str, u64)> {
    let held = state.pending.pieces.iter().filter(|waiting| waiting.state == PendingState::Held);
    let deadlines = held.filter_map(|waiting| {
        let number = waiting.number()?;
        Some((behind(waiting.time, collection.gap_for), number.source))
    });
    let (deadline, name) = deadlines.min()?;
    let source = state.head.source(name)?;
    Some((deadline, &source.name, source.last + 1))
}

fn behind(time: Timestamp, wait: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
}
