//! Windows: tumbling stretches of event time, aligned to the epoch, and the state in which each of them is
//! in a shard. Pure.
//!
//! A window is *open* until every partition of its stream has come far enough; then it is *closing* while its
//! groups become rows, and *closed* until it is let go. From closing on, whoever changes one of its groups
//! counts up the group's dirty counter in the same commit, and only the closer emits: see
//! [`Closer`](crate::part).

use std::time::Duration;

use bytes::Bytes;
use consort_cluster::format::{self, FormatError};
use consort_kernel::{Key, Moment, Timestamp};
use serde::{Deserialize, Serialize};

use crate::hex::{hex, unhex};

/// The shortest and the longest window.
pub const LENGTHS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(86_400);

/// How far ahead of its frame an event's own time may be.
pub const MAX_FUTURE: Duration = Duration::from_secs(300);

const NANOSECONDS: i64 = 1_000_000;

/// The windows of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// How long each is.
    pub length: Duration,
    /// How long after its end a window waits for events.
    pub grace: Duration,
    /// How long a window is kept after it was closed.
    pub keep: Duration,
    /// What becomes of events that come when their window is closed.
    pub late: Late,
}

/// What becomes of events that come when their window is closed, and not let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// They count, and the row is emitted again.
    #[default]
    Amend,
    /// They go to the view's list of late events.
    List,
}

impl Late {
    /// As a config writes it.
    pub fn name(self) -> &'static str {
        match self {
            Late::Amend => "amend",
            Late::List => "list",
        }
    }
}

/// How far a window has come in a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowState {
    /// Where it stands.
    pub phase: Phase,
    /// When its first event was appended, in milliseconds.
    pub first: u64,
}

/// Where a window stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Events change its groups, and nothing else happens.
    Open,
    /// Its groups become rows.
    Closing {
        /// The key of the last group that did, in hexadecimal digits.
        after: Option<String>,
    },
    /// All its groups have become rows.
    Closed {
        /// When, in milliseconds.
        at: u64,
    },
    /// It is below the floor, its last rows are emitted, and it is being deleted: no row may be made of what
    /// is left.
    Leaving,
}

impl Phase {
    /// As answers say it.
    pub fn name(&self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Closing { .. } => "closing",
            Phase::Closed { .. } | Phase::Leaving => "closed",
        }
    }
}

impl Windows {
    fn nanoseconds(&self) -> i64 {
        i64::try_from(self.length.as_nanos()).unwrap_or(i64::MAX).max(1)
    }

    /// Where the window begins that this moment is in. Nothing is earlier than the first whole window.
    pub fn start_of(&self, moment: Moment) -> Moment {
        let length = self.nanoseconds();
        match moment.0.checked_sub(moment.0.rem_euclid(length)) {
            Some(start) => Moment(start),
            None => Moment(moment.0 - moment.0 % length),
        }
    }

    /// Where the window that begins at `start` ends.
    pub fn end_of(&self, start: Moment) -> Moment {
        Moment(start.0.saturating_add(self.nanoseconds()))
    }

    /// The watermark at which a window may be closed: `grace` after the later of its end and of when its
    /// first event was appended, so that history can be loaded.
    pub fn due(&self, start: Moment, first: Timestamp) -> Timestamp {
        let end = self.end_of(start).0;
        // A watermark is in whole milliseconds; a window never closes before its end.
        let end = u64::try_from(end / NANOSECONDS + i64::from(end % NANOSECONDS > 0));
        let later = end.unwrap_or_default().max(first.0);
        Timestamp(later).after(self.grace)
    }

    /// Whether a window that was closed then is to be let go.
    pub fn is_over(&self, closed: u64, now: Timestamp) -> bool {
        now >= Timestamp(closed).after(self.keep)
    }
}

impl WindowState {
    /// A window whose first event was appended then.
    pub fn opened(first: Timestamp) -> Self {
        WindowState { phase: Phase::Open, first: first.0 }
    }

    /// Where its scan goes on.
    pub(crate) fn scanned(&self) -> Option<Key> {
        match &self.phase {
            Phase::Closing { after: Some(digits) } => unhex(digits).map(Key::from_stored),
            _ => None,
        }
    }

