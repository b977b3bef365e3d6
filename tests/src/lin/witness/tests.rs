//! The witness lets right histories pass, and finds each way in which one can be wrong.

use super::*;
use crate::lin::feed::{ChangedRow, FeedChange, FeedGroup};
use crate::lin::history::CallSpan;
use crate::lin::registers::{
    REGISTER_HISTORY, REGISTERS, RegisterAccess, RegisterRecord, check_values,
};
use crate::lin::simulate::{RULES, Scale, Simulated, simulate};
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};

const SCALE: Scale = Scale { clients: 5, calls: 30, registers: 2 };

fn judged(simulated: &Simulated) -> Result<WitnessCounts, WitnessViolation> {
    check(&simulated.calls(), &simulated.feed(), &RULES)
}

#[test]
fn simulated_histories_pass() {
    let mut all = WitnessCounts::default();
    for seed in 0..200 {
        let simulated = simulate(seed, SCALE);
        let counts = judged(&simulated).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        check_values(&simulated.feed()).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        all.stored += counts.stored;
        all.settled += counts.settled;
        all.vanished += counts.vanished;
        all.refused += counts.refused;
        all.reads += counts.reads;
    }
    let WitnessCounts { stored, settled, vanished, refused, reads } = all;
    assert!(stored > 5_000 && settled > 500 && reads > 5_000, "{all:?}");
    assert!(vanished > 50 && refused > 500, "{all:?}");
}

/// A change of a history or its feed that breaks a rule; `false` if there is nothing to change.
type Mutation = fn(&mut Simulated, &mut StdRng) -> bool;

#[test]
fn mutations_of_simulated_histories_are_found() {
    let mutations: [(&str, Mutation); 14] = [
        ("an acknowledged write is in the feed", drop_row),
        ("at the index of its answer", swap_indexes),
        ("at the index of its answer", move_row),
        ("a refused write is nowhere in the feed", refuse_stored),
        ("takes effect at most once", repeat_row),
        ("sent by a client", stranger_row),
        ("as it was sent", other_note),
        ("a read has the rows of its index", swap_values),
        ("an index that the feed has", read_beyond_the_end),
        ("that ended before it began", stale_strong_read),
        ("that ended before it began", swap_strong_reads),
        ("not older than max_stale", stale_default_read),
        ("that index or a later one", read_before_position),
        ("that ended before it began", late_begin),
    ];
    for (rule, mutate) in mutations {
        let mut found = 0;
        for seed in 0..60 {
            let mut simulated = simulate(seed, SCALE);
            if !mutate(&mut simulated, &mut StdRng::seed_from_u64(seed)) {
                continue;
            }
            let broken = judged(&simulated).expect_err(&format!("{rule}, seed {seed}"));
            assert!(broken.rule.contains(rule), "{rule}, seed {seed}: {broken}");
            assert!((1..=2).contains(&broken.part.len()), "{rule}, seed {seed}: {broken}");
            found += 1;
        }
        assert!(found > 30, "{rule}: only {found} histories can be changed so");
    }
}

/// The places of calls that fit.
fn places(simulated: &Simulated, fits: impl Fn(&RegisterRecord) -> bool) -> Vec<usize> {
    (0..simulated.records.len()).filter(|at| fits(&simulated.records[*at])).collect()
}

fn stored_at(record: &RegisterRecord) -> Option<u64> {
    match record.access {
        RegisterAccess::Write { outcome, .. } | RegisterAccess::Swap { outcome, .. } => {
            match outcome {
                ToldOutcome::Stored { index } => index,
                _ => None,
            }
        }
        RegisterAccess::Read { .. } => None,
    }
}

fn stamp(record: &RegisterRecord) -> i64 {
    match record.access {
        RegisterAccess::Write { stamp, .. } | RegisterAccess::Swap { stamp, .. } => stamp,
        RegisterAccess::Read { .. } => panic!("a read has no stamp"),
    }
}

fn set_outcome(record: &mut RegisterRecord, new: ToldOutcome) {
    match &mut record.access {
        RegisterAccess::Write { outcome, .. } | RegisterAccess::Swap { outcome, .. } => {
            *outcome = new;
        }
        RegisterAccess::Read { .. } => panic!("a read has no outcome"),
    }
}

/// The place of a stored write.
fn any_stored(simulated: &Simulated, random: &mut StdRng) -> Option<usize> {
    places(simulated, |record| stored_at(record).is_some()).into_iter().choose(random)
}

