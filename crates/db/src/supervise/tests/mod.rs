//! A supervisor on a store in memory, in virtual time. Its workers are cells that the tests write.

mod bed;

use std::time::Duration;

use bed::{Bed, seconds};
use consort_cluster::Ended;

use super::window::encode_count;

#[tokio::test(start_paused = true)]
async fn a_hundred_reads_and_then_silence_scale_from_1_to_5_and_back_to_1() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.pass(5).await;
    assert_eq!(bed.readers().await, 1, "silence opens no window");
    bed.read(100);
    bed.pass(2).await;
    assert_eq!(bed.readers().await, 5);
    bed.staff().await;
    bed.pass(110).await;
    assert_eq!(bed.readers().await, 5, "no shrinking within a window");
    bed.pass(20).await;
    assert_eq!(bed.readers().await, 5, "the last window's count stays");
    bed.pass(110).await;
    assert_eq!(bed.readers().await, 1);
    // The readers with the highest ids went; the first reader stays.
    bed.staff().await;
    assert_eq!(bed.workers().await, [1, 2]);
    bed.pass(300).await;
    assert_eq!(bed.readers().await, 1);
    bed.read(1);
    bed.pass(2).await;
    bed.read(20);
    bed.pass(2).await;
    assert_eq!(bed.readers().await, 2, "the next read opened the next window");
}

#[tokio::test(start_paused = true)]
async fn reads_of_all_processes_count_once_each() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.read(5);
    bed.pass(2).await;
    let window = bed.window().await.counted();
    for _ in 0..2 {
        bed.put(&bed.cells().count(window, 99), &encode_count(30)).await;
        bed.pass(2).await;
        assert_eq!(bed.readers().await, 2, "35 reads");
    }
    bed.read(6);
    bed.pass(2).await;
    assert_eq!(bed.readers().await, 3, "41 reads");
    // A count is gone once no window needs it. The other one was written without an end.
    assert_eq!(bed.keys(&bed.cells().counts(window)).await, 2);
    bed.pass(600).await;
    assert_eq!(bed.keys(&bed.cells().counts(window)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_was_replaced_in_a_window_goes_on_with_it() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.read(50);
    bed.pass(2).await;
    let window = bed.window().await;
    assert_eq!(bed.end_supervisor().await, Ended::Drained);
    bed.read(40);
    bed.pass(10).await;
    assert_eq!(bed.readers().await, 3);
    bed.supervise();
    bed.pass(2).await;
    assert_eq!(bed.readers().await, 5, "90 reads");
    assert_eq!(bed.window().await, window);
}

#[tokio::test(start_paused = true)]
async fn h27_a_leader_keeps_its_slot_and_no_reader_retires_while_none_leads() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.read(100);
    bed.pass(2).await;
    bed.staff().await;
    bed.vacate().await;
    bed.pass(400).await;
    assert_eq!(bed.readers().await, 5, "a worker that is about to lead must not lose its slot");
    let newest = *bed.workers().await.last().unwrap();
    bed.lead(newest).await;
    bed.pass(2).await;
    assert_eq!(bed.readers().await, 1);
    bed.staff().await;
    assert_eq!(bed.workers().await, [1, newest]);
}

#[tokio::test(start_paused = true)]
async fn the_cells_of_dead_workers_are_deleted_and_their_slots_stay() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.worker(7, 1, "gone", 5).await;
    bed.worker(8, 1, "a", 12345).await;
    bed.pass(3).await;
    assert_eq!(bed.workers().await, [1, 2]);
    assert_eq!(bed.readers().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_asked_for_after_64_mib_of_entries() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.append(10, 4 * 1024 * 1024).await;
    bed.pass(30).await;
    assert_eq!(bed.wanted().await.snapshot_behind, None);
    bed.append(1000, 100).await;
    bed.pass(1).await;
    bed.append(7, 4 * 1024 * 1024).await;
    bed.pass(2).await;
    assert_eq!(bed.wanted().await.snapshot_behind, Some(1017));
    // The next ones raise no request that waits.
    bed.append(40, 4 * 1024 * 1024).await;
    bed.pass(30).await;
    assert_eq!(bed.wanted().await.snapshot_behind, Some(1017));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_asked_for_after_200_000_entries_and_not_twice() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.pretend_index(200_000).await;
    bed.pass(2).await;
    assert_eq!(bed.wanted().await.snapshot_behind, Some(200_000));
    bed.pretend_snapshot(200_000).await;
    bed.pass(30).await;
    assert_eq!(bed.wanted().await.snapshot_behind, None);
    bed.pretend_index(399_999).await;
    bed.pass(30).await;
    assert_eq!(bed.wanted().await.snapshot_behind, None);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_an_ended_era_is_taken_back() {
    let bed = Bed::new().await;
    bed.pretend_index(10).await;
    bed.want_snapshot(50).await;
    bed.supervise();
    bed.pass(2).await;
    assert_eq!(bed.wanted().await.snapshot_behind, None);
    bed.want_snapshot(10).await;
    bed.pass(2).await;
    assert_eq!(bed.wanted().await.snapshot_behind, Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_cannot_read_a_cell_gives_its_role_to_a_newer_node() {
    let bed = Bed::new().await;
    bed.supervise();
    bed.put(&bed.cells().window(), b"\x09").await;
    let ended = tokio::time::timeout(seconds(5), bed.supervisor_ends()).await.unwrap();
    let Ended::Yielded { reason } = ended else { panic!("{ended:?}") };
    assert!(reason.contains("upgrade this node"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_look_of_before_the_node_joined_takes_no_worker_for_dead() {
    let bed = Bed::before_join().await;
    bed.supervise();
    bed.pass(5).await;
    assert_eq!(bed.workers().await, [1, 2]);
    assert!(bed.db.view().now().nodes.is_empty());
    assert_eq!(bed.db.view().now().dead.len(), 2);
}

/// The shortest window that a setting allows works as well.
#[tokio::test(start_paused = true)]
async fn windows_of_a_second_scale_too() {
    let bed = Bed::with_window(Duration::from_secs(1)).await;
    bed.supervise();
    bed.read(41);
    bed.pass(1).await;
    assert_eq!(bed.readers().await, 3);
    bed.staff().await;
    bed.pass(5).await;
    assert_eq!(bed.readers().await, 1);
}