    /// The same window after its scan has come to `key`.
    pub(crate) fn scanned_to(&self, key: &Key) -> Self {
        let after = Some(hex(key.as_bytes()));
        WindowState { phase: Phase::Closing { after }, ..self.clone() }
    }

    pub(crate) fn encode(&self) -> Bytes {
        format::encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        format::decode(bytes)
    }
}

/// The moment of an event that says none: when its frame was appended.
pub(crate) fn moment_of(time: Timestamp) -> Moment {
    Moment(i64::try_from(time.0.saturating_mul(NANOSECONDS as u64)).unwrap_or(i64::MAX))
}

/// Whether an event of this moment is too far ahead of its frame.
pub(crate) fn is_ahead(moment: Moment, appended: Timestamp) -> bool {
    moment > moment_of(appended.after(MAX_FUTURE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    fn windows(seconds: u64) -> Windows {
        Windows {
            length: Duration::from_secs(seconds),
            grace: Duration::from_secs(5),
            keep: Duration::from_secs(3_600),
            late: Late::Amend,
        }
    }

    #[test]
    fn windows_are_aligned_to_the_epoch() {
        let cases = [
            (60, 1_480_876_707_352_348_928, 1_480_876_680 * SECOND),
            (60, 0, 0),
            (60, -1, -60 * SECOND),
            (86_400, 86_400 * SECOND - 1, 0),
            (7, 7 * SECOND, 7 * SECOND),
        ];
        for (length, moment, start) in cases {
            assert_eq!(windows(length).start_of(Moment(moment)), Moment(start), "{moment}");
        }
    }

    #[test]
    fn a_window_waits_for_its_end_and_for_its_first_event() {
        let (windows, minute) = (windows(60), Moment(60 * SECOND));
        assert_eq!(windows.due(minute, Timestamp(0)), Timestamp(125_000), "from its end");
        assert_eq!(windows.due(minute, Timestamp(900_000)), Timestamp(905_000), "history");
        assert_eq!(windows.due(Moment(-90 * SECOND), Timestamp(7)), Timestamp(5_007));
        let odd = Windows { length: Duration::from_nanos(1_500_000), ..windows.clone() };
        assert_eq!(odd.due(Moment(0), Timestamp(0)), Timestamp(5_002), "never before its end");
        assert!(!windows.is_over(1_000, Timestamp(3_600_999)));
        assert!(windows.is_over(1_000, Timestamp(3_601_000)));
    }

    #[test]
    fn what_is_too_far_ahead_is_told_from_what_is_not() {
        let appended = Timestamp(1_000);
        let most = 1_000 * NANOSECONDS + 300 * SECOND;
        assert!(!is_ahead(Moment(most), appended));
        assert!(is_ahead(Moment(most + 1), appended));
        assert!(!is_ahead(Moment(i64::MIN), appended));
    }

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        let open = WindowState::opened(Timestamp(5));
        assert_eq!(open.encode(), "\u{1}{\"phase\":\"open\",\"first\":5}");
        let key = Key::from(["a"]);
        let closing = open.scanned_to(&key);
        assert_eq!(closing.scanned(), Some(key));
        assert_eq!(WindowState::decode(&closing.encode()), Ok(closing.clone()));
        let closed = WindowState { phase: Phase::Closed { at: 9 }, first: 5 };
        let stored = "\u{1}{\"phase\":{\"closed\":{\"at\":9}},\"first\":5}";
        assert_eq!(closed.encode(), stored);
        assert_eq!(closed.scanned(), None);
    }

    proptest! {
        #[test]
        fn every_moment_is_in_its_window(moment: i64, length in 1u64..=86_400) {
            let windows = windows(length);
            let start = windows.start_of(Moment(moment));
            prop_assert!(start.0 <= moment || moment < i64::MIN + length as i64 * SECOND);
            prop_assert!(windows.end_of(start).0 > moment || windows.end_of(start).0 == i64::MAX);
            prop_assert_eq!(start.0 % (length as i64 * SECOND), 0);
            prop_assert_eq!(windows.start_of(start), start);
        }
    }
}
