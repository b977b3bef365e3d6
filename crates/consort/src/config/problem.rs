//! What is wrong with the settings, and where.

use std::fmt;

/// Where a setting was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    File(Spot),
    /// An environment variable, by its name.
    Variable(String),
    /// A flag, as it was written but without its value.
    Flag(String),
}

/// A spot in the config file. The excerpt has been freed of secrets when the spot was made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) file: String,
    pub(crate) excerpt: String,
}

/// One problem: place, what is wrong, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    place: Place,
    message: String,
}

/// All problems of a set of sources, in the order of their places: the file from top to bottom,
/// then the environment, then the flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problem {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Problem {
        Problem { place, message: message.into() }
    }

    pub(crate) fn line(&self) -> Option<usize> {
        match &self.place {
            Place::File(spot) => Some(spot.line),
            Place::Variable(_) | Place::Flag(_) => None,
        }
    }
}

impl Problems {
    pub(crate) fn new(mut problems: Vec<Problem>) -> Problems {
        problems.sort_by(|a, b| a.place.cmp(&b.place));
        Problems(problems)
    }

    /// How many there are; never none.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.message;
        match &self.place {
            Place::File(Spot { line, column, file, excerpt }) => {
                write!(f, "{file}:{line}:{column}: {message}\n{excerpt}")
            }
            Place::Variable(name) => write!(f, "{name}: {message}"),
            Place::Flag(name) => write!(f, "{name}: {message}"),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