/// Takes the row of a write out of the history table.
fn take_row(simulated: &mut Simulated, stamp: i64) -> FeedChange {
    let is_of = |change: &FeedChange| match &change.row {
        ChangedRow::Added(row) if change.table == REGISTER_HISTORY => {
            row[1] == RowCell::Integer(stamp)
        }
        _ => false,
    };
    for group in &mut simulated.groups {
        if let Some(at) = group.changes.iter().position(is_of) {
            return group.changes.remove(at);
        }
    }
    panic!("{stamp} is in the history");
}

fn add_row(simulated: &mut Simulated, cells: [i64; 3]) {
    let index = simulated.groups.last().map_or(1, |group| group.index + 1);
    let row = ChangedRow::Added(cells.map(RowCell::Integer).to_vec());
    let change = FeedChange { table: REGISTER_HISTORY.into(), key: cells[0], row };
    simulated.groups.push(FeedGroup { index, changes: vec![change] });
}

fn drop_row(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let Some(at) = any_stored(simulated, random) else { return false };
    let stamp = stamp(&simulated.records[at]);
    take_row(simulated, stamp);
    true
}

fn swap_indexes(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let (Some(one), Some(other)) = (any_stored(simulated, random), any_stored(simulated, random))
    else {
        return false;
    };
    let [first, second] = [one, other].map(|at| stored_at(&simulated.records[at]));
    set_outcome(&mut simulated.records[one], ToldOutcome::Stored { index: second });
    set_outcome(&mut simulated.records[other], ToldOutcome::Stored { index: first });
    first != second
}

fn move_row(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let Some(at) = any_stored(simulated, random) else { return false };
    let stamp = stamp(&simulated.records[at]);
    let change = take_row(simulated, stamp);
    let last = simulated.groups.last_mut().expect("there are groups");
    last.changes.push(change);
    stored_at(&simulated.records[at]) != Some(last.index)
}

fn refuse_stored(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let Some(at) = any_stored(simulated, random) else { return false };
    let outcome = if random.random() { ToldOutcome::NotStored } else { ToldOutcome::Unmet };
    set_outcome(&mut simulated.records[at], outcome);
    true
}

fn repeat_row(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let Some(at) = any_stored(simulated, random) else { return false };
    let (stamp, register) = (stamp(&simulated.records[at]), simulated.records[at].register);
    add_row(simulated, [1_000_000, stamp, register]);
    true
}

fn stranger_row(simulated: &mut Simulated, _: &mut StdRng) -> bool {
    add_row(simulated, [1_000_000, 1_000_000, 0]);
    true
}

fn other_note(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let Some(at) = any_stored(simulated, random) else { return false };
    simulated.records[at].register += 1;
    true
}

fn is_strong(record: &RegisterRecord) -> bool {
    matches!(record.access, RegisterAccess::Read { level: ReadLevel::Strong, .. })
}

fn swap_values(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let reads = places(simulated, is_strong);
    let chosen = reads.into_iter().choose_multiple(random, 2);
    let values = chosen.iter().map(|at| match simulated.records[*at].access {
        RegisterAccess::Read { value, .. } => value,
        _ => None,
    });
    let values: Vec<Option<i64>> = values.collect();
    for (at, new) in chosen.into_iter().zip(values.iter().rev()) {
        if let RegisterAccess::Read { value, .. } = &mut simulated.records[at].access {
            *value = *new;
        }
    }
    values.len() == 2 && values[0] != values[1]
}

/// Lets a read be one of this index, with the rows of this index.
fn read_at(simulated: &mut Simulated, at: usize, new: u64) {
    let feed = simulated.feed();
    let record = &mut simulated.records[at];
    let row = feed.row(REGISTERS, record.register, new);
    if let RegisterAccess::Read { value, index, .. } = &mut record.access {
        *index = new;
        *value = row.and_then(|row| match row[1] {
            RowCell::Integer(value) => Some(value),
            _ => None,
        });
    }
}

fn read_beyond_the_end(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let Some(at) = places(simulated, is_strong).into_iter().choose(random) else { return false };
    let end = simulated.feed().end();
    read_at(simulated, at, end + 1);
    true
}

