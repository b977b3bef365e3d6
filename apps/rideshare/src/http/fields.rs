//! The members of a JSON body.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::problem::Problem;

/// The members of a JSON object. Only those that are asked for are read, so the others may be anything.
#[derive(Debug)]
pub(crate) struct JsonFields(HashMap<String, Box<RawValue>>);

impl JsonFields {
    /// Reads a body, whatever its content type says.
    pub(crate) fn parse(body: &[u8]) -> Result<JsonFields, Problem> {
        serde_json::from_slice(body)
            .map(JsonFields)
            .map_err(|_| Problem::bad_request("the body is no JSON object"))
    }

    /// A member that must be there, and of this type.
    pub(crate) fn required<T: DeserializeOwned>(
        &self,
        name: &str,
        kind: &str,
    ) -> Result<T, Problem> {
        let wrong = || Problem::bad_request(format!("'{name}' must be {kind}"));
        self.optional(name, kind)?.ok_or_else(wrong)
    }

    /// A member that may be absent.
    pub(crate) fn optional<T: DeserializeOwned>(
        &self,
        name: &str,
        kind: &str,
    ) -> Result<Option<T>, Problem> {
        let wrong = |_| Problem::bad_request(format!("'{name}' must be {kind}"));
        let value = self.0.get(name).map(|value| serde_json::from_str(value.get()));
        value.transpose().map_err(wrong)
    }

    /// A text that must be there.
    pub(crate) fn text(&self, name: &str) -> Result<String, Problem> {
        self.required(name, "a text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_be_an_object() {
        for body in
            ["", "ann", "[]", "[\"ann\", \"b\"]", "null", "\"x\"", "{", "{} {}", "{\"a\": }"]
        {
            assert!(JsonFields::parse(body.as_bytes()).is_err(), "{body}");
        }
        assert!(JsonFields::parse(b"{\"a\": \"\xff\"}").is_err());
        assert!(JsonFields::parse(b" {} ").is_ok());
    }

    #[test]
    fn a_text_must_be_there_and_be_a_text() {
        for (body, text) in [
            (r#"{"username": "ann"}"#, Some("ann")),
            (r#"{"username": ""}"#, Some("")),
            (r#"{"username": " \u0000ä "}"#, Some(" \0ä ")),
            (r#"{"username": 7}"#, None),
            (r#"{"username": null}"#, None),
            (r#"{"username": ["ann"]}"#, None),
            (r#"{"username": "\ud800"}"#, None),
            (r#"{"Username": "ann"}"#, None),
            ("{}", None),
        ] {
            let fields = JsonFields::parse(body.as_bytes()).unwrap();
            assert_eq!(fields.text("username").ok().as_deref(), text, "{body}");
        }
    }

    #[test]
    fn members_that_are_not_asked_for_may_be_anything() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        for other in ["1e999", "18446744073709551617", &deep] {
            let body = format!("{{\"other\": {other}, \"username\": \"ann\"}}");
            let fields = JsonFields::parse(body.as_bytes()).unwrap();
            assert_eq!(fields.text("username").unwrap(), "ann");
        }
    }
}
