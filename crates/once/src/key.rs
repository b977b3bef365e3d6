//! Keys of answers: a space and parts, encoded as a tuple and never concatenated, so that no two lists of
//! parts have one key.

use std::fmt;

use consort_kernel::{Element, Key, Name, Shard, shard_of};
use ring::digest::{Context, SHA256};

/// Parts whose encoding is longer are replaced by their SHA-256. A key stands once more inside the key of
/// each tag's index, where every zero byte takes two, and must still fit the store's bound on keys.
const PLAIN_BYTES: usize = 300;
/// A tag that is longer is replaced by its SHA-256, for the same reason.
const PLAIN_TAG_BYTES: usize = 128;

const ROOT: &str = "once";
/// The element behind the space: parts as they are, or their digest. The two can never be equal.
const PLAIN: u32 = 0;
const DIGEST: u32 = 1;

/// What is asked for: a space, which has its own terms, and the parts that tell its answers apart.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OnceKey {
    space: Name,
    /// `(space, form, parts…)`: unique among all keys of all spaces.
    tuple: Key,
}

impl OnceKey {
    /// The key of `parts` in `space`. `["ab", "c"]` and `["a", "bc"]` are two keys, and so are `["a"]`
    /// and `["a", ""]`.
    pub fn new(space: &Name, parts: &[&[u8]]) -> Self {
        let root = |form: u32| [Element::from(space.as_str()), Element::from(form)];
        // In one go: it is made for every request.
        let elements = parts.iter().map(|part| Element::from(*part));
        let plain = Key::of(root(PLAIN).into_iter().chain(elements));
        if plain.as_bytes().len() <= PLAIN_BYTES {
            return OnceKey { space: space.clone(), tuple: plain };
        }
        let mut digest = Context::new(&SHA256);
        for part in parts {
            digest.update(&(part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let tuple = Key::of(root(DIGEST)).with(digest.finish().as_ref());
        OnceKey { space: space.clone(), tuple }
    }

    /// The space it is in.
    pub fn space(&self) -> &Name {
        &self.space
    }

    /// The encoding, unique among all keys.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.tuple.as_bytes()
    }

    /// The key again, from what [`as_bytes`](Self::as_bytes) gave.
    pub(crate) fn from_bytes(space: &Name, bytes: &[u8]) -> Self {
        OnceKey { space: space.clone(), tuple: Key::from_stored(bytes.to_vec()) }
    }

    /// The shard that keeps everything about this key.
    pub(crate) fn shard(&self, shards: u16) -> Shard {
        shard_of(&self.tuple, shards)
    }

    /// Where its state is.
    pub(crate) fn head(&self) -> Key {
        Key::from([ROOT, "head"]).with(self.tuple.as_bytes())
    }

    /// Where its value is.
    pub(crate) fn body(&self) -> Key {
        Key::from([ROOT, "body"]).with(self.tuple.as_bytes())
    }

    /// Where its shard remembers that it has `tag`.
    pub(crate) fn tagged(&self, tag: &str) -> Key {
        tagged(&self.space, tag).with(self.tuple.as_bytes())
    }
}

/// Every key of `space` that has `tag` is remembered under this.
pub(crate) fn tagged(space: &Name, tag: &str) -> Key {
    Key::from([ROOT, "tagged", space.as_str()]).with(tag_element(tag))
}

/// How many purges by tag a shard has seen of `space`: a counter.
pub(crate) fn purges(space: &Name) -> Key {
    Key::from([ROOT, "purges", space.as_str()])
}

/// The number of the latest purge of a tag that falls into `bucket`.
pub(crate) fn purged(space: &Name, bucket: u32) -> Key {
    Key::from([ROOT, "purged", space.as_str()]).with(bucket)
}

fn tag_element(tag: &str) -> Element {
    if tag.len() <= PLAIN_TAG_BYTES {
        return Element::from(tag);
    }
    Element::from(ring::digest::digest(&SHA256, tag.as_bytes()).as_ref())
}

impl fmt::Debug for OnceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Once{:?}", self.tuple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::limits::KEY_BYTES;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn no_two_lists_of_parts_have_one_key() {
        let long = vec![b'x'; 2000];
        let longer = vec![b'x'; 2001];
        let lists: [&[&[u8]]; 9] = [
            &[],
            &[b""],
            &[b"a"],
            &[b"a", b""],
            &[b"ab", b"c"],
            &[b"a", b"bc"],
            &[&long],
            &[&longer],
            &[&long, b"x"],
        ];
        let keys: Vec<OnceKey> =
            lists.iter().flat_map(|l| ["a", "b"].map(|s| OnceKey::new(&name(s), l))).collect();
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                assert_eq!(a == b, i == j, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn every_key_fits_the_store() {
        let space = name(&"s".repeat(100));
        let zeros = vec![0u8; 5000];
        for length in [0, 50, 90, 98, 99, 100, 150, 300, 5000] {
            let key = OnceKey::new(&space, &[&zeros[..length]]);
            let tag = "\0".repeat(length.min(128));
            for cell in [key.head(), key.body(), key.tagged(&tag), key.tagged(&"t".repeat(9000))] {
                assert!(cell.as_bytes().len() <= KEY_BYTES, "{length}: {}", cell.as_bytes().len());
            }
        }
    }

    #[test]
    fn a_key_is_found_again_by_its_bytes() {
        let key = OnceKey::new(&name("items"), &[b"a\0b", b"c"]);
        assert_eq!(OnceKey::from_bytes(key.space(), key.as_bytes()), key);
    }

    #[test]
    fn the_keys_are_the_same_in_every_release() {
        let key = OnceKey::new(&name("items"), &[b"a"]);
        assert_eq!(key.as_bytes(), b"\x02items\0\x14\x01a\0");
        assert!(format!("{:?}", key.head()).starts_with(r#"Key("once", "head", b"#));
        let long = OnceKey::new(&name("items"), &[&[b'x'; 1000]]);
        assert!(long.as_bytes().starts_with(b"\x02items\0\x15\x01\x01"), "{:?}", long.as_bytes());
    }
}
