//! Names of streams and feeds: short, printable, safe in any engine's key and any queue's name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name, in bytes: with namespace and partition it must fit a queue name of 255.
pub const NAME_MAX: usize = 100;

/// A stream's or feed's name: ASCII letters, digits, `_`, `-` and `.`, not empty, at most [`NAME_MAX`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there, or more than [`NAME_MAX`] bytes.
    #[error("a name has 1 to {NAME_MAX} characters, this one has {0}")]
    Length(usize),
    /// A character that no name may have.
    #[error("'{0}' cannot be in a name: use letters, digits, '_', '-' and '.'")]
    Character(char),
}

impl Name {
    /// Checks `text` and makes it a name.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > NAME_MAX {
            return Err(NameError::Length(text.len()));
        }
        let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        match text.chars().find(|c| !allowed(c)) {
            Some(c) => Err(NameError::Character(c)),
            None => Ok(Name(text.into())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Name::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_only_what_every_engine_can_hold() {
        assert_eq!(Name::new("lift_rides").map(|n| n.to_string()), Ok("lift_rides".into()));
        assert_eq!(Name::new(""), Err(NameError::Length(0)));
        assert_eq!(Name::new(&"x".repeat(101)), Err(NameError::Length(101)));
        for bad in ["a b", "a/b", "{a}", "ä", "a\0", "a:b"] {
            assert!(matches!(Name::new(bad), Err(NameError::Character(_))), "{bad}");
        }
    }
}
