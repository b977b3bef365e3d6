//! A follower applies entries of its own history only, and a file says by itself how far it is.

mod bed;

use bed::{Bed, job};
use consort_db::entry::{EntryGroup, GroupJoiner};
use consort_db::follow::{ApplyError, Follower};
use consort_db::hash::ContentHash;

#[test]
fn entries_with_other_contents_or_of_a_deposed_leader_leave_no_trace() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a)");
    bed.follow().unwrap();
    let group = bed.open(&[job(&["INSERT INTO t VALUES (1)"])]);
    let joined = GroupJoiner::default().push(&group.entries[0]).unwrap().unwrap();
    let other = EntryGroup { content_after: ContentHash(1), ..joined.clone() };
    let error = bed.followers[0].apply(&other.encode().unwrap()).unwrap_err();
    assert!(matches!(error, ApplyError::Diverged { index: 2, .. }), "{error}");
    let deposed = EntryGroup { epoch: 0, ..joined };
    let error = bed.followers[0].apply(&deposed.encode().unwrap()).unwrap_err();
    assert!(matches!(error, ApplyError::OlderEpoch { index: 2, .. }), "{error}");
    assert_eq!(bed.followers[0].state().index, 1);
    bed.feed.extend(group.entries);
    bed.leader.commit().unwrap();
    bed.assert_equal();
}

#[test]
fn h7_a_leader_that_ended_between_the_two_commits_catches_up_from_the_feed() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    let stored = bed.open(&[job(&["INSERT INTO t VALUES (1)"])]);
    bed.feed.extend(stored.entries);
    bed.promote();
    let again = Follower::open(&bed.folder.path().join("leader"), 1).unwrap();
    assert_eq!(again.state().index, 1);
    bed.followers.push(again);
    bed.sql("INSERT INTO t VALUES (2)");
    bed.assert_equal();
}

#[test]
fn h14_a_group_that_is_not_complete_waits_for_its_last_entry() {
    let mut bed = Bed::new();
    bed.sql("CREATE TABLE b (v)");
    bed.run(job(&["INSERT INTO b VALUES (randomblob(3000000))"; 2])).unwrap();
    assert_eq!(bed.feed.len(), 3);
    assert_eq!(bed.followers[0].apply(&bed.feed[..2]).unwrap(), 1);
    assert_eq!(bed.followers[0].apply(&bed.feed[1..2]).unwrap(), 0);
    bed.assert_equal();
}
