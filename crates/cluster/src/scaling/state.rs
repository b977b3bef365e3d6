//! A decision, and what the next one has to remember.

use std::time::Duration;

use consort_kernel::Timestamp;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::settings::ScaleSettings;
use super::signal::ScaleSignal;
use super::words;

/// A mean is of about the last minute: from then on, older rates count by half.
const MEAN_OVER: Duration = Duration::from_secs(60);

/// Why more nodes would not help, or are not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleLimit {
    /// All lag is in partitions that have a node of their own.
    HotPartition,
    /// The node added last did not raise the rate applied.
    Store,
    /// All partitions that lag wait for an operator.
    Stopped,
    /// Each active partition has a node of its own.
    Partitions,
    /// `[scale] max` is reached.
    Max,
}

impl ScaleLimit {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            ScaleLimit::HotPartition => "hot-partition",
            ScaleLimit::Store => "store",
            ScaleLimit::Stopped => "stopped",
            ScaleLimit::Partitions => "partitions",
            ScaleLimit::Max => "max",
        }
    }
}

/// What a decision was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleEvidence {
    /// Live nodes that are not about to leave.
    pub live: u64,
    /// Partitions with work.
    pub active: u64,
    /// The processor time that the live nodes use, in thousandths of one core.
    pub load_millicores: u64,
    /// The cores of all live nodes.
    pub cores: u64,
    /// Records applied a second.
    pub applied_per_s: u64,
    /// Records acknowledged a second.
    pub accepted_per_s: u64,
    /// Records refused for overload a second.
    pub refused_per_s: u64,
    /// Records held at the door a second.
    pub delayed_per_s: u64,
    /// The largest lag of an active partition, in milliseconds.
    pub lag_ms: u64,
}

/// A step up under pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepUp {
    /// When.
    #[serde(with = "crate::format::millis")]
    pub at: Timestamp,
    /// The live nodes before it.
    pub live: u64,
    /// The records applied a second before it: the mean under pressure, up to the time at which the new nodes came.
    pub applied_per_s: u64,
}

/// The mean rate applied under pressure, by time. It is stored as sums, so that a new scaler goes on with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateMean {
    /// For how long it was seen, in milliseconds.
    millis: u64,
    /// The rates applied, each multiplied by its milliseconds.
    applied: u64,
    /// The same for the rates that a gate let in; where no gate held the input back, for the rates applied.
    let_in: u64,
}

impl RateMean {
    /// For so long this was applied a second, and this let in by a gate that held more back.
    pub(super) fn add(&mut self, applied: u64, let_in: Option<u64>, time: Duration) {
        if self.over() >= MEAN_OVER {
            (self.millis, self.applied, self.let_in) =
                (self.millis / 2, self.applied / 2, self.let_in / 2);
        }
        let millis = u64::try_from(time.as_millis()).unwrap_or_default();
        let sum = |sum: u64, rate: u64| sum.saturating_add(rate.saturating_mul(millis));
        self.applied = sum(self.applied, applied);
        self.let_in = sum(self.let_in, let_in.unwrap_or(applied));
        self.millis += millis;
    }

    /// For how long it was seen.
    pub(super) fn over(&self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// The mean in records a second, once it was seen. Workers count a batch when it is committed, so a mean of some
    /// seconds may be that of a batch too many: no more is applied for long than the gate lets in.
    pub(super) fn per_s(&self) -> Option<u64> {
        self.applied.min(self.let_in).checked_div(self.millis)
    }

    /// The larger one of the two means: the nodes can do that much at most.
    pub(super) fn most_per_s(&self) -> u64 {
        self.applied.max(self.let_in).checked_div(self.millis).unwrap_or_default()
    }
}

/// A decision, and what the next one has to remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleState {
    /// When it was made.
    #[serde(with = "crate::format::millis")]
    pub decided: Timestamp,
    /// How many nodes the cluster wants.
    pub wanted: u64,
    /// Why, in a sentence.
    pub why: String,
    /// Why there are not more.
    pub limited_by: Option<ScaleLimit>,
    /// When `wanted` last changed.
    #[serde(with = "crate::format::millis")]
    pub since: Timestamp,
    /// What it was made from.
    pub evidence: ScaleEvidence,
    /// When the number of live nodes last grew.
    #[serde(with = "crate::format::millis")]
    pub joined: Timestamp,
    /// Since when input lags or is refused.
    #[serde(with = "crate::format::maybe_millis")]
    pub pressed_since: Option<Timestamp>,
    /// Since when it does not.
    #[serde(with = "crate::format::maybe_millis")]
    pub relieved_since: Option<Timestamp>,
    /// The sum of the lags that count at the last few decisions, in milliseconds.
    #[serde(with = "crate::format::timed")]
    pub lags: Vec<(Timestamp, u64)>,
    /// Since when the load would fit one node less.
    #[serde(with = "crate::format::maybe_millis")]
    pub calm_since: Option<Timestamp>,
    /// The last step up under the present pressure, until it is known to have helped.
    pub step_up: Option<StepUp>,
    /// The rate applied under the present pressure by the present nodes, since they have settled.
    #[serde(default)]
    pub rate: RateMean,
    /// The last step up of all: so much input was too much for so many nodes.
    #[serde(default)]
    pub full: Option<StepUp>,
    /// Until when the store is taken for the limit.
    #[serde(with = "crate::format::maybe_millis")]
    pub store_until: Option<Timestamp>,
    /// The sum of the workers' epochs.
    pub epochs: u64,
    /// When that sum last changed: the last hand-over.
    #[serde(with = "crate::format::millis")]
    pub moved: Timestamp,
}

impl ScaleState {
    /// Where nothing was decided before, the cluster is as large as it should be.
    pub(super) fn first(
        facts: &Facts<'_>,
        signal: &ScaleSignal,
        settings: &ScaleSettings,
        now: Timestamp,
    ) -> ScaleState {
        let wanted = settings.bound(facts.evidence.live);
        ScaleState {
            decided: now,
            wanted,
            why: words::begins(wanted),
            limited_by: None,
            since: now,
            evidence: facts.evidence.clone(),
            joined: now,
            pressed_since: None,
            relieved_since: None,
            lags: Vec::new(),
            calm_since: None,
            step_up: None,
            rate: RateMean::default(),
            full: None,
            store_until: None,
            epochs: signal.epochs,
            moved: now,
        }
    }
}
