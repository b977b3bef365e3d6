//! Fields of stored formats: fixed-width numbers in big-endian order, and byte strings with their length.

/// Why stored bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DbFormatError {
    /// A later release wrote it.
    #[error(
        "{what} has format version {found}, and this release reads version {known}: upgrade this node"
    )]
    Version {
        /// What was read.
        what: &'static str,
        /// The version it has.
        found: u8,
        /// The version that this release reads.
        known: u8,
    },
    /// No release writes this.
    #[error("{what} is damaged: {reason}")]
    Malformed {
        /// What was read.
        what: &'static str,
        /// What does not fit.
        reason: &'static str,
    },
}

/// Appends fields to a byte string.
#[derive(Debug)]
pub(crate) struct FieldWriter {
    bytes: Vec<u8>,
}

impl FieldWriter {
    /// Begins with the format's version.
    pub(crate) fn new(version: u8) -> Self {
        FieldWriter { bytes: vec![version] }
    }

    /// Begins without a version, for a part of a format.
    pub(crate) fn unversioned() -> Self {
        FieldWriter { bytes: Vec::new() }
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub(crate) fn u128(&mut self, value: u128) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// A byte string with its length. Every caller's bound is far below 4 GiB.
    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX)).raw(value)
    }

    /// Bytes without a length: a field of fixed width, or the last one.
    pub(crate) fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes fields from the front of a byte string.
#[derive(Debug)]
pub(crate) struct FieldReader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Checks the version and stands behind it.
    pub(crate) fn new(
        what: &'static str,
        bytes: &'a [u8],
        known: u8,
    ) -> Result<Self, DbFormatError> {
        let mut reader = FieldReader { what, rest: bytes };
        match reader.u8()? {
            found if found == known => Ok(reader),
            found => Err(DbFormatError::Version { what, found, known }),
        }
    }

    /// Reads a part of a format that has no version of its own.
    pub(crate) fn unversioned(what: &'static str, bytes: &'a [u8]) -> Self {
        FieldReader { what, rest: bytes }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DbFormatError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DbFormatError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DbFormatError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DbFormatError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DbFormatError> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DbFormatError> {
        self.array().map(u128::from_be_bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DbFormatError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.is_cut())?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DbFormatError> {
        let length = self.u32()? as usize;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.is_cut())?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DbFormatError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed("a text is not UTF-8"))
    }

    /// Everything that is left.
    pub(crate) fn remainder(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Refuses bytes behind the last field.
    pub(crate) fn finish(self) -> Result<(), DbFormatError> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.malformed("bytes follow its last field")),
        }
    }

    pub(crate) fn malformed(&self, reason: &'static str) -> DbFormatError {
        DbFormatError::Malformed { what: self.what, reason }
    }

    fn is_cut(&self) -> DbFormatError {
        self.malformed("it ends within a field")
    }
}
