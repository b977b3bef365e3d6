//! A fixed number of seeds: everything holds in each, everything happens in some, and each repeats.

use consort_sim::{Coverage, FaultKind, run};

/// How many seeds each part runs: about a quarter of a minute on one core.
const SEEDS_IN_A_PART: u64 = 250;

/// How many parts there are; they run side by side.
const PARTS: u64 = 4;

fn holds(seeds: std::ops::Range<u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds {
        match run(seed, None) {
            Ok(outcome) => coverage.merge(&outcome.coverage),
            Err(violation) => panic!("{violation}"),
        }
    }
    coverage
}

/// Everything that can go wrong did so, and everything that should come of it did.
fn part(part: u64) {
    assert!(part < PARTS);
    let first = part * SEEDS_IN_A_PART;
    let coverage = holds(first..first + SEEDS_IN_A_PART);
    eprint!("{coverage}");
    let kinds = FaultKind::ALL.map(|kind| format!("{kind:?}"));
    let others = [
        "Assigned owners",
        "Leased owners",
        "acquired leases",
        "appends acknowledged",
        "appends failed",
        "comparisons by the marks",
        "duplicates left out",
        "frames cut by a mark",
        "losses resolved",
        "nodes drained",
        "nodes fenced",
        "nodes replaced",
        "nodes stopped",
        "owners that yielded",
        "repeats left out",
        "roles lost to others",
        "second owners",
        "shallow losses",
        "tails that grew beyond what was consumed",
    ];
    for what in kinds.iter().map(String::as_str).chain(others) {
        assert!(coverage.times(what) > 0, "this never happened: {what}");
    }
}

#[test]
fn the_first_part_of_the_seeds_holds() {
    part(0);
}

#[test]
fn the_second_part_of_the_seeds_holds() {
    part(1);
}

#[test]
fn the_third_part_of_the_seeds_holds() {
    part(2);
}

#[test]
fn the_fourth_part_of_the_seeds_holds() {
    part(3);
}

#[test]
fn a_seed_gives_the_same_run_twice_and_another_seed_another() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let [first, second] = [(); 2].map(|()| run(seed, None).unwrap_or_else(|v| panic!("{v}")));
        assert_eq!(first, second, "seed {seed}");
        hashes.insert(first.hash);
    }
    assert_eq!(hashes.len(), 40);
}
