//! Where a feed begins and ends, and about how large it is.

use std::ops::Range;
use std::time::Duration;

use consort_kernel::{Cursor, Most, Name, ReadError, Shard, Store};

/// The oldest entry that can be read; of an empty feed, the first that will be.
pub(crate) async fn first(store: &dyn Store, shard: Shard, feed: &Name) -> Result<u64, ReadError> {
    let read = store.feed(shard, feed, &Cursor::START, Most::entries(1), Duration::ZERO).await;
    match read {
        Ok(_) => Ok(0),
        Err(ReadError::Trimmed { first, .. }) => Ok(first),
        Err(error) => Err(error),
    }
}

/// The number that the next entry will have. `from` is one that is not beyond it and can be read: the search
/// takes two steps for each doubling of what lies between.
pub(crate) async fn end(
    store: &dyn Store,
    shard: Shard,
    feed: &Name,
    from: u64,
) -> Result<u64, ReadError> {
    // Below `low` all numbers are taken; from `high` on none is.
    let (mut low, mut step) = (from, 1);
    let mut high = loop {
        let probe = low + step - 1;
        if !is_taken(store, shard, feed, probe).await? {
            break probe;
        }
        low = probe + 1;
        step *= 2;
    };
    while low < high {
        let middle = low + (high - low) / 2;
        match is_taken(store, shard, feed, middle).await? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

async fn is_taken(
    store: &dyn Store,
    shard: Shard,
    feed: &Name,
    number: u64,
) -> Result<bool, ReadError> {
    let most = Most { entries: 1, bytes: 1 };
    let read = store.feed(shard, feed, &Cursor::at(number), most, Duration::ZERO).await;
    match read {
        Ok(entries) => Ok(!entries.is_empty()),
        // It was there before somebody trimmed it.
        Err(ReadError::Trimmed { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Places of a feed at which its entries are sampled, and the entries that are read at each. Up to 256 new
/// entries are read and counted exactly.
const PLACES: u64 = 16;
const AT_EACH: Most = Most { entries: 16, bytes: 64 * 1024 };

/// About how many bytes these entries have, by a sample that is bounded whatever their number: the mean of
/// the sample times their number.
pub(crate) async fn estimate(
    store: &dyn Store,
    shard: Shard,
    feed: &Name,
    entries: Range<u64>,
) -> Result<u64, ReadError> {
    let all = entries.end.saturating_sub(entries.start);
    let (mut read, mut bytes) = (0_u64, 0_u64);
    let mut next = entries.start;
    for place in 0..PLACES {
        let from = u128::from(all) * u128::from(place) / u128::from(PLACES);
        // Not a second time where the places are close together.
        next = next.max(entries.start + u64::try_from(from).unwrap_or(all));
        if next >= entries.end {
            break;
        }
        let most = Most { entries: AT_EACH.entries.min((entries.end - next) as usize), ..AT_EACH };
        let page = store.feed(shard, feed, &Cursor::at(next), most, Duration::ZERO).await?;
        read += page.len() as u64;
        bytes += page.iter().map(|entry| entry.entry.len() as u64).sum::<u64>();
        next = page.last().map_or(next, |last| last.number + 1);
    }
    let estimate = u128::from(bytes) * u128::from(all) / u128::from(read.max(1));
    Ok(u64::try_from(estimate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use consort_kernel::{Commit, Note, Operation, SystemClock, memory};
    use std::sync::Arc;

    #[tokio::test]
    async fn both_ends_of_a_feed_are_found() {
        let (_, store) = memory::open(1, Arc::new(SystemClock::default()));
        let (shard, feed) = (Shard(0), Name::new("rows.v").unwrap());
        for length in 0..40_u64 {
            for from in 0..=length {
                assert_eq!(end(&store, shard, &feed, from).await, Ok(length));
            }
            let note = Note { feed: feed.clone(), entry: Bytes::from_static(b"x") };
            store.commit(shard, Commit::of([Operation::Append(note)])).await.unwrap();
        }
        assert_eq!(first(&store, shard, &feed).await, Ok(0));
        store.trim_feed(shard, &feed, 33).await.unwrap();
        assert_eq!(first(&store, shard, &feed).await, Ok(33));
        assert_eq!(end(&store, shard, &feed, 33).await, Ok(40));
        assert_eq!(end(&store, shard, &feed, 0).await, Ok(40));
    }

    #[tokio::test]
    async fn the_size_of_a_feed_is_told_by_a_sample() {
        let (_, store) = memory::open(1, Arc::new(SystemClock::default()));
        let (shard, feed) = (Shard(0), Name::new("rows.v").unwrap());
        // Every tenth entry has 1,010 bytes, and the others have 10.
        let entry = |n: u64| Bytes::from(vec![b'x'; if n % 10 == 9 { 1_010 } else { 10 }]);
        for commit in 0..10 {
            let notes = (0..1_000).map(|n| Note { feed: feed.clone(), entry: entry(commit + n) });
            store.commit(shard, Commit::of(notes.map(Operation::Append))).await.unwrap();
        }
        for (entries, exact) in
            [(0..0, 0), (5..5, 0), (0..9, 90), (0..100, 11_000), (7..250, 27_430)]
        {
            assert_eq!(
                estimate(&store, shard, &feed, entries.clone()).await,
                Ok(exact),
                "{entries:?}"
            );
        }
        let all = estimate(&store, shard, &feed, 0..10_000).await.unwrap();
        assert!((900_000..1_300_000).contains(&all), "{all} of 1,100,000");
    }
}
