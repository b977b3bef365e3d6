//! Positions in a database's history, and the highest that was seen.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// The header with the position of an answer.
pub(super) const POSITION_HEADER: &str = "consort-position";

/// A place in the history: eras follow each other, and each has entries of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HistoryPlace {
    era: u64,
    index: u64,
}

/// The highest place that was seen so far.
#[derive(Debug, Default)]
pub(super) struct SeenPosition(Mutex<Option<HistoryPlace>>);

impl SeenPosition {
    /// Takes note of a position; a text that is none has no effect.
    pub(super) fn note(&self, position: &str) {
        let place = position.parse().ok();
        let mut highest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *highest = place.max(*highest);
    }

    /// The highest, if there is any.
    pub(super) fn highest(&self) -> Option<HistoryPlace> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a place whose era is over, unless a higher one has been seen meanwhile.
    pub(super) fn forget(&self, old: HistoryPlace) {
        let mut highest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *highest = highest.filter(|place| *place > old);
    }
}

impl FromStr for HistoryPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<HistoryPlace, ()> {
        let (era, index) = text.split_once('-').ok_or(())?;
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(HistoryPlace { era: number(era)?, index: number(index)? })
    }
}

impl fmt::Display for HistoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.era, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_compare_by_era_and_then_by_index() {
        let place = |text: &str| text.parse::<HistoryPlace>().unwrap();
        for (lower, higher) in [("1-2", "1-10"), ("1-99", "2-1"), ("9-1", "10-0")] {
            assert!(place(lower) < place(higher));
            assert_eq!(place(lower).to_string(), lower);
        }
        for bad in ["", "1", "-", "1-", "-1", "1-x", "1-2-3"] {
            assert_eq!(bad.parse::<HistoryPlace>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn the_highest_is_kept_until_its_era_is_over() {
        let seen = SeenPosition::default();
        assert_eq!(seen.highest(), None);
        for (position, highest) in
            [("1-7", "1-7"), ("1-3", "1-7"), ("nonsense", "1-7"), ("1-12", "1-12")]
        {
            seen.note(position);
            assert_eq!(seen.highest().unwrap().to_string(), highest);
        }
        let old = seen.highest().unwrap();
        seen.note("2-1");
        seen.forget(old);
        let new = seen.highest().unwrap();
        assert_eq!(new.to_string(), "2-1");
        seen.forget(new);
        assert_eq!(seen.highest(), None);
    }
}
