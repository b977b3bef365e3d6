//! The output that a page promises, and how it is compared with the real one.

use serde_json::{Deserializer, Value};

/// Stands for any characters within a line, or for any value in JSON.
const ANY: &str = "[..]";

/// A line that stands for any number of lines.
const LINES: &str = "...";

/// The expected output of a block.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The line of its block in the page.
    pub(crate) line: usize,
    pub(crate) text: String,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Text,
    Json(Vec<Value>),
}

impl Expected {
    /// Reads the block of an output.
    pub(crate) fn parse(language: &str, line: usize, text: String) -> Result<Expected, String> {
        let form = match language {
            "json" => {
                Form::Json(values(&text).map_err(|error| format!("this is not JSON: {error}"))?)
            }
            _ => Form::Text,
        };
        Ok(Expected { line, text, form })
    }

    /// Whether an output is as expected.
    pub(crate) fn fits(&self, actual: &str) -> bool {
        match &self.form {
            Form::Text => lines_fit(&lines(&self.text), &lines(actual)),
            Form::Json(expected) => values(actual).is_ok_and(|actual| list_fits(expected, &actual)),
        }
    }
}

fn values(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    Deserializer::from_str(text).into_iter().collect()
}

/// The lines, without blanks at their ends and without empty ones at the end.
fn lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

fn lines_fit(expected: &[&str], actual: &[&str]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((&LINES, rest)) => (0..=actual.len()).any(|from| lines_fit(rest, &actual[from..])),
        Some((first, rest)) => actual
            .split_first()
            .is_some_and(|(line, others)| line_fits(first, line) && lines_fit(rest, others)),
    }
}

fn line_fits(expected: &str, actual: &str) -> bool {
    let mut pieces = expected.split(ANY);
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = actual.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn list_fits(expected: &[Value], actual: &[Value]) -> bool {
    expected.len() == actual.len()
        && expected.iter().zip(actual).all(|(expected, actual)| value_fits(expected, actual))
}

fn value_fits(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::String(expected), _) if expected == ANY => true,
        (Value::String(expected), Value::String(actual)) => line_fits(expected, actual),
        (Value::Array(expected), Value::Array(actual)) => list_fits(expected, actual),
        (Value::Object(expected), Value::Object(actual)) => {
            expected.len() == actual.len()
                && expected.iter().all(|(name, value)| {
                    actual.get(name).is_some_and(|actual| value_fits(value, actual))
                })
        }
        _ => expected == actual,
    }
}
