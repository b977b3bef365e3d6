//! The stored form of the head.

use bytes::Bytes;
use consort_kernel::Digest;

use super::{DbHead, HeadHolder, HeadState};
use crate::hash::{ContentHash, SchemaChain};
use crate::wire::{DbFormatError, FieldReader, FieldWriter};

pub(crate) const VERSION: u8 = 1;
const LED: u8 = 0;
const VACANT: u8 = 1;
const STOPPED: u8 = 2;

impl DbHead {
    /// The bytes to store. Equal heads have equal bytes, and only they.
    pub fn encode(&self) -> Bytes {
        let mut to = FieldWriter::new(VERSION);
        to.u128(self.database).u64(self.era).u64(self.era_origin).u64(self.epoch);
        match &self.holder {
            None => {
                to.u8(0);
            }
            Some(holder) => {
                to.u8(1).bytes(holder.node.as_bytes()).u64(holder.incarnation);
                to.u16(holder.slot).u64(holder.worker).u64(holder.claim);
            }
        }
        to.u64(self.index);
        match self.digest {
            None => to.u8(0),
            Some(digest) => to.u8(1).raw(&digest.0),
        };
        to.raw(&self.chain.0).u128(self.content.0).u32(self.sqlite);
        match &self.state {
            HeadState::Led => to.u8(LED),
            HeadState::Vacant { successor: None } => to.u8(VACANT).u8(0),
            HeadState::Vacant { successor: Some(worker) } => to.u8(VACANT).u8(1).u64(*worker),
            HeadState::Stopped { reason } => to.u8(STOPPED).bytes(reason.as_bytes()),
        };
        to.finish().into()
    }

    /// Reads the bytes that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DbFormatError> {
        let mut from = FieldReader::new("the head of a database", bytes, VERSION)?;
        let head = DbHead {
            database: from.u128()?,
            era: from.u64()?,
            era_origin: from.u64()?,
            epoch: from.u64()?,
            holder: take_optional(&mut from, take_holder)?,
            index: from.u64()?,
            digest: take_optional(&mut from, |from| from.array().map(Digest))?,
            chain: SchemaChain(from.array()?),
            content: ContentHash(from.u128()?),
            sqlite: from.u32()?,
            state: take_state(&mut from)?,
        };
        from.finish()?;
        Ok(head)
    }
}

fn take_holder(from: &mut FieldReader<'_>) -> Result<HeadHolder, DbFormatError> {
    Ok(HeadHolder {
        node: from.text()?.to_owned(),
        incarnation: from.u64()?,
        slot: from.u16()?,
        worker: from.u64()?,
        claim: from.u64()?,
    })
}

fn take_state(from: &mut FieldReader<'_>) -> Result<HeadState, DbFormatError> {
    Ok(match from.u8()? {
        LED => HeadState::Led,
        VACANT => HeadState::Vacant { successor: take_optional(from, FieldReader::u64)? },
        STOPPED => HeadState::Stopped { reason: from.text()?.to_owned() },
        _ => return Err(from.malformed("its state is none of three")),
    })
}

fn take_optional<'a, T>(
    from: &mut FieldReader<'a>,
    take: impl FnOnce(&mut FieldReader<'a>) -> Result<T, DbFormatError>,
) -> Result<Option<T>, DbFormatError> {
    match from.u8()? {
        0 => Ok(None),
        1 => take(from).map(Some),
        _ => Err(from.malformed("an optional field is neither there nor absent")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::head::tests::{SQLITE, group, led};

    fn heads() -> Vec<DbHead> {
        let written = led(3).advanced(3, &group(1, 6)).unwrap();
        vec![
            DbHead::created(9, 4, SQLITE),
            written.clone(),
            written.vacated(3, None).unwrap(),
            written.vacated(3, Some(8)).unwrap(),
            written.stopped("lost").unwrap(),
        ]
    }

    #[test]
    fn version_1_is_read_in_every_release() {
        let created = b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x04\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x2e\x99\xb1\x01\0";
        assert_eq!(&heads()[0].encode()[..], created);
        let claimed = b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x04\
            \0\0\0\0\0\0\0\x01\x01\0\0\0\x01a\0\0\0\0\0\0\0\x07\0\x02\0\0\0\0\0\0\0\x01\
            \0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x2e\x99\xb1\0";
        assert_eq!(&led(3).encode()[..], claimed);
        assert_eq!(DbHead::decode(claimed), Ok(led(3)));
    }

    #[test]
    fn every_head_is_read_back() {
        for head in heads() {
            assert_eq!(DbHead::decode(&head.encode()), Ok(head));
        }
    }

    #[test]
    fn a_cut_or_later_head_is_refused() {
        for head in heads() {
            let bytes = head.encode();
            for length in 0..bytes.len() {
                assert!(DbHead::decode(&bytes[..length]).is_err(), "{length}");
            }
            let longer = [&bytes[..], b"x"].concat();
            assert!(DbHead::decode(&longer).is_err());
            let later = [b"\x02", &bytes[1..]].concat();
            let error = DbHead::decode(&later).unwrap_err();
            assert!(error.to_string().contains("upgrade this node"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_head_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = DbHead::decode(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Ok(head) = DbHead::decode(&bytes) {
                prop_assert_eq!(&head.encode()[..], &bytes[..]);
            }
        }
    }
}
