//! The search rejects wrong histories and no others: by table, beside a search of all orders, and by mutation.

use super::*;
use crate::lin::history::{ReadLevel, ToldOutcome};
use crate::lin::registers::{RegisterAccess, RegisterRecord, by_register};
use crate::lin::simulate::{Scale, Simulated, simulate};
use RegisterStep::{FailedSwap, Read, Swap, Write};
use SearchVerdict::{Linearizable, NotLinearizable, Undecided};
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};

const SCALE: Scale = Scale { clients: 5, calls: 30, registers: 2 };

/// A call from one moment to another, or of unknown outcome.
fn call(began: u64, ended: impl Into<Option<u64>>, step: RegisterStep) -> RegisterCall {
    RegisterCall { client: 0, span: CallSpan { began, ended: ended.into() }, step }
}

fn verdict(calls: &[RegisterCall]) -> SearchVerdict {
    search(calls, SearchLimits::default())
}

/// Judges histories, each with its name and its verdict.
fn get_their_verdict(cases: &[(&str, &[RegisterCall], SearchVerdict)]) {
    for (name, calls, expected) in cases {
        assert_eq!(verdict(calls), *expected, "{name}");
        assert_eq!(*expected == Linearizable, has_order(calls), "{name}: all orders");
    }
}

#[test]
fn reads_and_writes_of_known_verdict_get_it() {
    get_their_verdict(&[
        ("no call", &[], Linearizable),
        ("nothing is there before the first write", &[call(0, 1, Read(None))], Linearizable),
        ("a value that was never written", &[call(0, 1, Read(Some(7)))], NotLinearizable),
        (
            "a read of the last write",
            &[call(0, 1, Write(1)), call(2, 3, Read(Some(1)))],
            Linearizable,
        ),
        (
            "a stale read",
            &[call(0, 1, Write(1)), call(2, 3, Write(2)), call(4, 5, Read(Some(1)))],
            NotLinearizable,
        ),
        (
            "an acknowledged write that no later read sees",
            &[call(0, 1, Write(1)), call(2, 3, Read(None))],
            NotLinearizable,
        ),
        (
            "reads around a write that overlaps both",
            &[call(0, 9, Write(1)), call(1, 2, Read(None)), call(3, 4, Read(Some(1)))],
            Linearizable,
        ),
        (
            "the same reads, swapped",
            &[call(0, 9, Write(1)), call(1, 2, Read(Some(1))), call(3, 4, Read(None))],
            NotLinearizable,
        ),
    ]);
}

#[test]
fn writes_of_unknown_outcome_get_their_verdict() {
    get_their_verdict(&[
        (
            "an unknown write that takes effect late",
            &[call(0, None, Write(1)), call(1, 2, Read(None)), call(50, 51, Read(Some(1)))],
            Linearizable,
        ),
        (
            "an unknown write that never takes effect",
            &[call(0, None, Write(1)), call(1, 2, Write(2)), call(50, 51, Read(Some(2)))],
            Linearizable,
        ),
        (
            "an unknown write that takes effect before it began",
            &[call(0, 1, Read(Some(1))), call(2, None, Write(1))],
            NotLinearizable,
        ),
        (
            "an unknown write that takes effect twice",
            &[
                call(0, None, Write(1)),
                call(1, 2, Read(Some(1))),
                call(3, 4, Write(2)),
                call(5, 6, Read(Some(1))),
            ],
            NotLinearizable,
        ),
    ]);
}

#[test]
fn swaps_of_known_verdict_get_it() {
    get_their_verdict(&[
        (
            "two swaps of one value",
            &[
                call(0, 1, Write(1)),
                call(2, 9, Swap { from: 1, to: 2 }),
                call(2, 9, Swap { from: 1, to: 3 }),
            ],
            NotLinearizable,
        ),
        (
            "a swap and one that comes too late",
            &[
                call(0, 1, Write(1)),
                call(2, 9, Swap { from: 1, to: 2 }),
                call(2, 9, FailedSwap { from: 1 }),
            ],
            Linearizable,
        ),
        (
            "a swap that fails although its value is there",
            &[call(0, 1, Write(1)), call(2, 3, FailedSwap { from: 1 })],
            NotLinearizable,
        ),
        (
            "a swap that fails since an unknown write took effect",
            &[call(0, 1, Write(1)), call(2, None, Write(2)), call(3, 4, FailedSwap { from: 1 })],
            Linearizable,
        ),
    ]);
}

#[test]
fn small_histories_get_the_verdict_of_a_search_of_all_orders() {
    let mut random = StdRng::seed_from_u64(1);
    for (values, ratio) in [(3, 10), (6, 40)] {
        let mut verdicts = [0, 0];
        for _ in 0..6_000 {
            let calls: Vec<RegisterCall> = (0..7).map(|_| any_call(&mut random, values)).collect();
            let expected = has_order(&calls);
            let found = verdict(&calls) == Linearizable;
            assert_eq!(found, expected, "{calls:#?}");
            verdicts[usize::from(found)] += 1;
        }
        assert!(verdicts.iter().all(|count| *count > 6_000 / ratio), "{verdicts:?}");
    }
}

