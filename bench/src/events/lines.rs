//! The lines that everybody gets.

use bytes::Bytes;

/// The series: types of events and products.
const TYPES: usize = 10;
const PRODUCTS: usize = 5;

/// 2016-12-04T18:38:00Z: all lines are of one minute.
const MINUTE: i64 = 1_480_876_680_000_000_000;

/// Metrics of StatsD for each line.
pub(super) const METRICS: usize = 2;

/// What each contestant is given, each in its own form.
#[derive(Debug)]
pub(super) struct Lines {
    /// Strict line protocol.
    pub(super) text: Bytes,
    /// Metrics of StatsD that come to the same two figures: for each line one for the set of users, and one
    /// for the set of events, so that an event that is received twice is one.
    pub(super) sets: Bytes,
    /// The same with a counter instead of the second set, which is less: it counts an event as often as it
    /// is received.
    pub(super) counters: Bytes,
    pub(super) count: usize,
}

impl Lines {
    /// The lines in so many parts of about the same size.
    pub(super) fn parts(&self, number: usize) -> Vec<Bytes> {
        let mut rest = self.text.clone();
        let size = rest.len().div_ceil(number);
        let mut parts = Vec::with_capacity(number);
        while !rest.is_empty() {
            let least = size.min(rest.len());
            let more = rest[least - 1..].iter().position(|byte| *byte == b'\n');
            parts.push(rest.split_to(more.map_or(rest.len(), |more| least + more)));
        }
        parts
    }
}

/// So many lines, each of another user.
pub(super) fn make(count: usize) -> Lines {
    let (mut text, mut sets, mut counters) = (String::new(), String::new(), String::new());
    for n in 0..count {
        let (kind, product) = (n % TYPES, n / TYPES % PRODUCTS);
        let time = MINUTE + (n as i64 * 59_999_999_999) / count as i64;
        text.push_str(&format!(
            "events,event_type=type-{kind},product=product-{product} value=\"user-{n}\" {time}\n"
        ));
        let user = format!("u.{kind}.{product}:user-{n}|s\n");
        sets.push_str(&format!("{user}e.{kind}.{product}:user-{n}@{time}|s\n"));
        counters.push_str(&format!("{user}c.{kind}.{product}:1|c\n"));
    }
    Lines { text: text.into(), sets: sets.into(), counters: counters.into(), count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_lines_and_together_all_of_them() {
        for number in 1..6 {
            let lines = make(17);
            let parts = lines.parts(number);
            assert!(parts.len() <= number && parts.iter().all(|part| part.ends_with(b"\n")));
            assert_eq!(parts.concat(), lines.text);
        }
    }

    #[test]
    fn each_line_is_two_metrics() {
        let lines = make(17);
        for metrics in [&lines.sets, &lines.counters] {
            assert_eq!(metrics.iter().filter(|byte| **byte == b'\n').count(), 17 * METRICS);
        }
    }
}
