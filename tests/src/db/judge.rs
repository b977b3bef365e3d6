//! The verdict on a trial: every checker on every history.

use std::time::{Duration, Instant};

use crate::lin::accounts::{TRANSFERS, check_balances};
use crate::lin::feed::FeedRows;
use crate::lin::history::{ClientCall, Row};
use crate::lin::registers::{REGISTER_HISTORY, RegisterRecord, by_register, check_values};
use crate::lin::search::{self, SearchLimits};
use crate::lin::witness::{self, WitnessRules};

use super::bank::TOTAL;

/// `max_stale` of the databases, which have its default.
const MAX_STALE: Duration = Duration::from_secs(5);

/// Judges the calls on registers: by the feed, by the search, and by the change stream.
///
/// # Panics
///
/// If a rule is broken; the message has the smallest part of the history that shows it.
pub fn registers(records: &[RegisterRecord], feed: &FeedRows, told: &[(u64, Row)]) {
    let calls: Vec<ClientCall> = records.iter().map(RegisterRecord::client_call).collect();
    by_witness("registers", REGISTER_HISTORY, &calls, feed, told);
    check_values(feed).unwrap_or_else(|broken| panic!("registers: {broken}"));
    let began = Instant::now();
    let searched = search::check(&by_register(records), SearchLimits::default());
    let counts = searched.unwrap_or_else(|broken| panic!("{broken}"));
    eprintln!("registers: linearizable by search in {:.1?}: {counts:?}", began.elapsed());
}

/// Judges the calls on accounts: by the feed, by the change stream, and by the sum of the money.
///
/// # Panics
///
/// If a rule is broken.
pub fn accounts(calls: &[ClientCall], feed: &FeedRows, told: &[(u64, Row)]) {
    by_witness("accounts", TRANSFERS, calls, feed, told);
    let transfers = check_balances(feed, TOTAL);
    let transfers = transfers.unwrap_or_else(|broken| panic!("accounts: {broken}"));
    eprintln!("accounts: {transfers} transfers, and {TOTAL} in all at each index");
}

fn by_witness(
    workload: &str,
    history: &'static str,
    calls: &[ClientCall],
    feed: &FeedRows,
    told: &[(u64, Row)],
) {
    let rules = WitnessRules { history, max_stale: MAX_STALE };
    let counts = witness::check(calls, feed, &rules);
    let counts = counts.unwrap_or_else(|broken| panic!("{workload}: {broken}"));
    eprintln!("{workload}: as the feed has it up to index {}: {counts:?}", feed.end());
    let written = feed.added(history);
    let streamed = told.iter().map(|(index, row)| (*index, row));
    let differs = written.iter().copied().zip(streamed).find(|(one, other)| one != other);
    assert_eq!(differs, None, "{workload}: feed and change stream differ");
    assert_eq!(written.len(), told.len(), "{workload}: feed and change stream end elsewhere");
}
