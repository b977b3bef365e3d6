//! The check of what an engine holds against what the hammer told: all that was acknowledged is there,
//! in order; what was tried and not acknowledged is there whole or not at all; and nothing else is.

use std::time::Duration;

use consort_engines::Engine;
use consort_kernel::{Cursor, Digest, FeedEntry, Kind, LogEntry, Most, Shard};

use crate::record::{Reached, Record};
use crate::work::{self, PARTITIONS, SHARDS};

/// Goes on from check to check, so that each looks only at what is new.
#[derive(Debug)]
pub struct Check {
    frame_bytes: u32,
    partitions: Vec<Seen>,
    shards: Vec<(u64, Seen)>,
}

/// What was read of a partition or feed so far.
#[derive(Clone, Debug, Default)]
struct Seen {
    cursor: Cursor,
    digests: Vec<Digest>,
}

impl Seen {
    fn see(&mut self, cursor: Cursor, digest: Digest) {
        self.cursor = cursor;
        self.digests.push(digest);
    }
}

impl Check {
    /// A check of an engine that nothing has worked on, with frames up to about `frame_bytes`.
    pub fn new(frame_bytes: u32) -> Self {
        let partitions = vec![Seen::default(); PARTITIONS as usize];
        let shards = vec![(0, Seen::default()); usize::from(SHARDS)];
        Check { frame_bytes, partitions, shards }
    }

    /// How many frames and commits were found so far.
    pub fn found(&self) -> (usize, u64) {
        let frames = self.partitions.iter().map(|seen| seen.digests.len()).sum();
        (frames, self.shards.iter().map(|(number, _)| number).sum())
    }

    /// Checks what one run of the hammer left behind.
    ///
    /// # Panics
    ///
    /// If the engine holds less, more or something else.
    pub async fn run(&mut self, engine: &Engine, record: &Record) {
        for index in 0..PARTITIONS {
            self.appends(engine, index, record).await;
        }
        for index in 0..SHARDS {
            self.commits(engine, Shard(index), record.commits[usize::from(index)]).await;
        }
    }

    /// Reads everything again from the start: it must be what was read piece by piece.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub async fn whole(&self, engine: &Engine) {
        for (index, seen) in self.partitions.iter().enumerate() {
            let entries = read_log(engine, index as u32, Cursor::START).await;
            let digests: Vec<Digest> = entries.iter().map(|entry| entry.digest).collect();
            assert!(digests == seen.digests, "partition {index} is no longer what it was");
        }
        for (index, (number, seen)) in self.shards.iter().enumerate() {
            let shard = Shard(index as u16);
            let entries = read_feed(engine, shard, Cursor::START).await;
            let digests: Vec<Digest> = entries.iter().map(|entry| entry.digest).collect();
            assert!(digests == seen.digests, "the feed of {shard} is no longer what it was");
            let mut members = Vec::new();
            loop {
                let after = members.last().cloned();
                let (all, _) = work::sets();
                let page = engine.store.members(shard, &all, after.as_deref(), 1_000).await;
                let page = page.expect("members");
                if page.is_empty() {
                    break;
                }
                members.extend(page);
            }
            assert!(members.into_iter().eq((1..=*number).map(work::rank)), "the set of {shard}");
        }
    }

    /// The frames of the run's producer, each sequence once or repeated, from 0 without a gap.
    async fn appends(&mut self, engine: &Engine, index: u32, record: &Record) {
        let seen = &mut self.partitions[index as usize];
        let entries = read_log(engine, index, seen.cursor).await;
        let Some((producer, reached)) = record.appends[index as usize] else {
            assert_eq!(entries, [], "partition {index} has frames that nobody appended");
            return;
        };
        let mut next = 0;
        for entry in &entries {
            let sequence = entry.frame.sequence;
            let repeated = next > 0 && sequence == next - 1;
            assert!(repeated || sequence == next, "partition {index}: {sequence} stands at {next}");
            let written = work::frame(index, producer, sequence, self.frame_bytes);
            assert!(entry.frame == written, "partition {index}: frame {sequence} is another");
            next = sequence + 1;
            seen.see(entry.cursor(), entry.digest);
        }
        let Reached { tried, done } = reached;
        assert!(next >= done, "partition {index}: {done} frames acknowledged, {next} there");
        assert!(next <= tried, "partition {index}: {tried} frames tried, {next} there");
    }

    /// All of a shard's commits up to one number, and nothing of the next.
    async fn commits(&mut self, engine: &Engine, shard: Shard, reached: Option<Reached>) {
        let (before, seen) = &mut self.shards[usize::from(shard.0)];
        let state = engine.store.get(shard, &work::cells()).await.expect("get");
        let number = work::number(state[0].as_ref());
        let Reached { tried, done } = reached.unwrap_or(Reached { tried: *before, done: *before });
        assert!(number >= done, "{shard}: {done} acknowledged, {number} there");
        assert!(number <= tried, "{shard}: {tried} tried, {number} there");
        assert_eq!(state, work::state(shard, number), "{shard}: half of a commit");
        let lately = engine.store.members(shard, &work::sets().1, None, 100).await;
        assert_eq!(lately, Ok(work::lately(number)), "{shard}: half of a commit");
        let trail = engine.store.scan(shard, Kind::Bytes, &work::trail(), None, 10).await;
        let trail: Vec<_> = trail.expect("scan").into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> =
            (number > 0).then(|| work::trail().with(number)).into_iter().collect();
        assert_eq!(trail, expected, "{shard}: half of a commit");

        let mut next = *before;
        for entry in read_feed(engine, shard, seen.cursor).await {
            assert_eq!(entry.number, next, "{shard}: a gap in the feed");
            next += 1;
            assert_eq!(entry.entry, work::text(shard, next), "{shard}: an entry out of place");
            seen.see(entry.cursor(), entry.digest);
        }
        assert_eq!(next, number, "{shard}: the feed is not where the cells are");
        *before = number;
    }
}

async fn read_log(engine: &Engine, index: u32, mut cursor: Cursor) -> Vec<LogEntry> {
    let at = work::partition(index);
    let mut entries: Vec<LogEntry> = Vec::new();
    loop {
        let page = engine.log.read(&at, &cursor, Most::default(), Duration::ZERO).await;
        let page = page.unwrap_or_else(|error| panic!("partition {at}: {error}"));
        let Some(last) = page.last() else { return entries };
        cursor = last.cursor();
        entries.extend(page);
    }
}

async fn read_feed(engine: &Engine, shard: Shard, mut cursor: Cursor) -> Vec<FeedEntry> {
    let feed = work::feed();
    let mut entries: Vec<FeedEntry> = Vec::new();
    loop {
        let page = engine.store.feed(shard, &feed, &cursor, Most::default(), Duration::ZERO).await;
        let page = page.unwrap_or_else(|error| panic!("the feed of {shard}: {error}"));
        let Some(last) = page.last() else { return entries };
        cursor = last.cursor();
        entries.extend(page);
    }
}
