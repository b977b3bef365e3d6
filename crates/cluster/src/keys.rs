//! Where the cluster's cells are: one room of keys in shard 0, so that one commit can change any of them
//! together and one scan shows them all.

use consort_kernel::{Cell, Element, Key, Kind, Shard};

use crate::role::Role;

/// The shard that keeps the cluster's cells: the one whose clock is the store's.
pub const SHARD: Shard = Shard(0);

const ROOT: &str = "cluster";
const NODE: &str = "node";
const LEASE: &str = "lease";
const DRAIN: &str = "drain";
const REFUSAL: &str = "refusal";
const REPORT: &str = "report";
const NEWS: &str = "news";
const SCALE: &str = "scale";

/// What a cell of the cluster is about, read back from its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The member cell of a node.
    Member(String),
    /// The lease of a role.
    Lease(Role),
    /// That a node is to retire.
    Drain(String),
    /// That a node gave a role up.
    Refusal(Role, String),
    /// What a node's roles say.
    Report(String),
    /// That something changed.
    News,
    /// How many nodes the cluster wants.
    Scale,
}

/// Every cluster cell begins with this.
pub fn root() -> Key {
    Key::from([ROOT])
}

/// The member cell of node `id`.
pub fn member(id: &str) -> Key {
    Key::from([ROOT, NODE, id])
}

/// The lease of `role`.
pub fn lease(role: &Role) -> Key {
    role.key(&Key::from([ROOT, LEASE]))
}

/// That node `id` is to retire.
pub fn drain(id: &str) -> Key {
    Key::from([ROOT, DRAIN, id])
}

/// That node `id` gave `role` up.
pub fn refusal(role: &Role, id: &str) -> Key {
    role.key(&Key::from([ROOT, REFUSAL])).with(id)
}

/// What the roles of node `id` say.
pub fn report(id: &str) -> Key {
    Key::from([ROOT, REPORT, id])
}

/// Put by whatever others should look at, so that one watch wakes all nodes.
pub fn news() -> Key {
    Key::from([ROOT, NEWS])
}

/// How many nodes the cluster wants, and why.
pub fn scale() -> Key {
    Key::from([ROOT, SCALE])
}

/// The bytes cell under `key`: all cluster cells are of this kind.
pub fn cell(key: Key) -> Cell {
    Cell::new(Kind::Bytes, key)
}

/// What the cell under `key` is about; `None` if this release knows no such cell.
pub fn subject(key: &Key) -> Option<Subject> {
    let mut texts = Vec::new();
    for element in key.elements().ok()? {
        match element {
            Element::Text(text) => texts.push(text),
            Element::Bytes(_) | Element::Number(_) => return None,
        }
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    match texts[..] {
        [ROOT, NODE, id] => Some(Subject::Member(id.into())),
        [ROOT, LEASE, kind, name] => Some(Subject::Lease(role(kind, name)?)),
        [ROOT, DRAIN, id] => Some(Subject::Drain(id.into())),
        [ROOT, REFUSAL, kind, name, id] => Some(Subject::Refusal(role(kind, name)?, id.into())),
        [ROOT, REPORT, id] => Some(Subject::Report(id.into())),
        [ROOT, NEWS] => Some(Subject::News),
        [ROOT, SCALE] => Some(Subject::Scale),
        _ => None,
    }
}

fn role(kind: &str, name: &str) -> Option<Role> {
    (!kind.is_empty() && !kind.contains(':')).then(|| Role::new(kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_what_its_cell_is_about() {
        let role = Role::new("worker", "rides:x/7");
        let cases = [
            (member("a"), Subject::Member("a".into())),
            (lease(&role), Subject::Lease(role.clone())),
            (drain("a"), Subject::Drain("a".into())),
            (refusal(&role, "a"), Subject::Refusal(role.clone(), "a".into())),
            (report("a"), Subject::Report("a".into())),
            (news(), Subject::News),
            (scale(), Subject::Scale),
        ];
        for (key, expected) in cases {
            assert!(key.starts_with(&root()), "{key:?}");
            assert_eq!(subject(&key), Some(expected), "{key:?}");
        }
    }

    #[test]
    fn the_keys_are_the_same_in_every_release() {
        let role = Role::new("worker", "rides/7");
        assert_eq!(format!("{:?}", member("a")), r#"Key("cluster", "node", "a")"#);
        assert_eq!(
            format!("{:?}", lease(&role)),
            r#"Key("cluster", "lease", "worker", "rides/7")"#
        );
        assert_eq!(format!("{:?}", drain("a")), r#"Key("cluster", "drain", "a")"#);
        assert_eq!(
            format!("{:?}", refusal(&role, "a")),
            r#"Key("cluster", "refusal", "worker", "rides/7", "a")"#
        );
        assert_eq!(format!("{:?}", report("a")), r#"Key("cluster", "report", "a")"#);
        assert_eq!(format!("{:?}", news()), r#"Key("cluster", "news")"#);
        assert_eq!(format!("{:?}", scale()), r#"Key("cluster", "scale")"#);
    }

    #[test]
    fn a_key_of_another_release_is_about_nothing() {
        let unknown = [
            root(),
            Key::from(["cluster", "vote", "a"]),
            Key::from(["cluster", "lease", "worker"]),
            Key::from(["cluster", "lease", "a:b", "c"]),
            Key::from(["cluster", "node"]).with(7u64),
            Key::from_stored(&b"\xfe"[..]),
        ];
        for key in unknown {
            assert_eq!(subject(&key), None, "{key:?}");
        }
    }
}
