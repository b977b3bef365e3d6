//! Where the cells and feeds of a collection are.
//!
//! The sort of a cell stands before tenant and id, so that no tenant's name collides with it and a listing scans
//! heads alone.

use consort_kernel::{Element, Key, Name, NameError, Shard, Timestamp};

use crate::collection::Collection;

const ROOT: &str = "glue";
const HEAD: &str = "doc";
const BODY: &str = "body";
const PENDING: &str = "pending";
const DUE: &str = "due";
const ID: &str = "id";
const RING: &str = "version";
const COUNT: &str = "count";

/// The keys of one collection.
#[derive(Clone, Debug)]
pub struct CollectionCells {
    heads: Key,
    bodies: Key,
    pending: Key,
    dues: Key,
    ids: Key,
    versions: Key,
    counts: Key,
    stream: Name,
    rejects: Name,
    outcomes: Name,
}

/// A counter of a tenant in a collection. Received pieces are exactly the sum of the next five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TenantCounter {
    /// Pieces that were judged, or wait.
    Received,
    /// Pieces that made a version.
    Applied,
    /// Pieces that came before, and deletes without a document.
    Repeats,
    /// Pieces that were rejected.
    Rejected,
    /// Pieces that wait for a missing number.
    Held,
    /// Pieces that wait behind a halt or a release, the halting one included.
    Queued,
    /// Bytes of documents.
    Bytes,
}

impl TenantCounter {
    /// All counters.
    pub const ALL: [TenantCounter; 7] = [
        TenantCounter::Received,
        TenantCounter::Applied,
        TenantCounter::Repeats,
        TenantCounter::Rejected,
        TenantCounter::Held,
        TenantCounter::Queued,
        TenantCounter::Bytes,
    ];

    /// Its name in keys, answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            TenantCounter::Received => "received",
            TenantCounter::Applied => "applied",
            TenantCounter::Repeats => "repeats",
            TenantCounter::Rejected => "rejected",
            TenantCounter::Held => "held",
            TenantCounter::Queued => "queued",
            TenantCounter::Bytes => "bytes",
        }
    }

    /// The counter of this name.
    pub fn parse(name: &str) -> Option<TenantCounter> {
        TenantCounter::ALL.into_iter().find(|counter| counter.as_str() == name)
    }
}

impl CollectionCells {
    /// The keys of a collection with this name.
    ///
    /// # Errors
    /// If the name is none of a collection.
    pub fn new(collection: &str) -> Result<Self, NameError> {
        let sort = |sort: &str| Key::from([ROOT, collection, sort]);
        Ok(CollectionCells {
            heads: sort(HEAD),
            bodies: sort(BODY),
            pending: sort(PENDING),
            dues: sort(DUE),
            ids: sort(ID),
            versions: sort(RING),
            counts: sort(COUNT),
            stream: Name::new(&format!("{ROOT}.{collection}"))?,
            rejects: Name::new(&format!("{ROOT}.{collection}.rejects"))?,
            outcomes: Name::new(&format!("{ROOT}.{collection}.outcomes"))?,
        })
    }

    /// The shard that keeps all cells of a partition's documents.
    pub fn shard(partition: u32, shards: u16) -> Shard {
        assert!(shards > 0, "a store has at least one shard");
        Shard((partition % u32::from(shards)) as u16)
    }

    /// The stream of pieces, and the feed of rows: both have this name.
    pub fn stream(&self) -> &Name {
        &self.stream
    }

    /// The feed of rows.
    pub fn feed(&self) -> &Name {
        &self.stream
    }

    /// The feed of rejected pieces.
    pub fn rejects(&self) -> &Name {
        &self.rejects
    }

    /// The feed of outcomes.
    pub fn outcomes(&self) -> &Name {
        &self.outcomes
    }

    /// The head of a document.
    pub fn head(&self, tenant: &str, id: &str) -> Key {
        document(&self.heads, tenant, id)
    }

    /// The prefix of all heads. With [`heads_of`](CollectionCells::heads_of) for one tenant.
    pub fn heads(&self) -> &Key {
        &self.heads
    }

    /// The prefix of a tenant's heads.
    pub fn heads_of(&self, tenant: &str) -> Key {
        self.heads.with(tenant)
    }

    /// Tenant and id of a head's key.
    pub fn head_subject(&self, key: &Key) -> Option<(String, String)> {
        let elements = key.starts_with(&self.heads).then(|| key.elements().ok())??;
        match <[Element; 5]>::try_from(elements).ok()? {
            [_, _, _, Element::Text(tenant), Element::Text(id)] => Some((tenant, id)),
            _ => None,
        }
    }

    /// The document itself.
    pub fn body(&self, tenant: &str, id: &str) -> Key {
        document(&self.bodies, tenant, id)
    }

    /// The pieces that wait for a document.
    pub fn pending(&self, tenant: &str, id: &str) -> Key {
        document(&self.pending, tenant, id)
    }

    /// The prefix of all deadlines. A scan gives the earliest first.
    pub fn dues(&self) -> &Key {
        &self.dues
    }

    /// A deadline of a document.
    pub fn due(&self, deadline: Timestamp, tenant: &str, id: &str) -> Key {
        self.dues.extended([deadline.0.into(), tenant.into(), id.into()])
    }

