//! Finds a small part of a failing history that fails by itself, for people to read.
//!
//! Every step keeps this rule: if the whole had an order, the part would have one. So a part that fails shows that the
//! whole fails.

use std::ops::Range;

use super::history::CallSpan;
use super::search::{RegisterCall, RegisterStep, SearchLimits, SearchVerdict, search};

/// Bounds of one search on the way: a part that takes longer is not taken for failing.
const LIMITS: SearchLimits = SearchLimits { steps: 200_000, states: 100_000 };

/// Most searches on the way.
const TRIES: usize = 2_000;

/// A part of a failing history that fails by itself; the whole of it if that is all that was found.
pub fn smallest_failing(calls: &[RegisterCall]) -> Vec<RegisterCall> {
    let mut shrinker = Shrinker { tries: TRIES };
    let prefix = shrinker.shortest_prefix(calls);
    let told = shrinker.drop_chunks(prefix, without_observations);
    let mut part = shrinker.drop_chunks(told, without_values);
    part.sort_by_key(|call| call.span.began);
    part
}

struct Shrinker {
    tries: usize,
}

impl Shrinker {
    fn fails(&mut self, calls: &[RegisterCall]) -> bool {
        self.tries = self.tries.saturating_sub(1);
        self.tries > 0 && search(calls, LIMITS) == SearchVerdict::NotLinearizable
    }

    /// The history up to the first end of a call after which it fails.
    fn shortest_prefix(&mut self, calls: &[RegisterCall]) -> Vec<RegisterCall> {
        let mut ends: Vec<u64> = calls.iter().filter_map(|call| call.span.ended).collect();
        ends.sort_unstable();
        // A prefix of a history with an order has an order, so those that fail are the longer ones.
        let shortest = ends.partition_point(|end| !self.fails(&prefix(calls, *end)));
        let found = ends.get(shortest).map(|end| prefix(calls, *end));
        found.filter(|found| self.fails(found)).unwrap_or_else(|| calls.to_vec())
    }

    /// Lets `reduce` drop calls, of half of the history at first and of single calls at last, and keeps each result
    /// that fails.
    fn drop_chunks(
        &mut self,
        calls: Vec<RegisterCall>,
        reduce: impl Fn(&[RegisterCall], Range<usize>) -> Vec<RegisterCall>,
    ) -> Vec<RegisterCall> {
        let mut part = calls;
        let mut size = part.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < part.len() {
                let reduced = reduce(&part, at..part.len().min(at + size));
                if reduced.len() < part.len() && self.fails(&reduced) {
                    part = reduced;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        part
    }
}

/// The history as it was known at this moment.
fn prefix(calls: &[RegisterCall], end: u64) -> Vec<RegisterCall> {
    let begun = calls.iter().filter(|call| call.span.began <= end);
    let known = begun.filter_map(|call| {
        let ended = call.span.ended.filter(|ended| *ended <= end);
        // A read without an answer has not observed anything.
        let is_told = ended.is_some() || !call.step.is_observation();
        is_told.then_some(RegisterCall { span: CallSpan { ended, ..call.span }, ..*call })
    });
    known.collect()
}

/// The history without the reads and failed swaps in this range.
fn without_observations(calls: &[RegisterCall], range: Range<usize>) -> Vec<RegisterCall> {
    let kept = calls.iter().enumerate();
    let kept = kept.filter(|(at, call)| !range.contains(at) || !call.step.is_observation());
    kept.map(|(_, call)| *call).collect()
}

/// The history without the writes in this range, and without all that rests on their values. Where a swap failed, the
/// values that were not there matter too; then nothing is dropped.
fn without_values(calls: &[RegisterCall], range: Range<usize>) -> Vec<RegisterCall> {
    let mut gone: Vec<i64> = calls[range].iter().filter_map(|call| call.step.target()).collect();
    let mut next = 0;
    while let Some(&value) = gone.get(next) {
        let dependent = calls.iter().filter_map(|call| match call.step {
            RegisterStep::Swap { from, to } if from == value => Some(to),
            _ => None,
        });
        let fresh: Vec<i64> = dependent.filter(|to| !gone.contains(to)).collect();
        gone.extend(fresh);
        next += 1;
    }
    let is_unique =
        |value: &i64| calls.iter().filter(|call| call.step.target() == Some(*value)).count() == 1;
    let has_failed_swap =
        calls.iter().any(|call| matches!(call.step, RegisterStep::FailedSwap { .. }));
    if has_failed_swap || !gone.iter().all(is_unique) {
        return calls.to_vec();
    }
    let value_of = |call: &RegisterCall| match call.step {
        RegisterStep::Read(value) => value,
        _ => call.step.target(),
    };
    let kept = calls.iter();
    let kept = kept.filter(|call| value_of(call).is_none_or(|value| !gone.contains(&value)));
    kept.copied().collect()
}
