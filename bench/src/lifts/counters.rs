//! What the contestants tell of themselves: the counters of their `/metrics`, by name.

use anyhow::{Context, Result};

use super::usual;

/// The names by which a contestant counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    /// Records that were answered with 201.
    pub(super) accepted: &'static str,
    /// Records that are in all views.
    pub(super) applied: &'static str,
    /// Only samples with these labels count; of several the sum does.
    pub(super) labels: &'static [&'static str],
    /// And of the applied ones, only those with this label.
    pub(super) applied_label: &'static str,
}

/// Consort's.
pub(super) const CONSORT: Names = Names {
    accepted: "consort_stream_accepted_total",
    applied: "consort_stream_events",
    labels: &["stream=\"lift_rides\""],
    applied_label: "outcome=\"applied\"",
};

/// The usual design's.
pub(super) const USUAL: Names =
    Names { accepted: usual::ACCEPTED, applied: usual::APPLIED, labels: &[], applied_label: "" };

/// What a contestant has counted since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) applied: u64,
}

impl Counts {
    /// How many records wait. A record may be applied before its answer is counted.
    pub(super) fn waiting(self) -> u64 {
        self.accepted.saturating_sub(self.applied)
    }
}

impl Names {
    /// Reads both from the text of `/metrics`.
    pub(super) fn read(&self, text: &str) -> Result<Counts> {
        let total = |name, labels: &[&str]| {
            total(text, name, labels).with_context(|| format!("/metrics tells no {name}"))
        };
        let applied: Vec<&str> = self.labels.iter().copied().chain([self.applied_label]).collect();
        Ok(Counts {
            accepted: total(self.accepted, self.labels)?,
            applied: total(self.applied, &applied)?,
        })
    }
}

/// The sum of all samples with this name and these labels, if there are any.
fn total(text: &str, name: &str, labels: &[&str]) -> Option<u64> {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (found, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_once("} ")?,
            None => ("", rest.strip_prefix(' ')?),
        };
        if !labels.iter().all(|label| found.contains(label)) {
            return None;
        }
        value.split(' ').next()?.parse::<f64>().ok()
    });
    samples.map(|value| value as u64).reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_name_and_label_are_added() {
        let text = "# TYPE a counter\na_total{stream=\"x\",partition=\"0\"} 3\n\
                    a_total{stream=\"x\",partition=\"1\"} 4 1700000000\na_total{stream=\"y\"} 100\n\
                    a_total_more 9\nb_total 17\n# EOF\n";
        assert_eq!(total(text, "a_total", &["stream=\"x\""]), Some(7));
        assert_eq!(total(text, "a_total", &[]), Some(107));
        assert_eq!(total(text, "b_total", &[]), Some(17));
        assert_eq!(total(text, "c_total", &[]), None);
    }
}
