//! The JSON body of a POST in canonical form: names sorted, no blanks, texts spelt in one way. It is part of the
//! key, and what the upstream gets.
//!
//! Numbers stay as they are written: `1` and `1.0` are two keys, since to read them as one would round others.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The largest body, which travels with the key.
pub(super) const LARGEST: usize = 64 * 1024;

/// How deep objects and lists may be nested: parameters, not documents.
const DEEPEST: usize = 32;

/// The canonical form of an object of parameters, or why it is none.
pub(super) fn canonical(body: &[u8]) -> Result<String, String> {
    let value: &RawValue =
        serde_json::from_slice(body).map_err(|error| format!("it is not JSON: {error}"))?;
    if !value.get().starts_with('{') {
        return Err("it is not a JSON object".into());
    }
    let mut out = String::with_capacity(body.len());
    write(value, DEEPEST, &mut out)?;
    Ok(out)
}

fn write(value: &RawValue, depth: usize, out: &mut String) -> Result<(), String> {
    let text = value.get();
    let deeper =
        || depth.checked_sub(1).ok_or(format!("it is nested deeper than {DEEPEST} levels"));
    match text.as_bytes().first() {
        Some(b'{') => {
            let depth = deeper()?;
            let Object(members) = read(text)?;
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(name, out)?;
                out.push(':');
                write(value, depth, out)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let depth = deeper()?;
            let items: Vec<&RawValue> = read(text)?;
            out.push('[');
            for (at, value) in items.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(value, depth, out)?;
            }
            out.push(']');
        }
        Some(b'"') => write_text(&read::<String>(text)?, out)?,
        // A number, true, false or null.
        _ => out.push_str(text),
    }
    Ok(())
}

fn write_text(text: &str, out: &mut String) -> Result<(), String> {
    out.push_str(&serde_json::to_string(text).map_err(|error| error.to_string())?);
    Ok(())
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The members of an object, sorted. A name that comes twice is an error: nobody could say which one counts.
struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format!("'{name}' comes twice")));
            }
            members.insert(name, value);
        }
        Ok(Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_the_same_parameters_are_one() {
        for (body, expected) in [
            ("{}", "{}"),
            (" { } ", "{}"),
            (
                r#"{"b": 1, "a": [1, 2 , {"d":null,"c":true}]}"#,
                r#"{"a":[1,2,{"c":true,"d":null}],"b":1}"#,
            ),
            (r#"{"\u0061": "\u00e4\/\n"}"#, r#"{"a":"ä/\n"}"#),
            (
                r#"{"n": 1.0, "m": 12345678901234567890123, "e": -1e5}"#,
                r#"{"e":-1e5,"m":12345678901234567890123,"n":1.0}"#,
            ),
        ] {
            assert_eq!(canonical(body.as_bytes()).as_deref(), Ok(expected), "{body}");
        }
    }

    #[test]
    fn other_bodies_are_refused_with_the_reason() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
        for (body, words) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("[1]", "not a JSON object"),
            ("1", "not a JSON object"),
            ("{} {}", "not JSON"),
            (r#"{"a":1,"\u0061":2}"#, "'a' comes twice"),
            (r#"{"x":{"a":1,"a":1}}"#, "'a' comes twice"),
            (&deep, "nested deeper"),
        ] {
            let reason = canonical(body.as_bytes()).unwrap_err();
            assert!(reason.contains(words), "{body}: {reason}");
        }
        assert!(canonical(b"{\"a\":\"\xff\"}").is_err());
        let shallow = format!("{{\"a\":{}{}}}", "[".repeat(DEEPEST - 1), "]".repeat(DEEPEST - 1));
        assert!(canonical(shallow.as_bytes()).is_ok());
    }
}
