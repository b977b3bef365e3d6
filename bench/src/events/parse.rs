//! Reading lines, and nothing else.

use std::hint::black_box;
use std::time::Instant;

use consort_line::{Dialect, Point, Precision, lines, parse_into};

use super::lines::Lines;

/// The rates of the maintained crate and of ours, in turn.
pub(super) fn rates(given: &Lines, rounds: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    let rate = |seconds: f64| given.count as f64 / seconds;
    for _ in 0..rounds.max(3) {
        let began = Instant::now();
        let text = String::from_utf8_lossy(&given.text);
        let read = influxdb_line_protocol::parse_lines(&text).filter(Result::is_ok).count();
        assert_eq!(black_box(read), given.count);
        theirs.push(rate(began.elapsed().as_secs_f64()));
        let began = Instant::now();
        let (mut point, mut read) = (Point::default(), 0);
        for (_, line) in lines(&given.text) {
            let parsed = parse_into(&mut point, line, Dialect::Strict, Precision::Nanoseconds);
            read += usize::from(black_box(parsed) == Ok(true));
        }
        assert_eq!(read, given.count);
        ours.push(rate(began.elapsed().as_secs_f64()));
    }
    (theirs, ours)
}
