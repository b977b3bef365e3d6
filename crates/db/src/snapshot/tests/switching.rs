//! The commit with which an era begins: one snapshot, one head, no manifest of the era before.

use std::path::PathBuf;
use std::time::Duration;

use crate::bed::{Call, CommitFault, StoreBed};
use crate::head::{DbHead, HeadState};
use crate::local::FileState;
use crate::snapshot::base::{BaseFile, RequestKeys};
use crate::snapshot::publish::SwitchError;
use crate::snapshot::sight::SnapshotSight;
use crate::snapshot::sweep::{SweepOutcome, sweep};
use crate::snapshot::upload::{PublishError, upload};

const ORIGIN: u64 = 4711;

/// The base of the next era, with the contents of the leader's file.
fn base(bed: &mut StoreBed) -> (PathBuf, BaseFile) {
    let (copy, _) = bed.copy();
    let base = BaseFile::prepare(&copy, bed.head.era + 1, RequestKeys::Forget).unwrap();
    (copy, base)
}

async fn switch(bed: &mut StoreBed, origin: u64) -> Result<DbHead, SwitchError> {
    let (copy, base) = base(bed);
    let uploaded = upload(&bed.store, &copy, base.manifest.clone()).await.unwrap();
    let next = |head: &DbHead| Ok(head.restored(base.era_base(origin, head.sqlite)));
    uploaded.switch_era(&bed.store, &base.schema_files, next).await
}

async fn assert_switched(bed: &mut StoreBed, origin: u64) -> FileState {
    let seen = SnapshotSight::read(&bed.direct).await.unwrap();
    let head = seen.head.clone().unwrap();
    assert_eq!((head.era, head.index, head.era_origin), (2, 0, origin));
    assert_eq!(seen.manifests.iter().flatten().count(), 1, "a manifest of the era before stayed");
    bed.head = head.clone();
    let (_, loaded) = bed.load().await;
    let state = loaded.unwrap().unwrap();
    assert_eq!((state.position(), state.content), (head.position(), head.content));
    state
}

#[tokio::test]
async fn h11_an_era_begins_with_its_snapshot_and_drops_those_of_the_era_before() {
    let mut bed = StoreBed::filled().await;
    bed.snapshot().await;
    bed.sql("UPDATE t SET b = hex(randomblob(150))").await;
    bed.snapshot().await;
    let before = bed.head.clone();
    let put = switch(&mut bed, ORIGIN).await.unwrap();
    assert_eq!((put.epoch, &put.state), (before.epoch, &HeadState::Vacant { successor: None }));
    let state = assert_switched(&mut bed, ORIGIN).await;
    assert_eq!(state.content, before.content);
    assert_eq!(bed.direct.schema_files().await.unwrap(), vec![]);
    // What only the manifests of the era before named goes after an hour.
    bed.clock.advance(Duration::from_secs(3600));
    while sweep(&bed.direct, bed.now()).await.unwrap() != SweepOutcome::NothingDue {}
    let named = SnapshotSight::read(&bed.direct).await.unwrap().named().len();
    assert_eq!(bed.chunks().await, named);
    assert_switched(&mut bed, ORIGIN).await;
}

