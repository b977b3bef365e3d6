//! How long roles had no owner when they moved, as the nodes measured it: `consort_cluster_handover_pause_seconds`. The
//! histogram is of all roles of a node's present process, so kills leave out what the killed process had seen.

use std::collections::BTreeMap;

use crate::lifts::compare::metrics;

const BUCKET: &str = "consort_cluster_handover_pause_seconds_bucket{";

/// The causes that a trial reports: the first owner of a role waited for nothing.
const CAUSES: [&str; 2] = ["handed_over", "taken_over"];

/// Samples by bucket, in milliseconds; the last bucket has no upper end.
type Buckets = BTreeMap<u64, f64>;

/// A line for people: median and 99th percentile by cause, rounded up to the end of their bucket.
pub(super) async fn report(addresses: &[String]) -> String {
    let mut causes: BTreeMap<&str, Buckets> = BTreeMap::new();
    for address in addresses {
        for (name, value) in metrics(address).await {
            let Some(labels) = name.strip_prefix(BUCKET) else { continue };
            let cause = CAUSES.into_iter().find(|cause| labels.contains(&format!("\"{cause}\"")));
            let (Some(cause), Some(end)) = (cause, end_of(labels)) else { continue };
            *causes.entry(cause).or_default().entry(end).or_default() += value;
        }
    }
    let shown = causes.iter().map(|(cause, buckets)| {
        let count = buckets.values().last().copied().unwrap_or_default();
        let [half, most] = [0.5, 0.99].map(|share| percentile(buckets, share));
        format!("{cause}: {count} roles, p50 ≤ {half}, p99 ≤ {most}")
    });
    format!("pauses at hand-overs: {}", shown.collect::<Vec<_>>().join("; "))
}

fn end_of(labels: &str) -> Option<u64> {
    let (_, rest) = labels.split_once("le=\"")?;
    match rest.split('"').next()? {
        "+Inf" => Some(u64::MAX),
        seconds => seconds.parse::<f64>().ok().map(|seconds| (seconds * 1e3).round() as u64),
    }
}

/// The end of the first bucket that holds this share of the samples; buckets are cumulative.
fn percentile(buckets: &Buckets, share: f64) -> String {
    let count = buckets.values().last().copied().unwrap_or_default();
    let found = buckets.iter().find(|(_, samples)| **samples >= count * share);
    match found {
        None => "-".to_owned(),
        Some((&u64::MAX, _)) => "more than the last bucket".to_owned(),
        Some((millis, _)) => format!("{millis} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_their_buckets() {
        let buckets = Buckets::from([(10, 50.0), (250, 98.0), (1_000, 99.0), (u64::MAX, 100.0)]);
        assert_eq!(percentile(&buckets, 0.5), "10 ms");
        assert_eq!(percentile(&buckets, 0.99), "1000 ms");
        assert_eq!(percentile(&buckets, 1.0), "more than the last bucket");
        assert_eq!(end_of("le=\"0.025\",cause=\"handed_over\"}"), Some(25));
        assert_eq!(end_of("le=\"+Inf\",cause=\"first\"}"), Some(u64::MAX));
    }
}
