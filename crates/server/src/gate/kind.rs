//! Which gate a stream has, as its config names it.

use std::fmt;
use std::str::FromStr;

/// The gate of a stream: the setting `gate` of `[stream.NAME]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum GateKind {
    /// Limits what is in flight by how long appends take, and what comes in by the stream's lag.
    #[default]
    Adaptive,
    /// Delays posts at random while there are more than a fixed number.
    Breaker,
    /// Admits everything, and counts it.
    Off,
}

/// A word that names no gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no gate; choose \"adaptive\", \"breaker\" or \"off\"")]
pub struct UnknownGate(String);

impl GateKind {
    /// All kinds, as a config may name them.
    pub const ALL: [GateKind; 3] = [GateKind::Adaptive, GateKind::Breaker, GateKind::Off];

    /// The word in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            GateKind::Adaptive => "adaptive",
            GateKind::Breaker => "breaker",
            GateKind::Off => "off",
        }
    }
}

impl fmt::Display for GateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for GateKind {
    type Err = UnknownGate;

    fn from_str(word: &str) -> Result<GateKind, UnknownGate> {
        let kind = GateKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        kind.ok_or_else(|| UnknownGate(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for kind in GateKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(GateKind::default(), GateKind::Adaptive);
    }

    #[test]
    fn an_unknown_word_is_told_with_the_choices() {
        for word in ["", "Adaptive", "on", " off"] {
            let told = word.parse::<GateKind>().unwrap_err().to_string();
            assert_eq!(
                told,
                format!("{word:?} is no gate; choose \"adaptive\", \"breaker\" or \"off\"")
            );
        }
    }
}