#[tokio::test]
async fn writes_that_come_first_delay_a_restore_and_do_not_refuse_it() {
    let mut bed = StoreBed::filled().await;
    let (copy, base) = base(&mut bed);
    let uploaded = upload(&bed.store, &copy, base.manifest.clone()).await.unwrap();
    let heads = std::iter::successors(Some(bed.head.clone()), |head| {
        let vacant = head.vacated(head.holder.as_ref()?.claim, None).ok()?;
        vacant.claimed(head.holder.clone()?, head.sqlite).ok()
    });
    for (n, head) in heads.skip(1).take(5).enumerate() {
        let store = bed.direct.clone();
        bed.hooked.before(Call::Commit, n, async move {
            let before = store.head().await.unwrap().unwrap();
            store.replace_head(&before, &head).await;
        });
    }
    let next = |head: &DbHead| Ok(head.restored(base.era_base(ORIGIN, head.sqlite)));
    let put = uploaded.switch_era(&bed.store, &base.schema_files, next).await.unwrap();
    assert_eq!(bed.hooked.waiting(), 0);
    assert_eq!(put.epoch, bed.head.epoch + 5, "epochs go on");
    assert_switched(&mut bed, ORIGIN).await;
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_restore_is_settled_by_the_identical_commit() {
    use CommitFault::{AppliedUnknown, LostUnknown, Refused};
    let cases = [vec![AppliedUnknown], vec![LostUnknown, LostUnknown], vec![Refused, LostUnknown]];
    for faults in cases {
        let mut bed = StoreBed::filled().await;
        let (copy, base) = base(&mut bed);
        let uploaded = upload(&bed.store, &copy, base.manifest.clone()).await.unwrap();
        let next = |head: &DbHead| Ok(head.restored(base.era_base(ORIGIN, head.sqlite)));
        bed.hooked.fail(faults.clone());
        uploaded.switch_era(&bed.store, &base.schema_files, next).await.unwrap();
        assert_switched(&mut bed, ORIGIN).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_was_applied_is_recognised_although_a_worker_has_claimed_since() {
    let mut bed = StoreBed::filled().await;
    let (copy, base) = base(&mut bed);
    let uploaded = upload(&bed.store, &copy, base.manifest.clone()).await.unwrap();
    let next = |head: &DbHead| Ok(head.restored(base.era_base(ORIGIN, head.sqlite)));
    bed.hooked.fail([CommitFault::AppliedUnknown]);
    let (store, holder) = (bed.direct.clone(), bed.head.holder.clone().unwrap());
    bed.hooked.before(Call::Commit, 1, async move {
        let head = store.head().await.unwrap().unwrap();
        let claimed = head.claimed(holder, head.sqlite).unwrap();
        store.replace_head(&head, &claimed).await;
    });
    uploaded.switch_era(&bed.store, &base.schema_files, next).await.unwrap();
    assert_eq!(bed.hooked.waiting(), 0);
    assert_switched(&mut bed, ORIGIN).await;
}

#[tokio::test]
async fn of_two_restores_at_the_same_time_the_second_begins_again() {
    let mut bed = StoreBed::filled().await;
    let (copy, base) = base(&mut bed);
    let late = upload(&bed.store, &copy, base.manifest.clone()).await.unwrap();
    switch(&mut bed, ORIGIN).await.unwrap();
    let next = |head: &DbHead| Ok(head.restored(base.era_base(99, head.sqlite)));
    let refused = late.switch_era(&bed.store, &base.schema_files, next).await;
    let is_overtaken = matches!(refused, Err(SwitchError::Publish(PublishError::Overtaken)));
    assert!(is_overtaken, "{refused:?}");
    assert_switched(&mut bed, ORIGIN).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_restore_before_the_outcome_is_known_leaves_it_unknown() {
    let mut bed = StoreBed::filled().await;
    let (copy, base) = base(&mut bed);
    let uploaded = upload(&bed.store, &copy, base.manifest.clone()).await.unwrap();
    let next = |head: &DbHead| Ok(head.restored(base.era_base(ORIGIN, head.sqlite)));
    bed.hooked.fail([CommitFault::AppliedUnknown]);
    let (store, second) = (bed.direct.clone(), base.era_base(99, bed.head.sqlite));
    bed.hooked.before(Call::Commit, 1, async move {
        let head = store.head().await.unwrap().unwrap();
        store.replace_head(&head, &head.restored(second)).await;
    });
    let outcome = uploaded.switch_era(&bed.store, &base.schema_files, next).await;
    let is_unknown = matches!(outcome, Err(SwitchError::Publish(PublishError::Unknown(_))));
    assert!(is_unknown, "{outcome:?}");
}

#[tokio::test]
async fn a_snapshot_that_is_published_meanwhile_makes_a_restore_begin_again() {
    let mut bed = StoreBed::filled().await;
    let (copy, base) = base(&mut bed);
    let late = upload(&bed.store, &copy, base.manifest.clone()).await.unwrap();
    // The restore relies on the chunks that the manifests name, and these have changed.
    bed.snapshot().await;
    let next = |head: &DbHead| Ok(head.restored(base.era_base(ORIGIN, head.sqlite)));
    let refused = late.switch_era(&bed.store, &base.schema_files, next).await;
    assert!(matches!(refused, Err(SwitchError::Publish(PublishError::Overtaken))), "{refused:?}");
    switch(&mut bed, ORIGIN).await.unwrap();
    assert_switched(&mut bed, ORIGIN).await;
}
