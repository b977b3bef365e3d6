//! The rule by table, on a model of load.

use std::time::Duration;

use consort_kernel::Timestamp;

use super::model::{Course, Model};
use super::rule::decide;
use super::settings::ScaleSettings;
use super::signal::{NodeSignal, PartitionSignal, ScaleSignal};
use super::state::{ScaleLimit, ScaleState};

const HOUR: u64 = 3600;

const NO_CHANGE: [u64; 0] = [];

fn wanted(course: &Course) -> Vec<u64> {
    course.changes.iter().map(|(_, wanted)| *wanted).collect()
}

fn last(course: &Course) -> &ScaleState {
    course.last.as_ref().unwrap()
}

#[test]
fn a_steady_load_of_four_fifths_changes_nothing_in_an_hour() {
    for nodes in [1, 2, 3, 8] {
        let mut model = Model::with_nodes(nodes);
        let course = model.run(HOUR, |_| 800.0 * nodes as f64);
        assert_eq!(wanted(&course), NO_CHANGE, "{nodes} nodes: {:?}", last(&course));
        assert_eq!(last(&course).limited_by, None);
    }
}

#[test]
fn a_load_that_swings_without_pressure_changes_nothing() {
    let mut model = Model::with_nodes(3);
    // From 30 % to 90 % and back within two minutes.
    let saw_tooth = |at: u64| {
        let phase = (at % 120) as f64 / 60.0;
        let share = if phase < 1.0 { phase } else { 2.0 - phase };
        3000.0 * (0.3 + 0.6 * share)
    };
    let course = model.run(HOUR, saw_tooth);
    assert_eq!(wanted(&course), NO_CHANGE, "{:?}", last(&course));
}

#[test]
fn a_backlog_that_shrinks_by_itself_changes_nothing() {
    // Half of what the node applies comes in, and 20 s of input wait: they are gone within 40 s.
    let mut model = Model { gated: false, ..Model::with_nodes(1) }.with_backlog(10_000.0);
    let course = model.run(120, |_| 500.0);
    assert_eq!(wanted(&course), NO_CHANGE, "{:?}", last(&course));
    // One that would take minutes is not waited for.
    let mut model = Model { gated: false, ..Model::with_nodes(1) }.with_backlog(200_000.0);
    let course = model.run(60, |_| 950.0);
    assert_eq!(course.changes.first().map(|(_, wanted)| *wanted), Some(2));
}

#[test]
fn three_times_the_load_brings_three_nodes_within_a_minute_and_its_end_takes_them_back_one_by_one()
{
    for gated in [true, false] {
        let mut model = Model { gated, ..Model::with_nodes(1) };
        let mut course = model.run(300, |_| 700.0);
        assert_eq!(wanted(&course), NO_CHANGE);
        course = model.run_with(60, |_| 2100.0, course);
        assert_eq!(wanted(&course), [2, 3], "gated: {gated}; {:?}", last(&course));
        assert!(last(&course).why.starts_with("2 → 3: "), "{}", last(&course).why);
        course.changes.clear();
        // 30 % of three nodes are left over.
        course = model.run_with(HOUR, |_| 2100.0, course);
        assert!(last(&course).wanted >= 3, "{:?}", last(&course));
        let peak = last(&course).wanted;
        course.changes.clear();
        course = model.run_with(720, |_| 50.0, course);
        let expected: Vec<u64> = (1..peak).rev().collect();
        assert_eq!(wanted(&course), expected, "gated: {gated}");
        let apart = course.changes.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(apart.into_iter().all(|apart| apart >= 300), "{:?}", course.changes);
        assert!(last(&course).why.contains("has fit one node for 5m"), "{}", last(&course).why);
    }
}

#[test]
fn a_gate_that_refuses_is_pressure_although_the_lag_stays_at_two_seconds() {
    let mut model = Model::with_nodes(1);
    let course = model.run(30, |_| 1900.0);
    let lags = model.signal().partitions.into_iter().map(|partition| partition.lag_ms);
    assert!(lags.max().is_some_and(|lag| lag <= 2100), "the gate holds the lag");
    assert_eq!(wanted(&course), [2]);
    let why = &last(&course).why;
    assert!(why.starts_with("1 → 2: gate of rides refuses 900/s"), "{why}");
    assert!(why.contains("offered 1.9 × applied"), "{why}");
}

#[test]
fn a_few_refusals_and_a_short_burst_of_them_are_no_pressure() {
    let mut model = Model::with_nodes(1);
    let burst = |at: u64| if at % 60 < 5 { 1500.0 } else { 500.0 };
    let course = model.run(HOUR, burst);
    assert_eq!(wanted(&course), NO_CHANGE, "{:?}", last(&course));
}

