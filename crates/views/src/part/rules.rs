//! The rules that windows rest on, by name, so that the simulator can break them one at a time and
//! prove that it notices. Without the feature `mutations` all of them are always kept.

/// One of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A window closes only when every partition's watermark has passed it.
    Watermark,
    /// A row is committed only if its group's dirty counter is as it was before the value was read.
    Dirty,
    /// Every commit of a closer expects the window's state.
    State,
    /// The floor is raised before a window is deleted.
    Floor,
    /// What changed last is emitted before a window is deleted.
    LastRows,
    /// A worker expects the state of every window that it changes.
    StateExpected,
    /// A worker expects the floor of every view that it changes.
    FloorExpected,
    /// A window says that it is leaving before its groups are deleted.
    Leaving,
}

/// Which rules are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    #[cfg(feature = "mutations")]
    broken: Option<Rule>,
}

impl Rules {
    /// All but one.
    #[cfg(feature = "mutations")]
    pub fn without(rule: Rule) -> Self {
        Rules { broken: Some(rule) }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn keep(self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    #[cfg(not(feature = "mutations"))]
    pub(crate) fn keep(self, _: Rule) -> bool {
        true
    }
}
