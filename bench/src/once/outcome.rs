//! What the herds of the contestants came to.

use crate::measure::median;
use crate::report::{Report, Time};

use super::HERD;
use super::herd::Herd;

/// What we promise ourselves of the 99th percentile, in milliseconds.
const WANTED_P99: f64 = 25.0;

/// The herds of one contestant.
#[derive(Debug)]
pub(super) struct Herds {
    pub(super) name: &'static str,
    p50: Vec<f64>,
    p99: Vec<f64>,
    calls: Vec<u64>,
}

impl Herds {
    pub(super) fn new(name: &'static str) -> Self {
        Herds { name, p50: Vec::new(), p99: Vec::new(), calls: Vec::new() }
    }

    pub(super) fn add(&mut self, herd: &Herd) {
        self.p50.push(herd.p(0.5));
        self.p99.push(herd.p(0.99));
        self.calls.push(herd.calls);
    }

    fn worst(&self) -> f64 {
        self.p99.iter().copied().fold(0.0, f64::max)
    }

    /// `1`, or `1 to 3` if not all herds were alike.
    fn calls(&self) -> String {
        let least = self.calls.iter().min().copied().unwrap_or_default();
        let most = self.calls.iter().max().copied().unwrap_or_default();
        if least == most { least.to_string() } else { format!("{least} to {most}") }
    }
}

/// The first is Consort on one node.
pub(super) fn report(sides: &[Herds], report: &mut Report) {
    for (place, side) in sides.iter().enumerate() {
        report.add_time(Time {
            name: format!("cold herd of {HERD}: {}", side.name),
            p50: median(side.p50.iter().copied()),
            p99: median(side.p99.iter().copied()),
            worst: side.worst(),
            wanted: (place == 0).then_some(WANTED_P99),
        });
    }
    let herds = sides.first().map_or(0, |side| side.calls.len());
    let calls: Vec<String> =
        sides.iter().map(|side| format!("{} {}", side.name, side.calls())).collect();
    report.note(format!(
        "A cold herd: {HERD} connections, open already, ask for one key at the same moment. Times are those beyond \
         what the origin takes, from that moment on; p50 and p99 of the median of {herds} rounds, and the worst \
         round's p99. The bare handler is the limit: it pauses for as long as the origin takes and then answers all, \
         without an origin, a store or a flush. nginx looks every 500 ms whether the one that asks has ended. \
         Calls at the origin for each herd: {}.",
        calls.join(", ")
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn herds_that_are_not_alike_are_told_apart() {
        let mut herds = Herds::new("x");
        herds.calls = vec![2, 2];
        assert_eq!(herds.calls(), "2");
        herds.calls.push(1);
        assert_eq!(herds.calls(), "1 to 2");
    }
}
