//! The two hashes of a database: the chain over its schema changes, and the sum over its contents.

use std::fmt;

use ring::digest::{SHA256, digest};
use xxhash_rust::xxh3::xxh3_128;

/// SHA-256 over all texts of DDL so far, each hashed with the chain before it. It does not depend on how
/// a version of SQLite rewrites the texts that it stores. SHA-256 because users choose the texts (H39).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SchemaChain(pub [u8; SchemaChain::LENGTH]);

impl SchemaChain {
    /// Bytes in a chain.
    pub const LENGTH: usize = 32;
    /// The chain of an empty database.
    pub const START: SchemaChain = SchemaChain([0; SchemaChain::LENGTH]);

    /// The chain after one more statement.
    #[must_use]
    pub fn then(self, ddl: &str) -> Self {
        let mut text = self.0.to_vec();
        text.extend_from_slice(ddl.as_bytes());
        let mut chain = [0; SchemaChain::LENGTH];
        chain.copy_from_slice(digest(&SHA256, &text).as_ref());
        SchemaChain(chain)
    }
}

impl fmt::Display for SchemaChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SchemaChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SchemaChain({self})")
    }
}

/// The sum, modulo 2^128, of a hash of every cell of every replicated table. The order of rows does not
/// matter, so a leader updates the sum by the cells that a changeset names. It serves against accidents,
/// such as a row that a capture missed, and not against forgery.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ContentHash(pub u128);

impl ContentHash {
    /// The content of a database without rows.
    pub const EMPTY: ContentHash = ContentHash(0);

    /// Adds a cell.
    pub fn add(&mut self, row: RowKeyHash, column: u16, value: HashedValue<'_>) {
        self.0 = self.0.wrapping_add(row.cell(column, value));
    }

    /// Takes a cell away.
    pub fn remove(&mut self, row: RowKeyHash, column: u16, value: HashedValue<'_>) {
        self.0 = self.0.wrapping_sub(row.cell(column, value));
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// A value of SQLite, as it is hashed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HashedValue<'a> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// A text, in the bytes that are stored; they need not be UTF-8.
    Text(&'a [u8]),
    /// A blob.
    Blob(&'a [u8]),
}

/// The hash of a row's table and primary key: the beginning of the hash of each of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKeyHash(u128);

impl RowKeyHash {
    /// The row of `table` with this primary key.
    pub fn new<'a>(table: &str, key: impl IntoIterator<Item = HashedValue<'a>>) -> Self {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(table.as_bytes());
        bytes.push(0);
        key.into_iter().for_each(|value| put_value(&mut bytes, value));
        RowKeyHash(xxh3_128(&bytes))
    }

    fn cell(self, column: u16, value: HashedValue<'_>) -> u128 {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&self.0.to_be_bytes());
        bytes.extend_from_slice(&column.to_be_bytes());
        put_value(&mut bytes, value);
        xxh3_128(&bytes)
    }
}

/// SQLite stores a real that is a whole number as an integer and may hand it out as either, so both are
/// hashed alike; that includes −0.0, which it stores as 0.
fn put_value(bytes: &mut Vec<u8>, value: HashedValue<'_>) {
    match value {
        HashedValue::Null => bytes.push(0),
        HashedValue::Integer(number) => put_integer(bytes, number),
        HashedValue::Real(real) => match whole(real) {
            Some(number) => put_integer(bytes, number),
            None => {
                bytes.push(2);
                bytes.extend_from_slice(&real.to_bits().to_be_bytes());
            }
        },
        HashedValue::Text(text) => put_string(bytes, 3, text),
        HashedValue::Blob(blob) => put_string(bytes, 4, blob),
    }
}

fn put_integer(bytes: &mut Vec<u8>, number: i64) {
    bytes.push(1);
    bytes.extend_from_slice(&number.to_be_bytes());
}

fn put_string(bytes: &mut Vec<u8>, tag: u8, string: &[u8]) {
    bytes.push(tag);
    bytes.extend_from_slice(&(string.len() as u64).to_be_bytes());
    bytes.extend_from_slice(string);
}

/// The integer equal to `real`, if there is one. 2^63 itself is the first that does not fit.
fn whole(real: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let fits = real.fract() == 0.0 && (-LIMIT..LIMIT).contains(&real);
    fits.then_some(real as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: i64) -> RowKeyHash {
        RowKeyHash::new("t", [HashedValue::Integer(n)])
    }

    #[test]
    fn both_hashes_are_the_same_in_every_release() {
        let chain = SchemaChain::START.then("CREATE TABLE t (a)").then("DROP TABLE t");
        assert_eq!(chain.to_string(), "c5d054fe892313ef");
        let mut content = ContentHash::EMPTY;
        content.add(row(1), 0, HashedValue::Integer(1));
        content.add(row(1), 1, HashedValue::Text(b"ann"));
        content.add(row(1), 2, HashedValue::Real(0.5));
        content.add(row(1), 3, HashedValue::Blob(b"\0"));
        content.add(row(1), 4, HashedValue::Null);
        assert_eq!(content.to_string(), "331b2b54828ae7c0b8b408c82ba40b15");
    }

    #[test]
    fn the_chain_tells_apart_order_and_borders_of_texts() {
        let chain = |texts: &[&str]| texts.iter().fold(SchemaChain::START, |c, t| c.then(t));
        assert_ne!(chain(&["a", "b"]), chain(&["b", "a"]));
        assert_ne!(chain(&["ab"]), chain(&["a", "b"]));
        assert_ne!(chain(&[""]), SchemaChain::START);
    }

    #[test]
    fn the_content_hash_does_not_know_the_order_in_which_rows_came() {
        let (mut a, mut b) = (ContentHash::EMPTY, ContentHash::EMPTY);
        for n in 0..5 {
            a.add(row(n), 0, HashedValue::Integer(n));
            b.add(row(4 - n), 0, HashedValue::Integer(4 - n));
        }
        assert_eq!(a, b);
        b.remove(row(2), 0, HashedValue::Integer(2));
        assert_ne!(a, b);
        b.add(row(2), 0, HashedValue::Integer(3));
        assert_ne!(a, b);
    }

    #[test]
    fn values_that_differ_have_hashes_that_differ() {
        let values = [
            HashedValue::Null,
            HashedValue::Integer(0),
            HashedValue::Integer(1),
            HashedValue::Real(0.5),
            HashedValue::Real(f64::INFINITY),
            HashedValue::Real(f64::NEG_INFINITY),
            HashedValue::Text(b""),
            HashedValue::Blob(b""),
            HashedValue::Text(b"1"),
            HashedValue::Text(b"\xff"),
            HashedValue::Blob(b"1"),
        ];
        for (n, a) in values.iter().enumerate() {
            for b in &values[n + 1..] {
                assert_ne!(row(0).cell(0, *a), row(0).cell(0, *b), "{a:?} {b:?}");
            }
        }
        assert_ne!(row(0).cell(0, values[0]), row(0).cell(1, values[0]));
        assert_ne!(row(0).cell(0, values[0]), row(1).cell(0, values[0]));
    }

    #[test]
    fn a_whole_real_is_the_integer_that_sqlite_stores() {
        for (real, integer) in [(1.0, 1), (-0.0, 0), (-9_223_372_036_854_775_808.0, i64::MIN)] {
            let (real, integer) = (HashedValue::Real(real), HashedValue::Integer(integer));
            assert_eq!(row(0).cell(0, real), row(0).cell(0, integer));
        }
        assert_eq!(whole(9_223_372_036_854_775_808.0), None);
        assert_eq!(whole(f64::NAN), None);
    }
}
