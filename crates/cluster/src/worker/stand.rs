//! Where a fold stands: how far a partition was applied, as the checkpoint and every shard's mark keep it.
//!
//! A [`Stand`] is a place between two frames, with all that is needed to go on from there in the same
//! way: the cursor, what was passed of each producer, and the watermark. A [`Mark`] is a stand and the
//! records of the following frame that were applied as well, so that a frame can be applied in several
//! commits. The [`Checkpoint`] is a stand and the position of the mark that was last left in each shard.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_kernel::{Cursor, Digest, LogEntry, Producer, Timestamp};
use serde::{Deserialize, Serialize};

/// How long, in log time, a producer is remembered after its last frame. A repeat comes while its
/// producer still tries, which is a matter of seconds; this is far beyond.
pub const FORGET_AFTER: Duration = Duration::from_secs(600);

/// A place between two records. Places of one partition are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Grows when an operator decides how to go on after a loss: offsets count anew from there.
    pub era: u64,
    /// The frame.
    pub offset: u64,
    /// The record within the frame.
    pub record: u32,
}

/// What was passed of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The last sequence.
    pub sequence: u64,
    /// The watermark when it was passed, in milliseconds.
    pub seen: u64,
}

/// A place between two frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    /// See [`Position::era`].
    pub era: u64,
    /// The next frame's offset, or a lower one.
    pub next: u64,
    /// Offset and digest of the last frame.
    #[serde(with = "vouched")]
    pub last: Option<(u64, Digest)>,
    /// What was passed of each producer that is remembered.
    pub producers: BTreeMap<u64, Passed>,
    /// The log's time, in milliseconds: no window that ends later may be closed.
    pub watermark: u64,
}

impl Stand {
    /// The stand's place.
    pub fn position(&self) -> Position {
        Position { era: self.era, offset: self.next, record: 0 }
    }

    /// Where to read on.
    pub fn cursor(&self) -> Cursor {
        Cursor { next: self.next, last: self.last }
    }

    /// The log's time.
    pub fn watermark(&self) -> Timestamp {
        Timestamp(self.watermark)
    }

    /// Steps over a frame. False if it is a repeat: its sequence was passed.
    ///
    /// `now` is the store's time: a producer whose clock is ahead does not move the watermark beyond it.
    pub fn pass(&mut self, entry: &LogEntry, now: Timestamp) -> bool {
        let frame = &entry.frame;
        self.next = entry.offset + 1;
        self.last = Some((entry.offset, entry.digest));
        self.watermark = self.watermark.max(frame.time.min(now).0);
        let fresh = !self.has_passed(frame.producer, frame.sequence);
        if fresh {
            let passed = Passed { sequence: frame.sequence, seen: self.watermark };
            self.producers.insert(frame.producer.0, passed);
            let oldest = self.watermark.saturating_sub(FORGET_AFTER.as_millis() as u64);
            self.producers.retain(|_, passed| passed.seen >= oldest);
        }
        fresh
    }

    /// Whether this frame of that producer was passed.
    pub fn has_passed(&self, producer: Producer, sequence: u64) -> bool {
        self.producers.get(&producer.0).is_some_and(|passed| sequence <= passed.sequence)
    }
}

/// How far a shard has applied a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The place between two frames.
    pub stand: Stand,
    /// How many records of the next frame are applied, too.
    pub record: u32,
    /// The digest of that frame, if any of its records are applied.
    #[serde(with = "hex")]
    pub within: Option<Digest>,
}

impl Mark {
    /// Behind a whole frame.
    pub fn at(stand: Stand) -> Self {
        Mark { stand, record: 0, within: None }
    }

    /// Behind the first `record` records of the frame that follows `stand`.
    pub fn inside(stand: Stand, entry: &LogEntry, record: u32) -> Self {
        let stand = Stand { next: entry.offset, ..stand };
        Mark { stand, record, within: Some(entry.digest) }
    }

    /// The mark's place.
    pub fn position(&self) -> Position {
        Position { record: self.record, ..self.stand.position() }
    }

    /// The last frame that was applied, in whole or in part, and its digest.
    pub fn vouched(&self) -> Option<(u64, Digest)> {
        self.within.map(|digest| (self.stand.next, digest)).or(self.stand.last)
    }
}

/// How far a partition's worker has come, with all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Everything before it is applied.
    pub stand: Stand,
    /// The mark it last left in each shard: one found below was rolled back.
    pub marks: BTreeMap<u16, Position>,
}

mod hex {
    //! A digest as text.

    use consort_kernel::Digest;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        digest: &Option<Digest>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        digest.map(|digest| digest.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Digest>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse(&text).ok_or_else(|| D::Error::custom("not a digest"))).transpose()
    }

    pub(super) fn parse(text: &str) -> Option<Digest> {
        let number = u128::from_str_radix(text, 16).ok()?;
        (text.len() == 2 * Digest::LENGTH).then(|| Digest(number.to_be_bytes()))
    }
}

