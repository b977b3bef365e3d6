//! Lets go of entries that no worker needs any more: those before the older snapshot, and the feeds of eras that
//! have ended.

use std::time::Duration;

use consort_kernel::Timestamp;

use super::manifest::{Manifest, trim_before};
use crate::store::{DatabaseStore, DbStoreError};

/// How long the feed of an ended era stays: its entries settle the unknown outcomes of writes (H40).
const KEEP_ENDED_ERA: Duration = Duration::from_secs(3600);
/// Feeds of ended eras that one call trims.
const ERAS_PER_CALL: u64 = 16;

/// What was trimmed so far, as far as this process knows.
#[derive(Clone, Debug, Default)]
pub struct FeedTrimmer {
    /// The present era, and since when it has been seen.
    era: Option<(u64, Timestamp)>,
    /// The first entry that stays in its feed.
    before: u64,
    /// The feeds of eras below this one are trimmed.
    eras_before: u64,
}

/// A feed to trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedTrim {
    /// Its era.
    pub era: u64,
    /// The first entry that stays; the last entry of a feed always does.
    pub before: u64,
}

impl FeedTrimmer {
    /// What to trim now, in the era `era`.
    pub fn due(
        &mut self,
        era: u64,
        manifests: [Option<&Manifest>; 2],
        now: Timestamp,
    ) -> Vec<FeedTrim> {
        let since = match self.era {
            Some((known, since)) if known == era => since,
            _ => {
                self.before = 0;
                self.era = Some((era, now));
                now
            }
        };
        let mut due = Vec::new();
        let before = trim_before(manifests.map(|one| one.filter(|one| one.era == era)));
        due.extend(
            before.filter(|before| *before > self.before).map(|before| FeedTrim { era, before }),
        );
        if now.since(since) >= KEEP_ENDED_ERA {
            let ended = self.eras_before.max(1)..era;
            let trim = |era| FeedTrim { era, before: u64::MAX };
            due.extend(ended.take(ERAS_PER_CALL as usize).map(trim));
        }
        due
    }

    /// A feed was trimmed.
    pub fn trimmed(&mut self, trim: FeedTrim) {
        match self.era {
            Some((era, _)) if era == trim.era => self.before = self.before.max(trim.before),
            _ => self.eras_before = self.eras_before.max(trim.era + 1),
        }
    }
}

/// Trims the feeds of a database in the era `era`.
pub async fn trim(
    store: &DatabaseStore,
    trimmer: &mut FeedTrimmer,
    era: u64,
    manifests: [Option<&Manifest>; 2],
    now: Timestamp,
) -> Result<(), DbStoreError> {
    for due in trimmer.due(era, manifests, now) {
        store.trim(due.era, due.before).await?;
        trimmer.trimmed(due);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{ContentHash, SchemaChain};

    fn manifest(era: u64, index: u64) -> Manifest {
        Manifest {
            era,
            index,
            digest: None,
            chain: SchemaChain::START,
            content: ContentHash::EMPTY,
            sqlite: 0,
            page_bytes: 4096,
            file_bytes: 0,
            chunks: Vec::new(),
        }
    }

    fn due(
        trimmer: &mut FeedTrimmer,
        era: u64,
        at: [Option<(u64, u64)>; 2],
        now: u64,
    ) -> Vec<(u64, u64)> {
        let manifests = at.map(|at| at.map(|(era, index)| manifest(era, index)));
        let due =
            trimmer.due(era, [manifests[0].as_ref(), manifests[1].as_ref()], Timestamp(now * 1000));
        due.iter().for_each(|trim| trimmer.trimmed(*trim));
        due.iter().map(|trim| (trim.era, trim.before)).collect()
    }

    #[test]
    fn h13_each_feed_is_trimmed_once_up_to_the_older_snapshot() {
        let mut trimmer = FeedTrimmer::default();
        let steps = [
            ("no snapshot", 1, [None, None], 0, vec![]),
            ("one snapshot", 1, [Some((1, 5)), None], 10, vec![]),
            ("two", 1, [Some((1, 5)), Some((1, 9))], 20, vec![(1, 4)]),
            ("the same two", 1, [Some((1, 5)), Some((1, 9))], 21, vec![]),
            ("a newer one", 1, [Some((1, 12)), Some((1, 9))], 30, vec![(1, 8)]),
            ("a new era", 2, [Some((2, 0)), None], 40, vec![]),
            ("a snapshot of the old era", 2, [Some((2, 0)), Some((1, 9))], 50, vec![]),
            ("its second snapshot", 2, [Some((2, 0)), Some((2, 7))], 60, vec![]),
            ("an hour later", 2, [Some((2, 9)), Some((2, 7))], 3640, vec![(2, 6), (1, u64::MAX)]),
            ("and no more", 2, [Some((2, 9)), Some((2, 7))], 9999, vec![]),
        ];
        for (what, era, manifests, now, expected) in steps {
            assert_eq!(due(&mut trimmer, era, manifests, now), expected, "{what}");
        }
    }

    #[test]
    fn ended_eras_are_trimmed_a_few_at_a_time() {
        let mut trimmer = FeedTrimmer::default();
        assert_eq!(due(&mut trimmer, 20, [None, None], 0), []);
        let eras = |trims: Vec<(u64, u64)>| trims.iter().map(|(era, _)| *era).collect::<Vec<_>>();
        assert_eq!(eras(due(&mut trimmer, 20, [None, None], 3600)), (1..=16).collect::<Vec<_>>());
        assert_eq!(eras(due(&mut trimmer, 20, [None, None], 3601)), [17, 18, 19]);
        assert_eq!(eras(due(&mut trimmer, 20, [None, None], 3602)), [0; 0]);
    }
}
