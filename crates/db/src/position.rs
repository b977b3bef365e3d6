//! The position of a write: `ERA-INDEX`.

use std::fmt;
use std::str::FromStr;

/// A place in the history of a database. Positions compare by era first: a restore begins a new era, and
/// indexes begin anew with it (H11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DbPosition {
    /// How many histories the database had before this one, plus 1.
    pub era: u64,
    /// The number of entries up to and including the one of the write.
    pub index: u64,
}

/// A text that is not a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a position: write ERA-INDEX, for example 1-17")]
pub struct DbPositionError(String);

impl fmt::Display for DbPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.era, self.index)
    }
}

impl FromStr for DbPosition {
    type Err = DbPositionError;

    fn from_str(text: &str) -> Result<Self, DbPositionError> {
        let refused = || DbPositionError(text.chars().take(50).collect());
        let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse().ok(),
            false => None,
        };
        let (era, index) = text.split_once('-').ok_or_else(refused)?;
        let era = number(era).ok_or_else(refused)?;
        let index = number(index).ok_or_else(refused)?;
        Ok(DbPosition { era, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_era_and_index() {
        let position = DbPosition { era: 1, index: 17 };
        assert_eq!(position.to_string(), "1-17");
        assert_eq!("1-17".parse(), Ok(position));
        for bad in ["", "17", "1-", "-1", "1-17-2", "1-+7", "a-1", "1-99999999999999999999"] {
            let error = bad.parse::<DbPosition>().unwrap_err();
            assert!(error.to_string().contains("ERA-INDEX"), "{error}");
        }
    }

    #[test]
    fn h11_a_later_era_is_a_later_position_whatever_the_index() {
        let (old, new) = (DbPosition { era: 1, index: 900 }, DbPosition { era: 2, index: 0 });
        assert!(old < new);
        assert!(DbPosition { era: 2, index: 1 } > new);
    }
}
