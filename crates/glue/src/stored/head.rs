//! The head of a document: its state without its content, in one small cell.

use bytes::Bytes;
use consort_kernel::Timestamp;

use super::etag::DocumentTag;
use super::outcome::PieceOutcome;
use super::pack::{Packer, StoredFormatError, Unpacked, Unpacker};
use super::place::PiecePlace;
use crate::Reason;
use crate::bounds::{MAX_SKIPPED_RANGES, MAX_SOURCES};

pub(crate) const VERSION: u8 = 1;
const FORMAT: &str = "head";

/// Whether there is a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    /// There never was one, as far as the head remembers.
    #[default]
    Never,
    /// There is one.
    Live,
    /// It was deleted: the head is a tombstone.
    Deleted,
}

/// What happens to new pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentFlow {
    /// They are applied.
    #[default]
    Open,
    /// They are queued until the halting piece is retried or discarded.
    Halted,
    /// Queued pieces are applied before them.
    Releasing,
}

impl DocumentFlow {
    /// Its name in the header `Consort-State` and in lists; an open document is `live`.
    pub fn as_str(self) -> &'static str {
        match self {
            DocumentFlow::Open => "live",
            DocumentFlow::Halted => "halted",
            DocumentFlow::Releasing => "releasing",
        }
    }
}

/// The piece that halted a document, which `retry` and `discard` name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halting {
    /// Where it stands in the log.
    pub place: PiecePlace,
    /// Why the document halted.
    pub cause: HaltCause,
}

/// Why a document halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltCause {
    /// The piece was rejected for this reason.
    Rejected(Reason),
    /// A number is missing: of the source at this index, the one behind its last number.
    Gap {
        /// The index of the source in [`DocumentHead::sources`].
        source: u8,
    },
}

/// The numbers of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceNumbers {
    /// The sender's name.
    pub name: String,
    /// The last number that was used up; 0 if there is none.
    pub last: u64,
    /// How its piece ended, without details.
    pub outcome: Option<PieceOutcome>,
    /// Ranges up to `last` whose numbers never came, first and last number, ascending.
    pub skipped: Vec<(u64, u64)>,
}

/// The head of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentHead {
    /// The place of the piece that created the document, or the deleted document of a tombstone.
    pub life: Option<PiecePlace>,
    /// The number of changes applied to the id, over all lives.
    pub version: u64,
    /// Whether there is a document.
    pub existence: Existence,
    /// What happens to new pieces.
    pub flow: DocumentFlow,
    /// The halting piece of a halted document.
    pub halting: Option<Halting>,
    /// When the last version's piece was appended.
    pub time: Timestamp,
    /// The size of the document in bytes.
    pub size: u64,
    /// The deadline of the document's due cell.
    pub deadline: Option<Timestamp>,
    /// Index in `sources` and number of the piece that made the version, if the piece had them.
    pub current: Option<(u8, u64)>,
    /// The sources, in the order of their first pieces.
    pub sources: Vec<SourceNumbers>,
}

impl DocumentHead {
    /// The most bytes of a head.
    pub const MAX_BYTES: usize = 8 << 10;

    /// Life and version; `None` if the id never had a document.
    pub fn tag(&self) -> Option<DocumentTag> {
        self.life.map(|life| DocumentTag { life, version: self.version })
    }

    /// Source and number of the piece that made the version.
    pub fn current_source(&self) -> Option<(&str, u64)> {
        let (index, seq) = self.current?;
        self.sources.get(usize::from(index)).map(|source| (source.name.as_str(), seq))
    }

