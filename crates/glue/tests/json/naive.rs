//! RFC 6902 and RFC 7396 once more, as plainly as can be: each operation works on a clone.

use serde_json::{Map, Value};

/// The document after all operations, or nothing if one fails.
pub(crate) fn patch(document: &Value, operations: &[Value]) -> Option<Value> {
    operations.iter().try_fold(document.clone(), apply)
}

fn apply(mut document: Value, operation: &Value) -> Option<Value> {
    let path = operation["path"].as_str()?;
    let value = || operation["value"].clone();
    match operation["op"].as_str()? {
        "add" => add(&mut document, path, value())?,
        "remove" => drop(remove(&mut document, path)?),
        "replace" => *document.pointer_mut(path)? = value(),
        "move" => {
            let from = operation["from"].as_str()?;
            if path.starts_with(&format!("{from}/")) {
                return None;
            }
            if from != path {
                let value = remove(&mut document, from)?;
                add(&mut document, path, value)?;
            }
            document.pointer(path).or_else(|| path.ends_with("/-").then_some(&Value::Null))?;
        }
        "copy" => {
            let value = document.pointer(operation["from"].as_str()?)?.clone();
            add(&mut document, path, value)?;
        }
        "test" => {
            let value = document.pointer(path)?;
            (same(value) == same(&operation["value"])).then_some(())?;
        }
        _ => return None,
    }
    Some(document)
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let Some((parent, name)) = path.rsplit_once('/') else {
        *document = value;
        return Some(());
    };
    match document.pointer_mut(parent)? {
        Value::Object(members) => drop(members.insert(unescaped(name), value)),
        Value::Array(elements) if name == "-" => elements.push(value),
        Value::Array(elements) => {
            let index = index(name).filter(|&index| index <= elements.len())?;
            elements.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, name) = path.rsplit_once('/')?;
    match document.pointer_mut(parent)? {
        Value::Object(members) => members.remove(&unescaped(name)),
        Value::Array(elements) => {
            let index = index(name).filter(|&index| index < elements.len())?;
            Some(elements.remove(index))
        }
        _ => None,
    }
}

fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

fn index(name: &str) -> Option<usize> {
    let index: usize = name.parse().ok()?;
    (index.to_string() == name).then_some(index)
}

/// The value with each double that is a whole number written as one.
fn same(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                Value::from(float as i64)
            }
            _ => value.clone(),
        },
        Value::Array(elements) => elements.iter().map(same).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), same(value))).collect()
        }
        _ => value.clone(),
    }
}

/// The algorithm of RFC 7396, section 2.
pub(crate) fn merge(target: &Value, patch: &Value) -> Value {
    let Value::Object(members) = patch else { return patch.clone() };
    let mut merged = target.as_object().cloned().unwrap_or_else(Map::new);
    for (name, value) in members {
        let old = merged.remove(name).unwrap_or(Value::Null);
        if !value.is_null() {
            merged.insert(name.clone(), merge(&old, value));
        }
    }
    Value::Object(merged)
}
