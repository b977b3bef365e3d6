//! What counts against a quota, and until when.

use consort_kernel::{Partition, Producer, Timestamp};

use super::*;

const LIMITS: QuotaLimits = QuotaLimits { pieces: 100, bytes: 10_000 };

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn tenant(name: &str) -> TenantName {
    name.parse().unwrap()
}

fn place(sequence: u64) -> Place {
    Place {
        partition: Partition::new("glue.c".parse().unwrap(), 0),
        producer: Producer(1),
        sequence,
        time: Timestamp(0),
        record: 0,
    }
}

fn up_to(sequence: u64) -> impl Fn(&Place) -> bool {
    move |place| place.sequence <= sequence
}

/// What a tenant has unapplied, by how much more it may have.
fn room(quota: &mut PartitionQuota, name: &str) -> u64 {
    let mut room = 0;
    let mut taken = Vec::new();
    while let Ok(id) = quota.admit(&tenant(name), 1, 0) {
        room += 1;
        taken.push(id);
    }
    taken.into_iter().for_each(|id| quota.failed(id));
    room
}

#[test]
fn a_piece_counts_until_it_is_applied_and_not_longer() {
    let mut quota = PartitionQuota::new(LIMITS);
    let first = quota.admit(&tenant("a"), 60, 100).unwrap();
    let second = quota.admit(&tenant("a"), 40, 100).unwrap();
    let full = quota.admit(&tenant("a"), 1, 1).unwrap_err();
    assert_eq!((full.pieces, full.most_pieces), (100, 100));
    assert!(!full.is_overload(), "the quota is at its setting");
    assert!(quota.admit(&tenant("b"), 100, 1).is_ok(), "another tenant has its own");
    quota.stored(first, place(1), ms(0));
    quota.stored(second, place(2), ms(0));
    assert!(quota.admit(&tenant("a"), 1, 1).is_err(), "stored is not applied");
    quota.applied(0, ms(1), up_to(1));
    assert_eq!(room(&mut quota, "a"), 60);
    quota.applied(0, ms(2), up_to(2));
    assert_eq!(room(&mut quota, "a"), 100);
}

#[test]
fn a_piece_whose_outcome_was_heard_counts_no_more() {
    let mut quota = PartitionQuota::new(LIMITS);
    for round in 0..10 {
        let ids: Vec<_> = (0..100).map(|_| quota.admit(&tenant("a"), 1, 1).unwrap()).collect();
        assert!(quota.admit(&tenant("a"), 1, 1).is_err());
        // An outcome that is heard before the append is noted changes nothing.
        quota.settled(ids[0], ms(round));
        assert_eq!(room(&mut quota, "a"), 0);
        for (id, sequence) in ids.iter().zip(1..) {
            quota.stored(*id, place(100 * round + sequence), ms(round));
        }
        ids.iter().for_each(|id| quota.settled(*id, ms(round)));
        assert_eq!(room(&mut quota, "a"), 100);
        assert!(quota.is_empty());
    }
    // The partition is found to have passed them later.
    quota.applied(0, ms(11), up_to(1_000));
    assert_eq!(room(&mut quota, "a"), 100);
}

#[test]
fn bytes_count_as_pieces_do_and_a_large_piece_comes_in_alone() {
    let mut quota = PartitionQuota::new(LIMITS);
    let large = quota.admit(&tenant("a"), 1, 50_000).unwrap();
    assert!(quota.admit(&tenant("a"), 1, 0).is_err());
    quota.failed(large);
    quota.admit(&tenant("a"), 1, 9_999).unwrap();
    assert!(quota.admit(&tenant("a"), 1, 2).is_err());
    assert!(quota.admit(&tenant("a"), 1, 1).is_ok());
}

#[test]
fn a_failed_append_stops_counting_and_an_unknown_one_does_after_a_while() {
    let mut quota = PartitionQuota::new(LIMITS);
    let failed = quota.admit(&tenant("a"), 100, 0).unwrap();
    quota.failed(failed);
    let unknown = quota.admit(&tenant("a"), 100, 0).unwrap();
    quota.unknown(unknown, ms(1_000));
    quota.expire(ms(1_000) + UNKNOWN_FOR - ms(1));
    assert!(quota.admit(&tenant("a"), 1, 0).is_err());
    quota.expire(ms(1_000) + UNKNOWN_FOR);
    assert!(quota.is_empty());
    assert_eq!(room(&mut quota, "a"), 100);
}

