//! Reads the operations of a JSON patch, RFC 6902.
//!
//! The types are those of json-patch. Its own reader would keep the last of two members with one name inside of values.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    TestOperation,
};
use serde_json::Value;

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
    let Value::Object(members) = operation else { return Err("it is no object".to_owned()) };
    let (mut name, mut path, mut from, mut value) = (None, None, None, None);
    for (member, content) in members {
        match member.as_str() {
            "op" => name = Some(content),
            "path" => path = Some(content),
            "from" => from = Some(content),
            "value" => value = Some(content),
            _ => {}
        }
    }
    let name = text("op", name)?;
    let path = pointer("path", path)?;
    let value = || value.ok_or_else(|| missing("value"));
    Ok(match name.as_str() {
        "add" => PatchOperation::Add(AddOperation { path, value: value()? }),
        "remove" => PatchOperation::Remove(RemoveOperation { path }),
        "replace" => PatchOperation::Replace(ReplaceOperation { path, value: value()? }),
        "move" => PatchOperation::Move(MoveOperation { from: pointer("from", from)?, path }),
        "copy" => PatchOperation::Copy(CopyOperation { from: pointer("from", from)?, path }),
        "test" => PatchOperation::Test(TestOperation { path, value: value()? }),
        other => return Err(format!("there is no operation `{}`", shown(other))),
    })
}

fn pointer(member: &str, content: Option<Value>) -> Result<PointerBuf, String> {
    PointerBuf::parse(text(member, content)?).map_err(|error| {
        let (_, text) = error.decompose();
        format!("`{member}` is no JSON pointer: \"{}\"", shown(&text))
    })
}

fn text(member: &str, content: Option<Value>) -> Result<String, String> {
    match content {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{member}` is no text")),
        None => Err(missing(member)),
    }
}

fn missing(member: &str) -> String {
    format!("`{member}` is missing")
}
