//! The way that cells and entries are packed: bytes, variable-length numbers, and texts behind their length.

use crate::stored::place::PiecePlace;
use crate::{PieceForm, Reason};

/// Why stored bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredFormatError {
    /// A later release wrote them.
    #[error("the format {1} of {0} is unknown: this release reads format {2}")]
    Version(&'static str, u8, u8),
    /// No release writes such bytes.
    #[error("the stored {0} is malformed: {1}")]
    Malformed(&'static str, String),
}

/// Bytes that are being packed.
#[derive(Debug)]
pub(crate) struct Packer(Vec<u8>);

impl Packer {
    /// Begins with the format's version.
    pub(crate) fn new(version: u8) -> Self {
        Packer(vec![version])
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Seven bits a byte, the lowest first; the highest bit says that more follow.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Bytes without their length, at the end.
    pub(crate) fn rest(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn place(&mut self, place: PiecePlace) {
        self.number(place.partition.into());
        self.number(place.era);
        self.number(place.offset);
        self.number(place.record.into());
    }

    pub(crate) fn form(&mut self, form: PieceForm) {
        self.byte(form_code(form));
    }

    pub(crate) fn reason(&mut self, reason: Reason) {
        self.byte(reason.code());
    }

    /// A flag, and the value behind it.
    pub(crate) fn option<T>(&mut self, value: Option<T>, pack: impl FnOnce(&mut Self, T)) {
        self.byte(value.is_some().into());
        if let Some(value) = value {
            pack(self, value);
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Packed bytes that are being read.
#[derive(Debug)]
pub(crate) struct Unpacker<'a> {
    format: &'static str,
    rest: &'a [u8],
}

/// What reading a part gives.
pub(crate) type Unpacked<T> = Result<T, StoredFormatError>;

impl<'a> Unpacker<'a> {
    /// Begins behind the version.
    pub(crate) fn new(format: &'static str, version: u8, bytes: &'a [u8]) -> Unpacked<Self> {
        match bytes.split_first() {
            Some((&found, rest)) if found == version => Ok(Unpacker { format, rest }),
            Some((&found, _)) => Err(StoredFormatError::Version(format, found, version)),
            None => Err(StoredFormatError::Malformed(format, "it is empty".into())),
        }
    }

    pub(crate) fn malformed(&self, detail: &str) -> StoredFormatError {
        StoredFormatError::Malformed(self.format, detail.into())
    }

    pub(crate) fn byte(&mut self) -> Unpacked<u8> {
        let (&byte, rest) =
            self.rest.split_first().ok_or_else(|| self.malformed("it ends early"))?;
        self.rest = rest;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Unpacked<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.malformed("a number has more than 64 bits"))
    }

    pub(crate) fn small(&mut self) -> Unpacked<u32> {
        let number = self.number()?;
        number.try_into().map_err(|_| self.malformed("a number has more than 32 bits"))
    }

    /// How many values follow; at most `most`, so that no length leads to a large allocation.
    pub(crate) fn count(&mut self, most: usize) -> Unpacked<usize> {
        let count = self.number()?;
        let count = usize::try_from(count).ok().filter(|count| *count <= most);
        count.ok_or_else(|| self.malformed("it has too many parts"))
    }

    pub(crate) fn bytes(&mut self) -> Unpacked<&'a [u8]> {
        let length = self.count(self.rest.len())?;
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.malformed("it ends early"));
        };
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Unpacked<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed("a text is not UTF-8"))
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn place(&mut self) -> Unpacked<PiecePlace> {
        Ok(PiecePlace {
            partition: self.small()?,
            era: self.number()?,
            offset: self.number()?,
            record: self.small()?,
        })
    }

    pub(crate) fn form(&mut self) -> Unpacked<PieceForm> {
        let code = self.byte()?;
        let form = PieceForm::ALL.into_iter().find(|form| form_code(*form) == code);
        form.ok_or_else(|| self.malformed("its form is unknown"))
    }

    pub(crate) fn reason(&mut self) -> Unpacked<Reason> {
        let code = self.byte()?;
        Reason::from_code(code).ok_or_else(|| self.malformed("its reason is unknown"))
    }

    pub(crate) fn option<T>(
        &mut self,
        unpack: impl FnOnce(&mut Self) -> Unpacked<T>,
    ) -> Unpacked<Option<T>> {
        match self.byte()? {
            0 => Ok(None),
            1 => unpack(self).map(Some),
            _ => Err(self.malformed("a flag is neither 0 nor 1")),
        }
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&self) -> Unpacked<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed("bytes follow its end")) }
    }
}

/// The stored number of a form.
fn form_code(form: PieceForm) -> u8 {
    match form {
        PieceForm::Whole => 1,
        PieceForm::MergePatch => 2,
        PieceForm::JsonPatch => 3,
        PieceForm::XmlPatch => 4,
        PieceForm::Delete => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_take_as_few_bytes_as_they_need() {
        for (number, length) in [(0, 1), (127, 1), (128, 2), (1 << 53, 8), (u64::MAX, 10)] {
            let mut packer = Packer::new(1);
            packer.number(number);
            let packed = packer.finish();
            assert_eq!(packed.len(), 1 + length, "{number}");
            assert_eq!(Unpacker::new("number", 1, &packed).unwrap().number(), Ok(number));
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        for wrong in [[0xff; 11].as_slice(), &[1, 0x80, 0x80]] {
            assert!(Unpacker::new("number", wrong[0], wrong).unwrap().number().is_err());
        }
    }

    #[test]
    fn a_length_beyond_the_end_allocates_nothing_and_is_refused() {
        let mut packer = Packer::new(1);
        packer.number(u64::MAX);
        let packed = packer.finish();
        assert!(Unpacker::new("text", 1, &packed).unwrap().bytes().is_err());
    }
}