#[test]
fn a_new_era_forgets_what_will_never_be_passed() {
    let mut quota = PartitionQuota::new(LIMITS);
    let id = quota.admit(&tenant("a"), 100, 0).unwrap();
    quota.stored(id, place(9), ms(0));
    quota.applied(0, ms(1), up_to(1));
    assert!(!quota.is_empty());
    quota.applied(1, ms(2), |_| false);
    assert!(quota.is_empty());
}

#[test]
fn nodes_share_the_quota_and_none_is_left_with_less_than_the_least() {
    let mut quota = PartitionQuota::new(LIMITS);
    for (nodes, pieces, bytes) in [(1, 100, 10_000), (3, 33, 3_333), (50, LEAST_PIECES, 200)] {
        quota.set_nodes(nodes);
        assert_eq!(quota.share(), QuotaLimits { pieces, bytes }, "{nodes} nodes");
    }
    let small = PartitionQuota::new(QuotaLimits { pieces: 4, bytes: 1 });
    assert_eq!(small.share().pieces, 4);
}

#[test]
fn the_quota_shrinks_to_a_second_of_the_drain_and_grows_again() {
    let mut quota = PartitionQuota::new(QuotaLimits { pieces: 1_000, bytes: 1 << 20 });
    // 50 pieces in half a second, while more wait: 100 a second.
    let mut now = 0;
    for sequence in 0..10 {
        let id = quota.admit(&tenant("a"), 5, 0).unwrap();
        quota.stored(id, place(sequence), ms(now));
    }
    let waiting = quota.admit(&tenant("b"), 1, 0).unwrap();
    quota.stored(waiting, place(99), ms(now));
    for sequence in 0..10 {
        now += 50;
        quota.applied(0, ms(now), up_to(sequence));
    }
    assert_eq!(quota.share().pieces, 100);
    // Nothing is applied for a second: the least remains.
    quota.applied(0, ms(now + 1_000), |_| false);
    assert_eq!(quota.share().pieces, LEAST_PIECES);
    let known = quota.admit(&tenant("d"), 16, 0).unwrap();
    let full = quota.admit(&tenant("d"), 984, 0).unwrap_err();
    assert!(full.is_overload(), "the setting is 1,000 pieces");
    let full = quota.admit(&tenant("d"), 985, 0).unwrap_err();
    assert!(!full.is_overload(), "a fast partition would not admit them either");
    let full = quota.admit(&tenant("d"), 1, 1 << 21).unwrap_err();
    assert!(!full.is_overload(), "bytes do not shrink");
    quota.failed(known);
    quota.failed(waiting);
    // A fast burst is too short to tell anything; a longer one shows the partition's pace again.
    now += 1_000;
    let admitted: Vec<_> = (0..3).map(|_| quota.admit(&tenant("a"), 5, 0).unwrap()).collect();
    for (sequence, id) in (10..).zip(admitted) {
        quota.stored(id, place(sequence), ms(now));
    }
    quota.applied(0, ms(now + 10), up_to(11));
    assert_eq!(quota.share().pieces, LEAST_PIECES);
    quota.admit(&tenant("b"), 16, 0).unwrap();
    let many = quota.admit(&tenant("c"), 1_000, 0).unwrap();
    quota.stored(many, place(20), ms(now + 20));
    quota.applied(0, ms(now + 260), up_to(20));
    assert!(quota.share().pieces >= 1_000, "{:?}", quota.share());
}

#[test]
fn an_idle_partition_is_not_a_slow_one() {
    let mut quota = PartitionQuota::new(LIMITS);
    let id = quota.admit(&tenant("a"), 1, 0).unwrap();
    quota.stored(id, place(0), ms(0));
    quota.applied(0, ms(10), up_to(0));
    let id = quota.admit(&tenant("a"), 1, 0).unwrap();
    quota.stored(id, place(1), ms(60_000));
    quota.applied(0, ms(60_010), up_to(1));
    assert_eq!(quota.share().pieces, LIMITS.pieces);
}