fn any_call(random: &mut StdRng, values: i64) -> RegisterCall {
    let began = random.random_range(0..12);
    let ended = Some(began + random.random_range(1..8));
    let [one, other] = [0, 0].map(|_: i32| random.random_range(1..values));
    match random.random_range(0..8) {
        0 => call(began, ended, FailedSwap { from: one }),
        1 => call(began, ended, Swap { from: one, to: other }),
        2 => call(began, None, Swap { from: one, to: other }),
        3 => call(began, None, Write(one)),
        4 | 5 => call(began, ended, Write(one)),
        6 => call(began, ended, Read(random.random::<bool>().then_some(one))),
        _ => call(began, ended, Read(Some(one))),
    }
}

/// Tries all orders of all calls, with and without each of unknown outcome.
fn has_order(calls: &[RegisterCall]) -> bool {
    fn goes_on(calls: &[RegisterCall], placed: &mut Vec<usize>, value: Option<i64>) -> bool {
        let left: Vec<usize> = (0..calls.len()).filter(|at| !placed.contains(at)).collect();
        if left.iter().all(|at| calls[*at].span.ended.is_none()) {
            return true;
        }
        left.iter().any(|&at| {
            let is_early = left.iter().any(|other| calls[*other].span.is_before(calls[at].span));
            let Some(next) = calls[at].step.apply(value).filter(|_| !is_early) else {
                return false;
            };
            placed.push(at);
            let found = goes_on(calls, placed, next);
            placed.pop();
            found
        })
    }
    goes_on(calls, &mut Vec::new(), None)
}

#[test]
fn simulated_histories_pass() {
    for seed in 0..200 {
        let registers = by_register(&simulate(seed, SCALE).records);
        let counts = check(&registers, SearchLimits::default());
        assert!(counts.as_ref().is_ok_and(|counts| counts.calls > 60), "seed {seed}: {counts:?}");
    }
}

#[test]
fn a_long_history_with_many_unknown_outcomes_is_decided_in_few_steps() {
    let scale = Scale { clients: 16, calls: 150, registers: 1 };
    let registers = by_register(&simulate(7, scale).records);
    let calls = registers[&0].len() as u64;
    let unknown = registers[&0].iter().filter(|call| call.span.ended.is_none()).count();
    assert!(calls > 1_000 && unknown > 50, "{calls}, {unknown}");
    let limits = SearchLimits { steps: 20 * calls, states: 20_000 };
    assert_eq!(search(&registers[&0], limits), Linearizable);
}

#[test]
fn a_search_that_reaches_a_bound_says_that_it_knows_nothing() {
    let registers = by_register(&simulate(7, SCALE).records);
    for limits in [SearchLimits { steps: 30, states: 999 }, SearchLimits { steps: 999, states: 30 }]
    {
        assert_eq!(search(&registers[&0], limits), Undecided);
        let violation = check(&registers, limits).unwrap_err();
        assert!(violation.is_undecided && violation.to_string().contains("raise the limits"));
    }
}

#[test]
fn any_number_of_unknown_writes_does_not_hide_a_wrong_answer() {
    // Any subset of the writes may have taken effect, and no order explains the last read.
    let mut calls: Vec<RegisterCall> = (0..60).map(|n| call(0, None, Write(n))).collect();
    calls.extend((1..30).map(|n| call(2 * n, 2 * n + 1, FailedSwap { from: n as i64 })));
    calls.extend((30..50).map(|n| call(2 * n, 2 * n + 1, Read(Some(n as i64)))));
    assert_eq!(verdict(&calls), Linearizable);
    calls.push(call(200, 201, Read(Some(99))));
    assert_eq!(verdict(&calls), NotLinearizable);
}

/// A change of a history after which no order explains it; `false` if there is no call to change.
type Mutation = fn(&mut Simulated, &mut StdRng) -> bool;

#[test]
fn mutations_of_simulated_histories_are_found() {
    let mutations: [(&str, Mutation); 4] = [
        ("a stale read", stale_read),
        ("two reads, swapped", swapped_reads),
        ("a write that is dropped, but was read", dropped_write),
        ("an acknowledged write that is lost", lost_write),
    ];
    for (name, mutate) in mutations {
        let mut found = 0;
        for seed in 0..60 {
            let mut simulated = simulate(seed, SCALE);
            if !mutate(&mut simulated, &mut StdRng::seed_from_u64(seed)) {
                continue;
            }
            let checked = check(&by_register(&simulated.records), SearchLimits::default());
            let violation = checked.expect_err(&format!("{name}, seed {seed}"));
            assert!(!violation.is_undecided, "{name}, seed {seed}");
            assert_eq!(verdict(&violation.part), NotLinearizable, "{name}, seed {seed}");
            assert!(violation.part.len() <= 12, "{name}, seed {seed}: {violation}");
            found += 1;
        }
        assert!(found > 30, "{name}: only {found} histories can be changed so");
    }
}

