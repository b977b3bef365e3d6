//! The state of a key, as its cell holds it, and how it is stored.
//!
//! The value itself stands in a cell of its own beside this one, written by the same commit that
//! publishes it. So the steps that only move a lease compare and write some hundred bytes, whatever the
//! size of the value.

use bytes::Bytes;
use consort_kernel::Timestamp;

use crate::REASON_BYTES;
use crate::fence::{FENCE_BYTES, Fence};
use crate::terms::{Failure, FailureKind};

pub(crate) const VERSION: u8 = 1;
const COMPUTING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

/// What is known of a key. No cell: nothing is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Somebody computes, and there is nothing to serve meanwhile.
    Computing(Hold),
    /// There is a value.
    Ready(Ready),
    /// The computation failed.
    Failed(Failed),
}

/// Who should compute, and until when others leave it to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    /// The attempt.
    pub(crate) fence: Fence,
    /// From this time on anybody may take it over.
    pub(crate) until: Timestamp,
}

/// A value that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ready {
    /// The attempt that made it.
    pub(crate) generation: Fence,
    /// When it was published.
    pub(crate) published: Timestamp,
    /// Until when it is fresh.
    pub(crate) fresh_until: Timestamp,
    /// Until when it is served while one refreshes it.
    pub(crate) usable_until: Timestamp,
    /// Until when a failed refresh excuses serving it.
    pub(crate) excusable_until: Timestamp,
    /// Until when the last failed refresh does so; no other is tried before.
    pub(crate) excused_until: Timestamp,
    /// How long it took to compute, in milliseconds.
    pub(crate) cost: u32,
    /// Who refreshes it.
    pub(crate) refresh: Option<Hold>,
}

/// A computation that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Failed {
    /// The attempt that failed.
    pub(crate) fence: Fence,
    /// Until when the error stands for those who ask.
    pub(crate) until: Timestamp,
    /// Why.
    pub(crate) failure: Failure,
}

/// Why a stored state cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    /// Written by a later release.
    #[error("a cell has format version {0}, and this release reads version {VERSION}: upgrade it")]
    Version(u8),
    /// Not what any release writes.
    #[error("a cell is malformed")]
    Malformed,
}

impl State {
    /// The outcome it shows: the attempt that ended, with a value or an error.
    pub(crate) fn outcome(&self) -> Option<Fence> {
        match self {
            State::Computing(_) => None,
            State::Ready(ready) => Some(ready.generation),
            State::Failed(failed) => Some(failed.fence),
        }
    }

    /// Who computes or refreshes.
    pub(crate) fn hold(&self) -> Option<Hold> {
        match self {
            State::Computing(hold) => Some(*hold),
            State::Ready(ready) => ready.refresh,
            State::Failed(_) => None,
        }
    }

    /// Whether this attempt is the one that computes or refreshes. Only then may it change anything.
    pub(crate) fn is_held_by(&self, fence: Fence) -> bool {
        self.hold().is_some_and(|hold| hold.fence == fence)
    }

    /// The bytes to store.
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(96);
        bytes.push(VERSION);
        match self {
            State::Computing(hold) => {
                bytes.push(COMPUTING);
                put_hold(&mut bytes, hold);
            }
            State::Ready(ready) => {
                bytes.push(READY);
                bytes.extend(ready.generation.to_bytes());
                let times = [
                    ready.published,
                    ready.fresh_until,
                    ready.usable_until,
                    ready.excusable_until,
                    ready.excused_until,
                ];
                times.iter().for_each(|time| bytes.extend(time.0.to_be_bytes()));
                bytes.extend(ready.cost.to_be_bytes());
                if let Some(hold) = &ready.refresh {
                    put_hold(&mut bytes, hold);
                }
            }
            State::Failed(failed) => {
                bytes.push(FAILED);
                put_hold(&mut bytes, &Hold { fence: failed.fence, until: failed.until });
                let (kind, status) = code(failed.failure.kind);
                bytes.push(kind);
                bytes.extend(status.to_be_bytes());
                bytes.extend(cut(&failed.failure.reason).as_bytes());
            }
        }
        bytes.into()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (&version, rest) = bytes.split_first().ok_or(FormatError::Malformed)?;
        if version != VERSION {
            return Err(FormatError::Version(version));
        }
        decode(rest).ok_or(FormatError::Malformed)
    }
}

fn decode(bytes: &[u8]) -> Option<State> {
    let (&tag, mut rest) = bytes.split_first()?;
    let rest = &mut rest;
    let state = match tag {
        COMPUTING => State::Computing(take_hold(rest)?),
        READY => State::Ready(Ready {
            generation: take_fence(rest)?,
            published: take_time(rest)?,
            fresh_until: take_time(rest)?,
            usable_until: take_time(rest)?,
            excusable_until: take_time(rest)?,
            excused_until: take_time(rest)?,
            cost: u32::from_be_bytes(take(rest)?),
            refresh: if rest.is_empty() { None } else { Some(take_hold(rest)?) },
        }),
        FAILED => {
            let Hold { fence, until } = take_hold(rest)?;
            let [kind] = take(rest)?;
            let kind = kind_of(kind, u16::from_be_bytes(take(rest)?))?;
            let reason = std::str::from_utf8(std::mem::take(rest)).ok()?.to_string();
            State::Failed(Failed { fence, until, failure: Failure { kind, reason } })
        }
        _ => return None,
    };
    rest.is_empty().then_some(state)
}

