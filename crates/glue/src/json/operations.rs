//! Reads the operations of a JSON patch, RFC 6902.
//!
//! The types are those of json-patch. Its own reader would keep the last of two members with one name inside of values.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    TestOperation,
};
use serde_json::{Map, Value};

use super::{read, shown};
use crate::bounds::{MAX_DEPTH, MAX_OPERATIONS};
use crate::{Reason, Rejection};

/// A value stands inside of the list and of its operation. Both are no part of the document, so they do not count.
const WRAPPING_DEPTH: usize = 2;

/// Reads a patch.
pub(super) fn read(piece: &[u8]) -> Result<Vec<PatchOperation>, Rejection> {
    let Value::Array(operations) = read::read(piece, MAX_DEPTH + WRAPPING_DEPTH)? else {
        return Err(Rejection::new(Reason::MALFORMED, "a JSON patch is an array of operations"));
    };
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(Rejection::new(
            Reason::TOO_MANY_OPERATIONS,
            format!("{count} operations, and a piece has at most {MAX_OPERATIONS}"),
        ));
    }
    let read = operations.into_iter().enumerate().map(|(index, operation)| {
        operation_from(operation).map_err(|flaw| {
            Rejection::new(Reason::MALFORMED, format!("operation {index}, counted from 0: {flaw}"))
        })
    });
    read.collect()
}

fn operation_from(operation: Value) -> Result<PatchOperation, String> {
    let Value::Object(mut members) = operation else { return Err("it is no object".to_owned()) };
    let name = text(&mut members, "op")?;
    let path = pointer(&mut members, "path")?;
    Ok(match name.as_str() {
        "add" => PatchOperation::Add(AddOperation { path, value: value(&mut members)? }),
        "remove" => PatchOperation::Remove(RemoveOperation { path }),
        "replace" => {
            PatchOperation::Replace(ReplaceOperation { path, value: value(&mut members)? })
        }
        "move" => {
            PatchOperation::Move(MoveOperation { from: pointer(&mut members, "from")?, path })
        }
        "copy" => {
            PatchOperation::Copy(CopyOperation { from: pointer(&mut members, "from")?, path })
        }
        "test" => PatchOperation::Test(TestOperation { path, value: value(&mut members)? }),
        other => return Err(format!("there is no operation `{}`", shown(other))),
    })
}

fn value(members: &mut Map<String, Value>) -> Result<Value, String> {
    members.remove("value").ok_or_else(|| "`value` is missing".to_owned())
}

fn text(members: &mut Map<String, Value>, name: &str) -> Result<String, String> {
    match members.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{name}` is no text")),
        None => Err(format!("`{name}` is missing")),
    }
}

fn pointer(members: &mut Map<String, Value>, name: &str) -> Result<PointerBuf, String> {
    let text = text(members, name)?;
    PointerBuf::parse(text).map_err(|error| {
        let (_, text) = error.decompose();
        format!("`{name}` is no JSON pointer: \"{}\"", shown(&text))
    })
}