/// The stamp and span of an acknowledged write.
fn stored(record: &RegisterRecord) -> Option<(i64, CallSpan)> {
    match record.access {
        RegisterAccess::Write { stamp, outcome } | RegisterAccess::Swap { stamp, outcome, .. } => {
            matches!(outcome, ToldOutcome::Stored { .. }).then_some((stamp, record.span))
        }
        RegisterAccess::Read { .. } => None,
    }
}

/// The value that a strong read found.
fn strong(record: &RegisterRecord) -> Option<i64> {
    match record.access {
        RegisterAccess::Read { value, level: ReadLevel::Strong, .. } => value,
        _ => None,
    }
}

fn set_value(record: &mut RegisterRecord, new: i64) {
    if let RegisterAccess::Read { value, .. } = &mut record.access {
        *value = Some(new);
    }
}

/// All (place of a strong read, stamp of a write that was overwritten before the read began, stamp of the write that
/// came between).
fn overwritten(records: &[RegisterRecord]) -> Vec<(usize, i64, i64)> {
    let mut found = Vec::new();
    for (at, read) in records.iter().enumerate().filter(|(_, record)| strong(record).is_some()) {
        let writes: Vec<(i64, CallSpan)> = records
            .iter()
            .filter(|record| record.register == read.register)
            .filter_map(stored)
            .filter(|(_, span)| span.is_before(read.span))
            .collect();
        for (old, first) in &writes {
            let between = writes.iter().find(|(_, second)| first.is_before(*second));
            found.extend(between.map(|(new, _)| (at, *old, *new)));
        }
    }
    found
}

fn stale_read(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let records = &mut simulated.records;
    let Some((at, old, _)) = overwritten(records).into_iter().choose(random) else { return false };
    set_value(&mut records[at], old);
    true
}

fn swapped_reads(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let records = &mut simulated.records;
    let written: BTreeMap<i64, CallSpan> = records.iter().filter_map(stored).collect();
    let mut pairs = Vec::new();
    for (first, one) in records.iter().enumerate() {
        for (second, other) in records.iter().enumerate() {
            let (Some(old), Some(new)) = (strong(one), strong(other)) else { continue };
            let (Some(before), Some(after)) = (written.get(&old), written.get(&new)) else {
                continue;
            };
            if one.register == other.register
                && one.span.is_before(other.span)
                && before.is_before(*after)
            {
                pairs.push((first, second, old, new));
            }
        }
    }
    let Some((first, second, old, new)) = pairs.into_iter().choose(random) else { return false };
    set_value(&mut records[first], new);
    set_value(&mut records[second], old);
    true
}

fn dropped_write(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let records = &mut simulated.records;
    let read: Vec<i64> = records.iter().filter_map(strong).collect();
    let is_read = |record: &RegisterRecord| stored(record).is_some_and(|(s, _)| read.contains(&s));
    let places = (0..records.len()).filter(|at| is_read(&records[*at]));
    let Some(at) = places.choose(random) else { return false };
    records.remove(at);
    true
}

/// Every read of a write finds the value before it, although one of them began after the write was acknowledged.
fn lost_write(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let records = &mut simulated.records;
    let overwritten = overwritten(records).into_iter();
    let of_reads = overwritten.filter(|(at, _, new)| strong(&records[*at]) == Some(*new));
    let Some((_, old, new)) = of_reads.choose(random) else { return false };
    for record in records {
        if strong(record) == Some(new) {
            set_value(record, old);
        }
    }
    true
}

#[test]
fn the_part_that_is_shown_is_small_and_readable() {
    let mut calls: Vec<RegisterCall> = (0..300)
        .map(|n| (10 * n, 1_000 + n as i64))
        .flat_map(|(at, value)| {
            [call(at, at + 3, Write(value)), call(at + 4, at + 8, Read(Some(value)))]
        })
        .collect();
    let stale = call(2_009, 2_009, Read(Some(1_150)));
    calls.push(stale);
    let violation = check(&BTreeMap::from([(3, calls)]), SearchLimits::default()).unwrap_err();
    assert_eq!(violation.part.len(), 3, "{violation}");
    assert!(violation.part.contains(&stale), "{violation}");
    let shown = violation.to_string();
    assert!(shown.starts_with("register 3: no order explains these 3 calls:\n"), "{shown}");
    assert!(shown.contains("client  0 reads 1150"), "{shown}");
}