fn put_hold(bytes: &mut Vec<u8>, hold: &Hold) {
    bytes.extend(hold.fence.to_bytes());
    bytes.extend(hold.until.0.to_be_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn take_fence(bytes: &mut &[u8]) -> Option<Fence> {
    take::<FENCE_BYTES>(bytes).map(Fence::from_bytes)
}

fn take_time(bytes: &mut &[u8]) -> Option<Timestamp> {
    take(bytes).map(|time| Timestamp(u64::from_be_bytes(time)))
}

fn take_hold(bytes: &mut &[u8]) -> Option<Hold> {
    Some(Hold { fence: take_fence(bytes)?, until: take_time(bytes)? })
}

fn code(kind: FailureKind) -> (u8, u16) {
    match kind {
        FailureKind::Other => (0, 0),
        FailureKind::TimedOut => (1, 0),
        FailureKind::Unreachable => (2, 0),
        FailureKind::Refused(status) => (3, status),
        FailureKind::TooLarge => (4, 0),
        FailureKind::Malformed => (5, 0),
        FailureKind::Panicked => (6, 0),
    }
}

fn kind_of(code: u8, status: u16) -> Option<FailureKind> {
    Some(match code {
        0 => FailureKind::Other,
        1 => FailureKind::TimedOut,
        2 => FailureKind::Unreachable,
        3 => FailureKind::Refused(status),
        4 => FailureKind::TooLarge,
        5 => FailureKind::Malformed,
        6 => FailureKind::Panicked,
        _ => return None,
    })
}

/// As much of a reason as travels, cut between characters.
pub(crate) fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(attempt: u64) -> Fence {
        Fence { incarnation: 0x0102, attempt }
    }

    fn ready(refresh: Option<Hold>) -> State {
        State::Ready(Ready {
            generation: fence(1),
            published: Timestamp(10),
            fresh_until: Timestamp(20),
            usable_until: Timestamp(30),
            excusable_until: Timestamp(40),
            excused_until: Timestamp(0),
            cost: 200,
            refresh,
        })
    }

    fn failed(kind: FailureKind) -> State {
        let failure = Failure::new(kind, "no");
        State::Failed(Failed { fence: fence(3), until: Timestamp(7), failure })
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let hold = Hold { fence: fence(2), until: Timestamp(5) };
        let cases: [(State, &[u8]); 4] = [
            (
                State::Computing(hold),
                b"\x01\0\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x05",
            ),
            (
                ready(None),
                b"\x01\x01\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x14\
                  \0\0\0\0\0\0\0\x1e\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0\0\0\0\0\xc8",
            ),
            (
                ready(Some(hold)),
                b"\x01\x01\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\x14\
                  \0\0\0\0\0\0\0\x1e\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0\0\0\0\0\xc8\
                  \0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x05",
            ),
            (
                failed(FailureKind::Refused(503)),
                b"\x01\x02\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x07\x03\x01\xf7no",
            ),
        ];
        for (state, stored) in cases {
            assert_eq!(&state.encode()[..], stored, "{state:?}");
            assert_eq!(State::decode(stored), Ok(state));
        }
    }

    #[test]
    fn every_kind_of_failure_travels() {
        let kinds = [
            FailureKind::TimedOut,
            FailureKind::Unreachable,
            FailureKind::Refused(418),
            FailureKind::TooLarge,
            FailureKind::Malformed,
            FailureKind::Panicked,
            FailureKind::Other,
        ];
        for kind in kinds {
            assert_eq!(State::decode(&failed(kind).encode()), Ok(failed(kind)));
        }
    }

    #[test]
    fn a_cut_or_foreign_state_is_refused_and_never_taken_for_nothing() {
        for state in [ready(None), ready(Some(Hold { fence: fence(2), until: Timestamp(5) }))] {
            let bytes = state.encode();
            for length in 1..bytes.len() {
                let cut = State::decode(&bytes[..length]);
                // A value without its refresher is a state by itself.
                assert!(cut == Err(FormatError::Malformed) || cut == Ok(ready(None)), "{length}");
            }
        }
        assert_eq!(State::decode(b""), Err(FormatError::Malformed));
        assert_eq!(State::decode(b"\x02\0"), Err(FormatError::Version(2)));
        assert_eq!(State::decode(b"\x01\x09"), Err(FormatError::Malformed));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "ä".repeat(REASON_BYTES);
        let failure = Failure::new(FailureKind::Other, reason);
        let state = State::Failed(Failed { fence: fence(1), until: Timestamp(0), failure });
        match State::decode(&state.encode()) {
            Ok(State::Failed(failed)) => assert_eq!(failed.failure.reason.len(), REASON_BYTES),
            other => panic!("{other:?}"),
        }
    }
}
