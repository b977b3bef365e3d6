//! The rules that the fold rests on, by name, so that the simulator can break them one at a time and prove that it
//! notices. Without the feature `mutations` all of them are always kept.

/// A rule of the fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldRule {
    /// A piece that came before is not applied again (H7).
    RepeatsAreKnown,
    /// A condition is checked after the repeat (H7).
    RepeatBeforeCondition,
    /// A rejected piece uses up its number (H5).
    RejectedUsesNumber,
    /// A number that was skipped is late, and no repeat (H2).
    LateIsNoRepeat,
    /// The log decides when a gap is over, and not the time (H3).
    LogEndsGaps,
    /// A tombstone keeps the numbers of its sources (H19).
    TombstoneKeepsNumbers,
    /// Versions continue through a tombstone (H20).
    VersionsContinue,
    /// Pieces behind a halted document wait in it (H29).
    HaltQueues,
    /// No piece behind a halted document is left in the log (H29).
    NoPieceWaitsInTheLog,
    /// Retry and discard name the place of the halting piece (H31).
    WordsNameThePlace,
    /// An idempotency key counts for one document (H6).
    KeysAreOfOneDocument,
}

/// Which rules are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldRules {
    #[cfg(feature = "mutations")]
    broken: Option<FoldRule>,
}

impl FoldRules {
    /// All but one.
    #[cfg(feature = "mutations")]
    pub fn without(rule: FoldRule) -> Self {
        FoldRules { broken: Some(rule) }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn keep(self, rule: FoldRule) -> bool {
        self.broken != Some(rule)
    }

    #[cfg(not(feature = "mutations"))]
    pub(crate) fn keep(self, _: FoldRule) -> bool {
        true
    }
}
