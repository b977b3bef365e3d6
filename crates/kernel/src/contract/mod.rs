//! The contract suites: what the documentation of [`Log`](crate::Log) and [`Store`](crate::Store)
//! promises, as cases that every engine runs.
//!
//! An engine's tests implement a harness and call [`log_suite!`](crate::log_suite) and
//! [`store_suite!`](crate::store_suite), which hold the whole list of cases: none can be left out. The
//! few things that a contract cannot do to itself, such as losing its tail, are the harness's to do.

mod cells;
pub mod log;
pub mod model;
pub mod store;
pub mod store_cells;
pub mod store_feeds;
pub mod store_limits;
pub mod store_scans;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::{Frame, FrameKind, Log, Name, Partition, Producer, Shard, Store, Timestamp};

/// How long a case waits for what must come. Long: it bounds a hang, and is no measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long a waiting read is watched doing so, before what it waits for is sent.
pub(crate) const A_WHILE: Duration = Duration::from_millis(100);

/// What the log cases need of an engine's tests: a log with no stream in it.
#[async_trait]
pub trait LogHarness: Send + Sync {
    /// The log.
    fn log(&self) -> Arc<dyn Log>;

    /// Makes the engine lose the entries from `from` on; later appends take their numbers. The case holds
    /// no log meanwhile, and asks for it anew: the engine may be closed and opened for it.
    async fn lose_tail(&self, at: &Partition, from: u64);

    /// Flips a bit in the stored frame at `offset`.
    async fn corrupt(&self, at: &Partition, offset: u64);
}

/// What the store cases need of an engine's tests: an empty store of at least two shards.
#[async_trait]
pub trait StoreHarness: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// The store as another node sees it: through a connection of its own, where there are any.
    async fn elsewhere(&self) -> Arc<dyn Store>;

    /// Makes the engine lose a feed's entries from `from` on; later appends take their numbers.
    async fn lose_feed_tail(&self, shard: Shard, feed: &Name, from: u64);
}

/// Runs every case of the `Log` contract as a test of its own: `log_suite!(open().await)`.
#[macro_export]
macro_rules! log_suite {
    ($harness:expr) => {
        $crate::contract_cases! { log, $harness,
            entries_come_back_in_order
            a_frame_comes_back_whole
            partitions_and_streams_are_apart
            an_empty_partition_reads_as_nothing
            a_repeat_after_an_unknown_outcome_is_there_twice_in_order
            overlapping_appends_all_land_once
            frames_appended_together_all_land_but_those_refused
            a_reader_goes_on_behind_its_cursor
            a_read_is_bounded_and_brings_at_least_one
            a_waiting_read_returns_when_a_frame_arrives
            a_waiting_read_ends_with_its_wait
            trimming_moves_the_first_entry_only_forward
            what_was_trimmed_is_told
            a_lost_tail_is_told_by_its_number
            a_lost_tail_that_grew_again_is_told_by_its_digest
            no_entry_below_the_cursor_is_returned
            a_flipped_bit_is_reported_and_never_returned
            the_largest_frame_fits_and_a_larger_one_is_refused
            every_reader_sees_the_same
            a_ping_is_answered
        }
    };
}

/// Runs every case of the `Store` contract as a test of its own: `store_suite!(open().await)`.
#[macro_export]
macro_rules! store_suite {
    ($harness:expr) => {
        $crate::contract_cases! { store, $harness,
            a_cell_holds_what_was_put_until_it_is_deleted
            a_commit_needs_all_its_expectations
            absence_can_be_expected
            a_counter_at_zero_is_not_absent
            operations_are_applied_in_their_order
            kinds_are_apart
            shards_are_apart
            concurrent_committers_never_lose_an_update
            concurrent_additions_all_count
            a_commit_is_seen_by_every_node
            a_watch_wakes_after_a_change
            time_never_goes_backwards
            a_ping_is_answered
        }
        $crate::contract_cases! { store_cells, $harness,
            counters_add_up
            an_addition_that_overflows_is_left_out_and_noted
            extremes_are_decided_by_rank_whoever_writes_first
            sets_hold_each_member_once_in_order
            a_set_keeps_its_members_as_it_grows
            a_distinct_count_counts_each_member_once
            sketches_estimate
            cells_expire_by_the_stores_clock
            a_put_clears_the_expiry
            many_cells_expire_at_once
        }
        $crate::contract_cases! { store_scans, $harness,
            scans_are_ordered_and_paged
            a_scan_takes_whole_elements
            a_scan_of_large_values_ends_its_pages_early
            keys_may_hold_every_byte
        }
        $crate::contract_cases! { store_limits, $harness,
            the_largest_values_fit_and_larger_ones_are_refused
            a_get_of_large_values_ends_early_and_never_calls_an_unread_cell_absent
            the_largest_commit_fits_and_a_larger_one_is_refused
            a_commit_of_all_bytes_is_applied_whole_and_one_byte_more_is_refused
        }
        $crate::contract_cases! { store_feeds, $harness,
            entries_are_numbered_without_gaps
            a_stale_commit_appends_nothing
            an_entry_is_never_seen_before_the_cells_of_its_commit
            feeds_and_shards_are_apart
            a_reader_goes_on_behind_its_cursor
            a_waiting_read_returns_when_an_entry_arrives
            a_waiting_read_ends_with_its_wait
            a_read_is_bounded_and_brings_at_least_one
            trimming_keeps_the_numbers
            a_lost_tail_is_told_by_its_number
            a_lost_tail_that_grew_again_is_told_by_its_digest
            concurrent_appends_leave_no_gap
        }
        $crate::contract_cases! { model, $harness,
            the_engine_agrees_with_the_model
        }
    };
}

/// One test for each case, in a module named after its suite.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    ($suite:ident, $harness:expr, $($case:ident)+) => {
        mod $suite {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let harness = $harness;
                    $crate::contract::$suite::$case(&harness).await;
                }
            )+
        }
    };
}

/// Asks until the answer is yes; panics with `what` when patience ends.
pub async fn eventually<F, Fut>(what: &str, mut ask: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let until = Instant::now() + PATIENCE;
    while !ask().await {
        assert!(Instant::now() < until, "{what}: it never came");
        sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("the suite's own names are valid")
}

pub(crate) fn partition(stream: &str, index: u32) -> Partition {
    Partition::new(name(stream), index)
}

/// A frame of one record, told apart by its producer and sequence.
pub(crate) fn frame(producer: u64, sequence: u64) -> Frame {
    Frame {
        kind: FrameKind::Events,
        producer: Producer(producer),
        sequence,
        time: Timestamp(1_700_000_000_000),
        records: vec![Bytes::from(format!("{producer}-{sequence}"))].into(),
    }
}