#[test]
fn partitions_that_wait_for_a_slow_store_at_little_processor_time_get_nodes_and_give_them_back() {
    // Each node has so many commits under way: more nodes do more, and none uses its cores.
    let mut model = Model { cpu_share: 0.05, ..Model::with_nodes(1) };
    let mut course = model.run(120, |_| 2500.0);
    assert!(last(&course).wanted >= 3, "{:?}", last(&course));
    let busy = model.signal().partitions.iter().filter(|each| each.busy_permille > 500).count();
    assert_eq!(busy, 32);
    course = model.run_with(1200, |_| 100.0, course);
    assert_eq!(last(&course).wanted, 1);
}

#[test]
fn nodes_that_mostly_wait_are_kept_at_a_steady_load_and_leave_when_it_ends() {
    // Two nodes were too few for 2500/s, although the three that share it now use hardly any of their cores.
    let mut model = Model { cpu_share: 0.05, ..Model::with_nodes(1) };
    let mut course = model.run(120, |_| 2500.0);
    assert_eq!(wanted(&course), [2, 3], "{:?}", last(&course));
    course.changes.clear();
    course = model.run_with(HOUR - 120, |_| 2500.0, course);
    assert_eq!(wanted(&course), NO_CHANGE, "{:?}", last(&course));
    course = model.run_with(1200, |_| 100.0, course);
    assert_eq!(wanted(&course), [2, 1], "{:?}", last(&course));
}

#[test]
fn one_hot_key_is_named_as_the_limit_and_gets_no_node() {
    for gated in [true, false] {
        let mut model = Model { gated, ..Model::with_nodes(1) }.with_hot_key();
        let course = model.run(HOUR, |_| 1500.0);
        assert_eq!(wanted(&course), NO_CHANGE, "{:?}", last(&course));
        assert_eq!(last(&course).limited_by, Some(ScaleLimit::HotPartition));
        assert!(last(&course).why.contains("rides/7"), "{}", last(&course).why);
    }
}

#[test]
fn one_partition_that_lags_among_busy_ones_gets_help() {
    let mut model = Model { gated: false, ..Model::with_nodes(1) };
    model.shares.fill(0.9 / 31.0);
    model.shares[7] = 0.1;
    let course = model.run(30, |_| 900.0);
    let lagging = model.signal().partitions.into_iter().filter(|each| each.lag_ms >= 2000);
    assert_eq!(lagging.count(), 1);
    assert_eq!(wanted(&course), [2], "{:?}", last(&course));
    assert!(last(&course).why.contains("rides/7 lags by"), "{}", last(&course).why);
}

#[test]
fn stopped_partitions_ask_for_an_operator_and_for_no_node() {
    let mut model = Model::with_nodes(1);
    model.stopped[..8].fill(true);
    let course = model.run(HOUR, |_| 300.0);
    assert_eq!(wanted(&course), NO_CHANGE, "{:?}", last(&course));
    assert_eq!(last(&course).limited_by, Some(ScaleLimit::Stopped));
    assert!(last(&course).why.contains("8 partitions wait for an operator"));
}

#[test]
fn a_slow_store_stops_the_growth_at_the_second_node_and_is_asked_again_after_ten_minutes() {
    let mut model = Model { store_takes: 900.0, ..Model::with_nodes(1) };
    let mut course = model.run(60, |_| 2000.0);
    assert_eq!(wanted(&course), [2], "{:?}", last(&course));
    assert_eq!(
        last(&course).limited_by,
        None,
        "the second node has half a minute to raise the rate"
    );
    course = model.run_with(30, |_| 2000.0, course);
    assert_eq!(last(&course).limited_by, Some(ScaleLimit::Store), "{:?}", last(&course));
    course = model.run_with(540, |_| 2000.0, course);
    assert_eq!(wanted(&course), [2], "{:?}", last(&course));
    assert_eq!(last(&course).limited_by, Some(ScaleLimit::Store));
    assert!(last(&course).why.contains("from 896/s to 896/s"), "{}", last(&course).why);
    course = model.run_with(120, |_| 2000.0, course);
    assert_eq!(wanted(&course), [2, 3], "it is tried once more");
    course = model.run_with(500, |_| 2000.0, course);
    assert_eq!(wanted(&course), [2, 3], "and found no better");
}

#[test]
fn a_load_that_rises_to_a_slow_store_gets_one_node_whenever_it_rises() {
    for phase in 0..5 {
        let mut model = Model { store_takes: 900.0, ..Model::with_nodes(1) };
        let mut course = model.run(100 + phase, |_| 500.0);
        course = model.run_with(500, |_| 2000.0, course);
        // What was applied before the load rose is no measure of what one node could do.
        assert_eq!(wanted(&course), [2], "phase {phase}: {:?}", last(&course));
        assert_eq!(last(&course).limited_by, Some(ScaleLimit::Store));
    }
}

