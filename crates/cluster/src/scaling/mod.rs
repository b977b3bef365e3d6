//! Scaling: how many nodes the cluster wants, and why.
//!
//! Every node reports its load with its heartbeats. One role, the scaler, reads the reports every few seconds,
//! decides by a pure rule, and keeps the decision with the rule's memory in one cell. Everything else only reads that
//! cell. Safety never depends on the number: too few nodes are slow, too many are idle, and both are correct.

mod cell;
mod facts;
mod rule;
mod scaler;
mod settings;
mod signal;
mod state;
mod words;

#[cfg(test)]
mod model;
#[cfg(test)]
mod scaler_tests;
#[cfg(test)]
mod tests;

pub use cell::{FRESH_FOR, ScaleCell, ScalingStatus};
pub use rule::decide;
pub use scaler::{DECIDE_EVERY, KIND, Scaler, ScalerOptions, role};
pub use settings::ScaleSettings;
pub use signal::{NodeSignal, PartitionSignal, ScaleSignal, StreamSignal};
pub use state::{RateMean, ScaleEvidence, ScaleLimit, ScaleState, StepUp};
