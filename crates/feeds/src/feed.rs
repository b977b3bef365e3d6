//! Where a feed begins and ends.

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
}
