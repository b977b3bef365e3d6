//! What a node's process uses and takes in: the node's own part of the scaling signal.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rates::RateWindow;

/// The processor time of a node is a mean over this time: several batches of its workers.
pub const CPU_WINDOW: Duration = Duration::from_secs(10);

/// The input of a stream is a mean over this time. It is half of the time for which pressure must last, so that
/// one burst of refusals does not seem to last that long.
pub const INPUT_WINDOW: Duration = Duration::from_secs(5);

/// The streams in one report: far more than a config declares.
const STREAMS_MOST: usize = 1000;

/// Counters of a process. Each of them only grows.
pub trait NodeLoad: Send + Sync + fmt::Debug {
    /// The processor time that the process has used.
    fn cpu_time(&self) -> Duration;

    /// How many processors the process may use.
    fn cores(&self) -> u32;

    /// The input of each stream on this node.
    fn inputs(&self) -> Vec<StreamInput>;
}

/// What came in for one stream on one node, in records since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamInput {
    /// The stream.
    pub stream: String,
    /// Records that were acknowledged.
    pub accepted: u64,
    /// Records that were refused for overload.
    pub refused: u64,
    /// Records that had to wait at the door.
    pub delayed: u64,
}

/// The load of a program that does not measure itself: it takes nothing in and uses nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmeasuredLoad;

impl NodeLoad for UnmeasuredLoad {
    fn cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn cores(&self) -> u32 {
        1
    }

    fn inputs(&self) -> Vec<StreamInput> {
        Vec::new()
    }
}

/// The load of a node, as its report cell has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The processor time used, in thousandths of one core, over the last [`CPU_WINDOW`].
    pub cpu_millicores: u64,
    /// How many processors the process may use.
    pub cores: u32,
    /// The input of its streams.
    pub streams: Vec<StreamReport>,
}

/// The input of one stream on one node, in records a second over the last [`INPUT_WINDOW`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The stream.
    pub stream: String,
    /// Acknowledged.
    pub accepted_per_s: u64,
    /// Refused for overload.
    pub refused_per_s: u64,
    /// Held at the door.
    pub delayed_per_s: u64,
}

/// Turns the counters of a process into rates.
#[derive(Debug)]
pub(crate) struct LoadMeter {
    cpu: RateWindow<1>,
    streams: BTreeMap<String, RateWindow<3>>,
}

impl LoadMeter {
    pub(crate) fn new() -> LoadMeter {
        LoadMeter { cpu: RateWindow::new(CPU_WINDOW), streams: BTreeMap::new() }
    }

    /// The load at this local time.
    pub(crate) fn report(&mut self, load: &dyn NodeLoad, now: Duration) -> LoadReport {
        let [cores_used] = self.cpu.record(now, [load.cpu_time().as_secs_f64()]);
        let inputs = load.inputs().into_iter().take(STREAMS_MOST);
        let streams = inputs.map(|input| self.stream(input, now)).collect();
        let cpu_millicores = (cores_used * 1000.0).round() as u64;
        LoadReport { cpu_millicores, cores: load.cores(), streams }
    }

    fn stream(&mut self, input: StreamInput, now: Duration) -> StreamReport {
        let window = self.streams.entry(input.stream.clone());
        let window = window.or_insert_with(|| RateWindow::new(INPUT_WINDOW));
        let totals = [input.accepted, input.refused, input.delayed].map(|total| total as f64);
        let [accepted_per_s, refused_per_s, delayed_per_s] =
            window.record(now, totals).map(|rate| rate.ceil() as u64);
        StreamReport { stream: input.stream, accepted_per_s, refused_per_s, delayed_per_s }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Counted(Mutex<(Duration, StreamInput)>);

    impl NodeLoad for Counted {
        fn cpu_time(&self) -> Duration {
            self.0.lock().0
        }

        fn cores(&self) -> u32 {
            2
        }

        fn inputs(&self) -> Vec<StreamInput> {
            vec![self.0.lock().1.clone()]
        }
    }

    #[test]
    fn counters_become_rates_of_their_windows() {
        let (load, mut meter) = (Counted::default(), LoadMeter::new());
        let mut report = LoadReport::default();
        for n in 1..=20 {
            let now = Duration::from_secs(n);
            // Half a core, and ten records a second of which the last four seconds refuse three.
            let refused = 3 * n.saturating_sub(16);
            let input = StreamInput { stream: "s".into(), accepted: 10 * n, refused, delayed: 0 };
            *load.0.lock() = (now / 2, input);
            report = meter.report(&load, now);
        }
        let [stream] = &report.streams[..] else { panic!("{report:?}") };
        assert_eq!((report.cpu_millicores, report.cores), (500, 2));
        assert_eq!((stream.accepted_per_s, stream.delayed_per_s), (10, 0));
        // Twelve in five seconds.
        assert_eq!(stream.refused_per_s, 3);
    }
}
