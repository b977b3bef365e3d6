//! Merge patches, RFC 7396.
//!
//! The size of the result is known before anything changes, so a merge that fails needs no undo. The depth needs no
//! check: every value of the result is as deep as it was in the patch or in the document, and neither is too deep.

use serde_json::{Map, Value};

use super::measure::{commas, name_size, size};
use crate::{Reason, Rejection};

/// Merges a patch into a value of this size, and returns the new size.
pub(super) fn merge(
    root: &mut Value,
    root_size: usize,
    patch: Value,
    max_document: usize,
) -> Result<usize, Rejection> {
    let merged_size = root_size.saturating_add_signed(growth(Some(root), &patch));
    if merged_size > max_document {
        return Err(Rejection::new(
            Reason::TOO_LARGE,
            format!(
                "the document would have {merged_size} bytes, at most {max_document} are allowed"
            ),
        ));
    }
    merge_into(root, patch);
    Ok(merged_size)
}

/// By how many bytes the target would grow.
fn growth(target: Option<&Value>, patch: &Value) -> isize {
    let Value::Object(members) = patch else {
        return signed(size(patch)) - signed(target.map_or(0, size));
    };
    let (object, mut growth) = match target {
        Some(Value::Object(object)) => (Some(object), 0),
        _ => (None, signed("{}".len()) - signed(target.map_or(0, size))),
    };
    let length = object.map_or(0, Map::len);
    let mut merged_length = length;
    for (name, value) in members {
        match (object.and_then(|object| object.get(name)), value) {
            (None, Value::Null) => {}
            (Some(old), Value::Null) => {
                growth -= signed(name_size(name) + size(old));
                merged_length -= 1;
            }
            (Some(old), value) => growth += self::growth(Some(old), value),
            (None, value) => {
                growth += signed(name_size(name)) + self::growth(None, value);
                merged_length += 1;
            }
        }
    }
    growth + signed(commas(merged_length)) - signed(commas(length))
}

/// The algorithm of RFC 7396, section 2.
fn merge_into(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(object) = target else { return };
    for (name, value) in members {
        if value.is_null() {
            object.remove(&name);
        } else if let Some(old) = object.get_mut(&name) {
            merge_into(old, value);
        } else {
            let mut new = Value::Null;
            merge_into(&mut new, value);
            object.insert(name, new);
        }
    }
}

/// A size as a signed number: no size comes near to the range's end.
fn signed(size: usize) -> isize {
    size as isize
}
