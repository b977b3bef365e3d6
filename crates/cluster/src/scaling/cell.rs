//! The scaler's cell: the last decision, and the memory of the rule.

use std::time::Duration;

use consort_kernel::Timestamp;
use serde::{Deserialize, Serialize};

use super::state::{ScaleEvidence, ScaleLimit, ScaleState};

/// How old a decision may be that is shown. An autoscaler must not act on an older one.
pub const FRESH_FOR: Duration = Duration::from_secs(60);

/// What the cell holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleCell {
    /// The epoch of the scaler that wrote it: an owner of a lower epoch leaves it as it is.
    pub epoch: u64,
    /// The decision, from which the next one goes on.
    pub state: ScaleState,
}

/// The decision as operators and autoscalers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScalingStatus {
    /// How many nodes the cluster wants.
    pub wanted: u64,
    /// Why, in a sentence.
    pub why: String,
    /// Why more nodes would not help, or are not allowed.
    pub limited_by: Option<ScaleLimit>,
    /// When the number last changed, in milliseconds since the Unix epoch.
    pub since: u64,
    /// When it was last decided, in milliseconds since the Unix epoch.
    pub decided: u64,
    /// What it was decided from.
    pub evidence: ScaleEvidence,
}

impl ScaleCell {
    /// The decision, unless it is too old at `now`.
    pub fn status(&self, now: Timestamp) -> Option<ScalingStatus> {
        let state = &self.state;
        (now.since(state.decided) <= FRESH_FOR).then(|| ScalingStatus {
            wanted: state.wanted,
            why: state.why.clone(),
            limited_by: state.limited_by,
            since: state.since.0,
            decided: state.decided.0,
            evidence: state.evidence.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{decode, encode};
    use crate::scaling::state::{RateMean, StepUp};

    fn cell() -> ScaleCell {
        let mut rate = RateMean::default();
        rate.add(80, Some(70), Duration::from_secs(5));
        let state = ScaleState {
            decided: Timestamp(9000),
            wanted: 2,
            why: "1 → 2: rides/0 lags by 7s".into(),
            limited_by: Some(ScaleLimit::HotPartition),
            since: Timestamp(4000),
            evidence: ScaleEvidence { live: 1, active: 4, ..ScaleEvidence::default() },
            joined: Timestamp(1000),
            pressed_since: Some(Timestamp(2000)),
            relieved_since: None,
            lags: vec![(Timestamp(9000), 7000)],
            calm_since: None,
            step_up: Some(StepUp { at: Timestamp(4000), live: 1, applied_per_s: 50 }),
            rate,
            full: Some(StepUp { at: Timestamp(4000), live: 1, applied_per_s: 50 }),
            store_until: None,
            epochs: 12,
            moved: Timestamp(3000),
        };
        ScaleCell { epoch: 3, state }
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let stored = "\u{1}{\"epoch\":3,\"state\":{\"decided\":9000,\"wanted\":2,\
            \"why\":\"1 → 2: rides/0 lags by 7s\",\"limited_by\":\"hot-partition\",\"since\":4000,\
            \"evidence\":{\"live\":1,\"active\":4,\"load_millicores\":0,\"cores\":0,\"applied_per_s\":0,\
            \"accepted_per_s\":0,\"refused_per_s\":0,\"delayed_per_s\":0,\"lag_ms\":0},\"joined\":1000,\
            \"pressed_since\":2000,\"relieved_since\":null,\"lags\":[[9000,7000]],\"calm_since\":null,\
            \"step_up\":{\"at\":4000,\"live\":1,\"applied_per_s\":50},\
            \"rate\":{\"millis\":5000,\"applied\":400000,\"let_in\":350000},\"full\":{\"at\":4000,\"live\":1,\"applied_per_s\":50},\
            \"store_until\":null,\"epochs\":12,\
            \"moved\":3000}}";
        assert_eq!(String::from_utf8_lossy(&encode(&cell())), stored);
        assert_eq!(decode(stored.as_bytes()), Ok(cell()));
    }

    #[test]
    fn a_decision_of_a_release_that_did_not_remember_full_nodes_is_read() {
        let stored = String::from_utf8(encode(&cell()).to_vec()).unwrap();
        let (begin, end) =
            (stored.find("\"rate\"").unwrap(), stored.find("\"store_until\"").unwrap());
        let older = format!("{}{}", &stored[..begin], &stored[end..]);
        let mut expected = cell();
        (expected.state.rate, expected.state.full) = (RateMean::default(), None);
        assert_eq!(decode(older.as_bytes()), Ok(expected));
    }

    #[test]
    fn a_decision_older_than_a_minute_is_not_shown() {
        let cell = cell();
        assert_eq!(cell.status(Timestamp(69_000)).map(|status| status.wanted), Some(2));
        assert_eq!(cell.status(Timestamp(69_001)), None);
    }
}