/// The highest index of a call that ended before this moment.
fn highest_before(simulated: &Simulated, moment: u64) -> Option<u64> {
    let ended = simulated.records.iter().filter(|record| {
        let ended = record.span.ended;
        ended.is_some_and(|ended| ended < moment)
    });
    let indexes = ended.filter_map(|record| match record.access {
        RegisterAccess::Read { index, .. } => Some(index),
        _ => stored_at(record),
    });
    indexes.max().filter(|index| *index > 0)
}

fn stale_strong_read(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let reads = places(simulated, is_strong).into_iter();
    let late = reads
        .filter_map(|at| Some((at, highest_before(simulated, simulated.records[at].span.began)?)));
    let Some((at, before)) = late.choose(random) else { return false };
    read_at(simulated, at, random.random_range(0..before));
    true
}

fn swap_strong_reads(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let reads = places(simulated, is_strong);
    let index = |at: usize| match simulated.records[at].access {
        RegisterAccess::Read { index, .. } => index,
        _ => 0,
    };
    let pairs = reads.iter().flat_map(|one| reads.iter().map(move |other| (*one, *other)));
    let pairs = pairs.filter(|(one, other)| {
        simulated.records[*one].span.is_before(simulated.records[*other].span)
            && index(*one) < index(*other)
    });
    let Some((one, other)) = pairs.choose(random) else { return false };
    let (earlier, later) = (index(one), index(other));
    read_at(simulated, one, later);
    read_at(simulated, other, earlier);
    true
}

fn stale_default_read(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let is_any = |record: &RegisterRecord| {
        matches!(record.access, RegisterAccess::Read { level: ReadLevel::Any, .. })
    };
    let max_stale = RULES.max_stale.as_nanos() as u64;
    let late = places(simulated, is_any).into_iter().filter_map(|at| {
        let moment = simulated.records[at].span.began.saturating_sub(max_stale);
        Some((at, highest_before(simulated, moment)?))
    });
    let Some((at, before)) = late.choose(random) else { return false };
    read_at(simulated, at, random.random_range(0..before));
    true
}

fn read_before_position(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let position = |record: &RegisterRecord| match record.access {
        RegisterAccess::Read { level: ReadLevel::After(position), .. } if position > 0 => {
            Some(position)
        }
        _ => None,
    };
    let reads = places(simulated, |record| position(record).is_some()).into_iter();
    let Some(at) = reads.choose(random) else { return false };
    let before = position(&simulated.records[at]).unwrap_or(1);
    read_at(simulated, at, random.random_range(0..before));
    true
}

/// A write, acknowledged or unknown, begins only when others with a later index are over.
fn late_begin(simulated: &mut Simulated, random: &mut StdRng) -> bool {
    let end = simulated.records.iter().filter_map(|record| record.span.ended).max().unwrap_or(0);
    let Some(highest) = highest_before(simulated, end) else { return false };
    let early = places(simulated, |record| stored_at(record).is_some_and(|index| index < highest));
    let Some(at) = early.into_iter().choose(random) else { return false };
    let ended = random.random::<bool>().then_some(end + 2);
    simulated.records[at].span = CallSpan { began: end + 1, ended };
    if ended.is_none() {
        set_outcome(&mut simulated.records[at], ToldOutcome::Unknown);
    }
    true
}

#[test]
fn registers_that_do_not_follow_their_history_are_found() {
    let right = simulate(1, SCALE);
    assert_eq!(check_values(&right.feed()), Ok(()));
    let mut wrong = right.clone();
    let last = wrong.groups.last_mut().expect("there are groups");
    let of_register = |change: &&mut FeedChange| change.table == REGISTERS;
    let change = last.changes.iter_mut().find(of_register).expect("a write changes a register");
    change.row = ChangedRow::Changed(vec![None, Some(RowCell::Integer(-9))]);
    assert!(check_values(&wrong.feed()).is_err());
    let mut half = right;
    half.groups.last_mut().expect("there are groups").changes.retain(|c| c.table == REGISTERS);
    assert!(check_values(&half.feed()).unwrap_err().contains("same indexes"));
}

#[test]
fn a_violation_shows_the_two_calls_that_disagree() {
    let mut simulated = simulate(3, SCALE);
    assert!(stale_strong_read(&mut simulated, &mut StdRng::seed_from_u64(3)));
    let shown = judged(&simulated).unwrap_err().to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[0].starts_with("broken: a strong read is not older"), "{shown}");
    assert!(lines[2].contains("reads row") && lines[2].contains("Strong"), "{shown}");
}