    /// The numbers of a source.
    pub fn source(&self, name: &str) -> Option<&SourceNumbers> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// The cell.
    pub fn encode(&self) -> Bytes {
        let mut packer = Packer::new(VERSION);
        packer.byte(match self.existence {
            Existence::Never => 0,
            Existence::Live => 1,
            Existence::Deleted => 2,
        });
        packer.byte(match self.flow {
            DocumentFlow::Open => 0,
            DocumentFlow::Halted => 1,
            DocumentFlow::Releasing => 2,
        });
        packer.option(self.life, Packer::place);
        packer.number(self.version);
        packer.number(self.time.0);
        packer.number(self.size);
        packer.option(self.deadline, |packer, deadline| packer.number(deadline.0));
        packer.option(self.halting, pack_halting);
        packer.option(self.current, |packer, (index, seq)| {
            packer.byte(index);
            packer.number(seq);
        });
        packer.number(self.sources.len() as u64);
        self.sources.iter().for_each(|source| pack_source(&mut packer, source));
        packer.finish().into()
    }

    /// Reads a cell that [`encode`](DocumentHead::encode) wrote.
    pub fn decode(cell: &[u8]) -> Result<Self, StoredFormatError> {
        let mut from = Unpacker::new(FORMAT, VERSION, cell)?;
        let existence = match from.byte()? {
            0 => Existence::Never,
            1 => Existence::Live,
            2 => Existence::Deleted,
            _ => return Err(from.malformed("its existence is unknown")),
        };
        let flow = match from.byte()? {
            0 => DocumentFlow::Open,
            1 => DocumentFlow::Halted,
            2 => DocumentFlow::Releasing,
            _ => return Err(from.malformed("its flow is unknown")),
        };
        let head = DocumentHead {
            existence,
            flow,
            life: from.option(Unpacker::place)?,
            version: from.number()?,
            time: Timestamp(from.number()?),
            size: from.number()?,
            deadline: from.option(|from| from.number().map(Timestamp))?,
            halting: from.option(halting)?,
            current: from.option(|from| Ok((from.byte()?, from.number()?)))?,
            sources: {
                let count = from.count(MAX_SOURCES)?;
                (0..count).map(|_| source(&mut from)).collect::<Unpacked<_>>()?
            },
        };
        from.end()?;
        head.check(&from)?;
        Ok(head)
    }

    /// Checks the parts against each other, so that no later step has to.
    fn check(&self, from: &Unpacker<'_>) -> Unpacked<()> {
        let known = |index: u8| usize::from(index) < self.sources.len();
        let gap_of_no_source = matches!(
            self.halting,
            Some(Halting { cause: HaltCause::Gap { source }, .. }) if !known(source)
        );
        if gap_of_no_source || self.current.is_some_and(|(index, _)| !known(index)) {
            return Err(from.malformed("it names a source that it does not have"));
        }
        if (self.existence == Existence::Never) != self.life.is_none() {
            return Err(from.malformed("a document without a life, or a life without a document"));
        }
        if (self.flow == DocumentFlow::Halted) != self.halting.is_some() {
            return Err(from.malformed("a halt without its piece, or a piece without its halt"));
        }
        Ok(())
    }
}

fn pack_halting(packer: &mut Packer, halting: Halting) {
    packer.place(halting.place);
    match halting.cause {
        HaltCause::Rejected(reason) => {
            packer.byte(1);
            packer.reason(reason);
        }
        HaltCause::Gap { source } => {
            packer.byte(2);
            packer.byte(source);
        }
    }
}

fn halting(from: &mut Unpacker<'_>) -> Unpacked<Halting> {
    let place = from.place()?;
    let cause = match from.byte()? {
        1 => HaltCause::Rejected(from.reason()?),
        2 => HaltCause::Gap { source: from.byte()? },
        _ => return Err(from.malformed("the cause of its halt is unknown")),
    };
    Ok(Halting { place, cause })
}

fn pack_source(packer: &mut Packer, source: &SourceNumbers) {
    packer.text(&source.name);
    packer.number(source.last);
    packer.option(source.outcome.as_ref(), |packer, outcome| outcome.pack(packer));
    packer.number(source.skipped.len() as u64);
    for (first, last) in &source.skipped {
        packer.number(*first);
        packer.number(*last);
    }
}

