//! The lines that everybody gets.

use bytes::Bytes;

/// The series: types of events and products.
const TYPES: usize = 10;
const PRODUCTS: usize = 5;

/// 2016-12-04T18:38:00Z: all lines are of one minute.
const MINUTE: i64 = 1_480_876_680_000_000_000;

/// What each contestant is given, each in its own form.
#[derive(Debug)]
pub(super) struct Lines {
    /// Strict line protocol.
    pub(super) text: Bytes,
    /// Metrics of StatsD: a set and a counter for each line.
    pub(super) metrics: Bytes,
    pub(super) count: usize,
}

/// So many lines, each of another user.
pub(super) fn make(count: usize) -> Lines {
    let (mut text, mut metrics) = (String::new(), String::new());
    for n in 0..count {
        let (kind, product) = (n % TYPES, n / TYPES % PRODUCTS);
        let time = MINUTE + (n as i64 * 59_999_999_999) / count as i64;
        text.push_str(&format!(
            "events,event_type=type-{kind},product=product-{product} value=\"user-{n}\" {time}\n"
        ));
        metrics.push_str(&format!("u.{kind}.{product}:user-{n}|s\nc.{kind}.{product}:1|c\n"));
    }
    Lines { text: text.into(), metrics: metrics.into(), count }
}
