//! How measured times are spread.

use std::time::Duration;

use serde::Serialize;

use crate::measure::rank;

/// Some times, in milliseconds.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    pub(super) name: String,
    pub(super) samples: usize,
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) worst: f64,
}

impl Spread {
    /// The spread of `millis`; `None` if there are none.
    pub(super) fn of(name: impl Into<String>, mut millis: Vec<f64>) -> Option<Self> {
        millis.sort_by(f64::total_cmp);
        let (least, worst) = (*millis.first()?, *millis.last()?);
        let (median, p99) = (rank(&millis, 0.5), rank(&millis, 0.99));
        Some(Spread { name: name.into(), samples: millis.len(), least, median, p99, worst })
    }
}

/// A time in milliseconds.
pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