fn source(from: &mut Unpacker<'_>) -> Unpacked<SourceNumbers> {
    Ok(SourceNumbers {
        name: from.text()?.into(),
        last: from.number()?,
        outcome: from.option(PieceOutcome::unpack)?,
        skipped: {
            let count = from.count(MAX_SKIPPED_RANGES)?;
            (0..count).map(|_| Ok((from.number()?, from.number()?))).collect::<Unpacked<_>>()?
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rejection;

    #[test]
    fn version_1_is_read_in_every_release() {
        let empty = DocumentHead::default();
        assert_eq!(&empty.encode()[..], b"\x01\0\0\0\0\0\0\0\0\0\0");
        let place: PiecePlace = "3-0-9-5".parse().unwrap();
        let head = DocumentHead {
            life: Some(place),
            version: 7,
            existence: Existence::Live,
            flow: DocumentFlow::Halted,
            halting: Some(Halting { place, cause: HaltCause::Gap { source: 0 } }),
            time: Timestamp(300),
            size: 2_048,
            deadline: Some(Timestamp(4)),
            current: Some((0, 3)),
            sources: vec![SourceNumbers {
                name: "epg".into(),
                last: 12,
                outcome: Some(PieceOutcome::Unchanged),
                skipped: vec![(4, 5)],
            }],
        };
        let stored = [
            &b"\x01\x01\x01\x01\x03\x00\x09\x05\x07\xac\x02\x80\x10\x01\x04"[..],
            b"\x01\x03\x00\x09\x05\x02\x00\x01\x00\x03\x01",
            b"\x03epg\x0c\x01\x02\x01\x04\x05",
        ]
        .concat();
        assert_eq!(&head.encode()[..], stored);
        assert_eq!(DocumentHead::decode(&stored), Ok(head));
    }

    #[test]
    fn the_largest_head_keeps_its_bound() {
        let place =
            PiecePlace { partition: u32::MAX, era: u64::MAX, offset: u64::MAX, record: u32::MAX };
        let seq = (1 << 53) - 1;
        let rejection = Rejection::new(Reason::CONDITION_FAILED, "");
        let source = SourceNumbers {
            name: "s".repeat(64),
            last: seq,
            outcome: Some(PieceOutcome::rejected(&rejection, place, seq)),
            skipped: vec![(seq, seq); MAX_SKIPPED_RANGES],
        };
        let head = DocumentHead {
            life: Some(place),
            version: u64::MAX,
            existence: Existence::Live,
            flow: DocumentFlow::Halted,
            halting: Some(Halting { place, cause: HaltCause::Rejected(Reason::LATE) }),
            time: Timestamp(u64::MAX),
            size: u64::MAX,
            deadline: Some(Timestamp(u64::MAX)),
            current: Some((31, seq)),
            sources: vec![source; MAX_SOURCES],
        };
        let stored = head.encode();
        assert!(stored.len() <= DocumentHead::MAX_BYTES, "{}", stored.len());
        assert_eq!(DocumentHead::decode(&stored), Ok(head));
    }

    #[test]
    fn a_head_whose_parts_contradict_each_other_is_refused() {
        let place: PiecePlace = "3-0-9-5".parse().unwrap();
        let halting = Some(Halting { place, cause: HaltCause::Gap { source: 0 } });
        for wrong in [
            DocumentHead { existence: Existence::Live, ..DocumentHead::default() },
            DocumentHead { life: Some(place), ..DocumentHead::default() },
            DocumentHead { flow: DocumentFlow::Halted, ..DocumentHead::default() },
            DocumentHead { flow: DocumentFlow::Halted, halting, ..DocumentHead::default() },
            DocumentHead { current: Some((0, 1)), ..DocumentHead::default() },
        ] {
            assert!(DocumentHead::decode(&wrong.encode()).is_err(), "{wrong:?}");
        }
    }
}
