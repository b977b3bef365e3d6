//! Takes back operations of a JSON patch.
//!
//! Entries are undone in reverse order. So each finds the tree as its operation left it, and its paths name the same
//! places. An entry that finds something else panics: the tree is damaged then, and the worker drops it.

use std::mem;

use json_patch::jsonptr::{Pointer, PointerBuf};
use serde_json::Value;

use super::tree::{Slot, slot};

/// One operation that was carried out, and the values that it took away.
pub(super) enum Undo {
    /// A value was put at the path. It replaced the value that was there, or it is a new member or element.
    Put { path: PointerBuf, replaced: Option<Value> },
    /// The value at the path was removed.
    Removed { path: PointerBuf, value: Value },
    /// The value at `from` was put at the path.
    Moved { from: PointerBuf, path: PointerBuf, replaced: Option<Value> },
}

impl Undo {
    /// Takes the operation back.
    pub(super) fn revert(self, root: &mut Value) {
        match self {
            Undo::Put { path, replaced } => drop(take_back(root, &path, replaced)),
            Undo::Removed { path, value } => put_back(root, &path, value),
            Undo::Moved { from, path, replaced } => {
                let value = take_back(root, &path, replaced);
                put_back(root, &from, value);
            }
        }
    }
}

/// Puts a removed value back to its place.
pub(super) fn put_back(root: &mut Value, path: &Pointer, value: Value) {
    match slot(root, path) {
        Some(Slot::Member(members, name)) => drop(members.insert(name.into_owned(), value)),
        Some(Slot::Element(elements, index)) => {
            elements.insert(index.for_len_unchecked(elements.len()), value);
        }
        Some(Slot::Root(_)) | None => unreachable!("the value was removed from there"),
    }
}

/// Takes out the value that was put at a path, and puts the one that it replaced in its place.
fn take_back(root: &mut Value, path: &Pointer, replaced: Option<Value>) -> Value {
    let value = match (slot(root, path), replaced) {
        (Some(Slot::Root(root)), Some(old)) => Some(mem::replace(root, old)),
        (Some(Slot::Member(members, name)), Some(old)) => members.insert(name.into_owned(), old),
        (Some(Slot::Member(members, name)), None) => members.remove(name.as_ref()),
        (Some(Slot::Element(elements, index)), Some(old)) => {
            let index = index.for_len_unchecked(elements.len());
            elements.get_mut(index).map(|element| mem::replace(element, old))
        }
        (Some(Slot::Element(elements, index)), None) => {
            // An element that was added as `-` is the last one.
            let last = elements.len().saturating_sub(1);
            Some(elements.remove(index.for_len_unchecked(last)))
        }
        (Some(Slot::Root(_)), None) | (None, _) => None,
    };
    value.unwrap_or_else(|| unreachable!("the value was put there"))
}