mod vouched {
    //! An offset and a digest as text.

    use consort_kernel::Digest;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        last: &Option<(u64, Digest)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        last.map(|(offset, digest)| (offset, digest.to_string())).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<(u64, Digest)>, D::Error> {
        let last = Option::<(u64, String)>::deserialize(deserializer)?;
        last.map(|(offset, text)| {
            let digest =
                super::hex::parse(&text).ok_or_else(|| D::Error::custom("not a digest"))?;
            Ok((offset, digest))
        })
        .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;
    use consort_kernel::{Frame, FrameKind, Records};

    fn entry(offset: u64, producer: u64, sequence: u64, time: u64) -> LogEntry {
        let frame = Frame {
            kind: FrameKind::Events,
            producer: Producer(producer),
            sequence,
            time: Timestamp(time),
            records: Records::default(),
        };
        LogEntry { offset, digest: Digest::of(&offset.to_be_bytes()), frame }
    }

    const LATE: Timestamp = Timestamp(u64::MAX);

    #[test]
    fn a_repeat_is_known_by_its_producer_and_sequence() {
        let mut stand = Stand::default();
        assert!(stand.pass(&entry(0, 1, 5, 10), LATE));
        assert!(!stand.pass(&entry(1, 1, 5, 10), LATE));
        assert!(!stand.pass(&entry(2, 1, 4, 10), LATE));
        assert!(stand.pass(&entry(3, 2, 4, 10), LATE));
        assert!(stand.pass(&entry(7, 1, 9, 10), LATE));
        assert_eq!(stand.position(), Position { era: 0, offset: 8, record: 0 });
        assert!(stand.has_passed(Producer(1), 9) && !stand.has_passed(Producer(1), 10));
    }

    #[test]
    fn a_producer_is_forgotten_by_log_time() {
        let later = FORGET_AFTER.as_millis() as u64;
        let mut stand = Stand::default();
        stand.pass(&entry(0, 1, 5, 1), LATE);
        stand.pass(&entry(1, 2, 0, 1 + later), LATE);
        assert!(stand.has_passed(Producer(1), 5));
        stand.pass(&entry(2, 2, 1, 2 + later), LATE);
        assert!(!stand.has_passed(Producer(1), 5));
    }

    #[test]
    fn the_watermark_never_falls_and_is_never_ahead_of_the_store() {
        let mut stand = Stand::default();
        for (time, now, expected) in [(10, 100, 10), (7, 100, 10), (500, 100, 100), (90, 90, 100)] {
            let sequence = stand.next;
            stand.pass(&entry(stand.next, 1, sequence, time), Timestamp(now));
            assert_eq!(stand.watermark, expected);
        }
    }

    #[test]
    fn marks_are_ordered_by_era_then_frame_then_record() {
        let first = entry(4, 1, 0, 0);
        let mut stand = Stand::default();
        let within = Mark::inside(stand.clone(), &first, 2);
        let before = Mark::at(stand.clone());
        stand.pass(&first, LATE);
        let behind = Mark::at(stand.clone());
        stand.era = 1;
        stand.next = 0;
        let anew = Mark::at(stand);
        let places = [before, within, behind, anew].map(|mark| mark.position());
        assert!(places.is_sorted() && places[0] < places[3]);
    }

    #[test]
    fn the_stored_form_is_the_same_in_every_release() {
        let mut stand = Stand::default();
        stand.pass(&entry(4, 7, 3, 20), LATE);
        let mark = Mark::inside(stand.clone(), &entry(5, 7, 4, 21), 2);
        let stored = format::encode(&mark);
        let expected = concat!(
            "\u{1}{\"stand\":{\"era\":0,\"next\":5,\"last\":[4,\"DIGEST4\"],",
            "\"producers\":{\"7\":{\"sequence\":3,\"seen\":20}},\"watermark\":20},",
            "\"record\":2,\"within\":\"DIGEST5\"}"
        )
        .replace("DIGEST4", &Digest::of(&4u64.to_be_bytes()).to_string())
        .replace("DIGEST5", &Digest::of(&5u64.to_be_bytes()).to_string());
        assert_eq!(std::str::from_utf8(&stored), Ok(expected.as_str()));
        assert_eq!(format::decode(&stored), Ok(mark));
        let marks = BTreeMap::from([(3, Position { era: 0, offset: 5, record: 2 })]);
        let checkpoint = Checkpoint { stand, marks };
        assert_eq!(format::decode(&format::encode(&checkpoint)), Ok(checkpoint));
    }
}
