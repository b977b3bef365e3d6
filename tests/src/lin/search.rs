//! The search: whether some order of the calls on a register explains all their answers.
//!
//! It is the algorithm of Wing and Gong with the memo of Lowe. The order is built from its beginning: each step takes
//! a call that may come next, which is one that began before every other remaining call ended. A state that was
//! reached once is not entered again. A call with an unknown outcome may be taken at any time after its begin, or
//! never. Registers are independent of each other, so each is searched alone. [`order`] has the search itself.
//!
//! The search knows no index and no feed.

mod order;

use std::collections::BTreeMap;
use std::fmt;

use super::history::CallSpan;
use super::shrink::smallest_failing;

pub use order::search;

/// A call on one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterCall {
    /// The client.
    pub client: u32,
    /// When. A read has an end.
    pub span: CallSpan,
    /// Its effect, if it took effect.
    pub step: RegisterStep,
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterStep {
    /// It found this value; `None` before the first write.
    Read(Option<i64>),
    /// It set this value.
    Write(i64),
    /// It found one value and set another.
    Swap {
        /// The value that it found.
        from: i64,
        /// The value that it set.
        to: i64,
    },
    /// It found another value than this one.
    FailedSwap {
        /// The value that was not there.
        from: i64,
    },
}

impl RegisterStep {
    /// The value after the step, if the step is possible on this value.
    pub fn apply(self, value: Option<i64>) -> Option<Option<i64>> {
        match self {
            RegisterStep::Read(found) => (value == found).then_some(value),
            RegisterStep::Write(new) => Some(Some(new)),
            RegisterStep::Swap { from, to } => (value == Some(from)).then_some(Some(to)),
            RegisterStep::FailedSwap { from } => (value != Some(from)).then_some(value),
        }
    }

    /// Whether it changes nothing.
    pub fn is_observation(self) -> bool {
        self.target().is_none()
    }

    /// The value that it sets.
    pub fn target(self) -> Option<i64> {
        match self {
            RegisterStep::Write(value) | RegisterStep::Swap { to: value, .. } => Some(value),
            RegisterStep::Read(_) | RegisterStep::FailedSwap { .. } => None,
        }
    }
}

/// Bounds of one search.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// Calls that are tried.
    pub steps: u64,
    /// States that are remembered; each takes some hundred bytes.
    pub states: usize,
}

impl Default for SearchLimits {
    fn default() -> Self {
        SearchLimits { steps: 5_000_000, states: 1_000_000 }
    }
}

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchVerdict {
    /// There is an order.
    Linearizable,
    /// There is none.
    NotLinearizable,
    /// A bound was reached first.
    Undecided,
}

/// A history that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCounts {
    /// Registers.
    pub registers: usize,
    /// Calls on all of them.
    pub calls: usize,
}

/// A register whose history did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchViolation {
    /// The register.
    pub register: i64,
    /// Whether a bound was reached, so that nothing is known.
    pub is_undecided: bool,
    /// The smallest part of the history that was found to fail by itself; all of it if nothing is known.
    pub part: Vec<RegisterCall>,
}

impl fmt::Display for RegisterCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} client {:>2} ", self.span, self.client)?;
        match self.step {
            RegisterStep::Read(None) => write!(f, "reads nothing"),
            RegisterStep::Read(Some(value)) => write!(f, "reads {value}"),
            RegisterStep::Write(value) => write!(f, "writes {value}"),
            RegisterStep::Swap { from, to } => write!(f, "swaps {from} for {to}"),
            RegisterStep::FailedSwap { from } => write!(f, "finds another value than {from}"),
        }
    }
}

impl fmt::Display for SearchViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (register, calls) = (self.register, self.part.len());
        if self.is_undecided {
            return write!(f, "register {register}: no verdict on {calls} calls: raise the limits");
        }
        write!(f, "register {register}: no order explains these {calls} calls:")?;
        self.part.iter().try_for_each(|call| write!(f, "\n  {call}"))
    }
}

/// Searches every register.
pub fn check(
    registers: &BTreeMap<i64, Vec<RegisterCall>>,
    limits: SearchLimits,
) -> Result<SearchCounts, SearchViolation> {
    let mut counts = SearchCounts::default();
    for (&register, calls) in registers {
        let (is_undecided, part) = match search(calls, limits) {
            SearchVerdict::Linearizable => {
                counts.registers += 1;
                counts.calls += calls.len();
                continue;
            }
            SearchVerdict::NotLinearizable => (false, smallest_failing(calls)),
            SearchVerdict::Undecided => (true, calls.clone()),
        };
        return Err(SearchViolation { register, is_undecided, part });
    }
    Ok(counts)
}

#[cfg(test)]
mod tests;
