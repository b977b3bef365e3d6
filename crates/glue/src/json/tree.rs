//! Finds the places of a tree that JSON pointers name.

use std::borrow::Cow;

use json_patch::jsonptr::index::Index;
use json_patch::jsonptr::{Pointer, Token};
use serde_json::{Map, Value};

use super::shown;
use crate::{Reason, Rejection};

/// A place that a pointer names, whether something is there or not.
pub(super) enum Slot<'v, 'p> {
    /// The whole document.
    Root(&'v mut Value),
    /// A member of an object, by its name.
    Member(&'v mut Map<String, Value>, Cow<'p, str>),
    /// An element of an array.
    Element(&'v mut Vec<Value>, Index),
}

/// The value at a path.
pub(super) fn find<'v>(root: &'v Value, path: &Pointer) -> Option<&'v Value> {
    path.tokens().try_fold(root, |value, token| child(value, &token))
}

/// The place at a path, if there is an array or object around it that can have such a place.
pub(super) fn slot<'v, 'p>(root: &'v mut Value, path: &'p Pointer) -> Option<Slot<'v, 'p>> {
    let Some((parent, last)) = path.split_back() else { return Some(Slot::Root(root)) };
    let parent = parent.tokens().try_fold(root, |value, token| match value {
        Value::Object(members) => members.get_mut(token.decoded().as_ref()),
        Value::Array(elements) => {
            let index = token.to_index().ok()?.for_len(elements.len()).ok()?;
            elements.get_mut(index)
        }
        _ => None,
    })?;
    match parent {
        Value::Object(members) => Some(Slot::Member(members, decoded(path, &last))),
        Value::Array(elements) => Some(Slot::Element(elements, last.to_index().ok()?)),
        _ => None,
    }
}

/// The rejection of an operation whose path names nothing. It tells how far the path leads.
pub(super) fn missing(root: &Value, path: &Pointer) -> Rejection {
    let (mut value, mut reached) = (root, 0);
    let mut name = "";
    for token in path.as_str().split('/').skip(1) {
        name = token;
        let within = Token::from_encoded(token).ok().and_then(|token| child(value, &token));
        let Some(within) = within else { break };
        value = within;
        reached += 1 + token.len();
    }
    let (place, name) = (shown(&path.as_str()[..reached]), shown(name));
    let detail = match value {
        Value::Object(_) => format!("the object at \"{place}\" has no member `{name}`"),
        Value::Array(elements) => {
            let length = elements.len();
            format!("the array at \"{place}\" has {length} elements, `{name}` names none of them")
        }
        _ => format!("the value at \"{place}\" is no array or object, it has no `{name}`"),
    };
    Rejection::new(Reason::MISSING_PATH, detail)
}

fn child<'v>(value: &'v Value, token: &Token<'_>) -> Option<&'v Value> {
    match value {
        Value::Object(members) => members.get(token.decoded().as_ref()),
        Value::Array(elements) => {
            elements.get(token.to_index().ok()?.for_len(elements.len()).ok()?)
        }
        _ => None,
    }
}

/// The name that the last token of a path spells, borrowed from the path unless it has escapes.
fn decoded<'p>(path: &'p Pointer, last: &Token<'p>) -> Cow<'p, str> {
    match last.decoded() {
        Cow::Borrowed(name) => Cow::Borrowed(&path.as_str()[path.len() - name.len()..]),
        Cow::Owned(name) => Cow::Owned(name),
    }
}