#[test]
fn batches_that_are_counted_in_bursts_are_not_taken_for_a_slow_store() {
    for phase in 0..25 {
        let mut model = Model { reports_every: 25, ..Model::with_nodes(1) };
        let mut course = model.run(100 + phase, |_| 700.0);
        course = model.run_with(600, |_| 2500.0, course);
        let said = format!("phase {phase}: {:?}", last(&course));
        assert_eq!(wanted(&course), [2, 3], "{said}");
        assert_eq!(last(&course).limited_by, None, "{said}");
    }
}

#[test]
fn a_store_that_was_the_limit_is_forgotten_when_the_pressure_has_ended() {
    let mut model = Model { store_takes: 900.0, ..Model::with_nodes(1) };
    let mut course = model.run(120, |_| 2000.0);
    assert_eq!(last(&course).limited_by, Some(ScaleLimit::Store));
    course = model.run_with(120, |_| 100.0, course);
    assert_eq!(last(&course).limited_by, None);
    model.store_takes = f64::INFINITY;
    course = model.run_with(30, |_| 3000.0, course);
    assert!(last(&course).wanted > 2, "{:?}", last(&course));
}

#[test]
fn no_more_nodes_are_wanted_than_partitions_have_work_or_the_maximum_allows() {
    let mut model = Model::with_nodes(1);
    for share in &mut model.shares[2..] {
        *share = 0.0;
    }
    (model.shares[0], model.shares[1]) = (0.5, 0.5);
    // Each may be full on a node of its own, and is not.
    model.partition_applies = 600.0;
    model.node_applies = 700.0;
    let course = model.run(300, |_| 3000.0);
    assert_eq!(wanted(&course), [2]);
    let mut model = Model::with_nodes(1);
    model.settings.max = 3;
    let course = model.run(300, |_| 20_000.0);
    assert_eq!(wanted(&course), [2, 3]);
    assert_eq!(last(&course).limited_by, Some(ScaleLimit::Max));
}

#[test]
fn no_more_nodes_are_wanted_where_each_active_partition_could_have_one() {
    // Both partitions are on one node for now: another node has room for them, and none is missing.
    let partition = |index: usize| PartitionSignal {
        name: format!("rides/{index}"),
        node: "n0".into(),
        busy_permille: 900,
        applied_per_s: 100,
        lag_ms: 9000,
        stopped: false,
    };
    let signal = ScaleSignal {
        nodes: vec![NodeSignal { cpu_millicores: 500, cores: 2 }; 2],
        partitions: (0..2).map(partition).collect(),
        ..ScaleSignal::default()
    };
    let mut state: Option<ScaleState> = None;
    for n in 0..4 {
        let now = Timestamp(1_000_000 + 5000 * n);
        state = Some(decide(&signal, state.as_ref(), &ScaleSettings::default(), now));
    }
    let state = state.unwrap();
    assert_eq!((state.wanted, state.limited_by), (2, Some(ScaleLimit::Partitions)));
    assert!(state.why.contains("2 nodes share 2 active partitions"), "{}", state.why);
}

#[test]
fn a_node_that_died_is_still_wanted_and_the_minimum_is_kept() {
    let mut model = Model { acts: false, ..Model::with_nodes(3) };
    let mut course = model.run(60, |_| 2000.0);
    model.set_nodes(2);
    course = model.run_with(200, |_| 1500.0, course);
    assert_eq!((last(&course).wanted, wanted(&course)), (3, NO_CHANGE.to_vec()));

    let settings = ScaleSettings { min: 2, ..ScaleSettings::default() };
    let mut model = Model { settings, ..Model::with_nodes(3) };
    let course = model.run(HOUR, |_| 0.0);
    assert_eq!(wanted(&course), [2]);
}

#[test]
fn nodes_that_are_added_by_hand_are_kept_until_the_load_has_fit_fewer_for_long() {
    let mut model = Model { acts: false, ..Model::with_nodes(1) };
    let course = model.run(60, |_| 800.0);
    model.set_nodes(2);
    let course = model.run_with(240, |_| 800.0, course);
    assert_eq!(last(&course).wanted, 2);
}

#[test]
fn a_silence_of_the_scaler_counts_neither_as_calm_nor_as_pressure() {
    let mut model = Model { acts: false, ..Model::with_nodes(3) };
    let course = model.run(200, |_| 100.0);
    let before = last(&course);
    let later = model.now().after(Duration::from_secs(600));
    let next = decide(&model.signal(), Some(before), &model.settings, later);
    assert_eq!(next.wanted, 3, "{next:?}");
    assert_eq!(next.calm_since, Some(later));
}

#[test]
fn a_decision_depends_on_nothing_but_what_is_handed_in() {
    let mut model = Model::with_nodes(1);
    let course = model.run(25, |_| 3000.0);
    let (signal, now) = (model.signal(), model.now());
    let first = decide(&signal, course.last.as_ref(), &model.settings, now);
    for _ in 0..1000 {
        assert_eq!(decide(&signal, course.last.as_ref(), &model.settings, now), first);
    }
}