    /// The deadline in the key of a due cell.
    pub fn deadline(&self, key: &Key) -> Option<Timestamp> {
        let elements = key.starts_with(&self.dues).then(|| key.elements().ok())??;
        match elements.get(3)? {
            Element::Number(deadline) => u64::try_from(*deadline).ok().map(Timestamp),
            _ => None,
        }
    }

    /// The prefix of a partition's idempotency keys. A scan gives the oldest bucket first.
    pub fn ids(&self, partition: u32) -> Key {
        self.ids.with(partition)
    }

    /// An idempotency key in one bucket of time.
    pub fn id(&self, partition: u32, bucket: u64, tenant: &str, id: &str, key: &str) -> Key {
        let elements = [partition.into(), bucket.into(), tenant.into(), id.into(), key.into()];
        self.ids.extended(elements)
    }

    /// The slot of a version in the ring of its document.
    pub fn version(&self, tenant: &str, id: &str, slot: u64) -> Key {
        self.versions.extended([tenant.into(), id.into(), slot.into()])
    }

    /// A counter of a tenant.
    pub fn count(&self, tenant: &str, counter: TenantCounter) -> Key {
        self.counts.extended([tenant.into(), counter.as_str().into()])
    }

    /// The prefix of all counters.
    pub fn counts(&self) -> &Key {
        &self.counts
    }

    /// Tenant and counter of a counter's key.
    pub fn count_subject(&self, key: &Key) -> Option<(String, TenantCounter)> {
        let elements = key.starts_with(&self.counts).then(|| key.elements().ok())??;
        match <[Element; 5]>::try_from(elements).ok()? {
            [_, _, _, Element::Text(tenant), Element::Text(name)] => {
                Some((tenant, TenantCounter::parse(&name)?))
            }
            _ => None,
        }
    }
}

/// The key that picks the partition of a document: by `partition_of` of the kernel.
pub fn partition_key(tenant: &str, id: &str) -> Key {
    Key::from([tenant, id])
}

impl Collection {
    /// The bucket of time that an idempotency key of a frame of this time is kept in.
    pub fn id_bucket(&self, time: Timestamp) -> u64 {
        let lifetime = u64::try_from(self.ids_for.as_millis()).unwrap_or(u64::MAX);
        time.0 / lifetime.max(1)
    }
}

fn document(prefix: &Key, tenant: &str, id: &str) -> Key {
    prefix.extended([tenant.into(), id.into()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::limits::KEY_BYTES;

    fn cells() -> CollectionCells {
        CollectionCells::new("content").unwrap()
    }

    #[test]
    fn the_keys_are_the_same_in_every_release() {
        let cells = cells();
        let keys = [
            (cells.head("a", "i"), r#"Key("glue", "content", "doc", "a", "i")"#),
            (cells.body("a", "i"), r#"Key("glue", "content", "body", "a", "i")"#),
            (cells.pending("a", "i"), r#"Key("glue", "content", "pending", "a", "i")"#),
            (cells.due(Timestamp(7), "a", "i"), r#"Key("glue", "content", "due", 7, "a", "i")"#),
            (cells.id(3, 9, "a", "i", "k"), r#"Key("glue", "content", "id", 3, 9, "a", "i", "k")"#),
            (cells.version("a", "i", 4), r#"Key("glue", "content", "version", "a", "i", 4)"#),
            (
                cells.count("a", TenantCounter::Held),
                r#"Key("glue", "content", "count", "a", "held")"#,
            ),
        ];
        for (key, expected) in keys {
            assert_eq!(format!("{key:?}"), expected);
        }
        assert_eq!(cells.stream().as_str(), "glue.content");
        assert_eq!(cells.rejects().as_str(), "glue.content.rejects");
        assert_eq!(cells.outcomes().as_str(), "glue.content.outcomes");
    }

    #[test]
    fn keys_tell_what_they_are_about() {
        let cells = cells();
        let subject = Some(("a".to_owned(), "i".to_owned()));
        assert_eq!(cells.head_subject(&cells.head("a", "i")), subject);
        assert_eq!(cells.head_subject(&cells.body("a", "i")), None);
        let count = cells.count("a", TenantCounter::Bytes);
        assert_eq!(cells.count_subject(&count), Some(("a".into(), TenantCounter::Bytes)));
        let due = cells.due(Timestamp(7), "a", "i");
        assert_eq!(cells.deadline(&due), Some(Timestamp(7)));
        assert!(cells.due(Timestamp(8), "", "") > due, "the earliest deadline comes first");
    }

    #[test]
    fn the_longest_names_fit_a_key() {
        let cells = CollectionCells::new(&"c".repeat(80)).unwrap();
        let (tenant, id, key) = ("t".repeat(64), "i".repeat(512), "k".repeat(255));
        let longest = cells.id(u32::MAX, u64::MAX, &tenant, &id, &key);
        assert!(longest.as_bytes().len() <= KEY_BYTES, "{}", longest.as_bytes().len());
    }

    #[test]
    fn the_partition_picks_the_shard() {
        assert_eq!([0, 5, 16, 37].map(|n| CollectionCells::shard(n, 16).0), [0, 5, 0, 5]);
    }
}
