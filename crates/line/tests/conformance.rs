//! InfluxDB's own cases of what a body means and how a point is written: `line-protocol.json` in the
//! folder `shared/conformance` beside the project. Without that folder the cases are not run, which is
//! said; where `CI` is `true` they have to be there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use consort_line::{Dialect, FieldValue, Point, Precision, lines, parse, write};
use serde::Deserialize;
use serde_json::value::RawValue;

#[test]
fn bodies_mean_what_influxdb_says() {
    let Some(cases) = cases() else { return };
    let mut failed = Vec::new();
    for (key, Decode { input, output }) in &cases.decode {
        let body = input.text.bytes();
        let points = read(&body, precision(&input.precision), input.default_time);
        let agrees = match (&points, &output.result) {
            (Ok(points), Some(expected)) => {
                *points == expected.iter().map(Case::point).collect::<Vec<_>>()
            }
            (Err(_), None) => true,
            _ => false,
        };
        if !agrees {
            failed.push(format!("{key}: {:?} gives {points:?}", body.escape_ascii().to_string()));
        }
    }
    assert!(cases.decode.len() > 1_000, "only {} cases were found", cases.decode.len());
    assert!(failed.is_empty(), "{} of the cases fail:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn points_are_written_as_influxdb_does() {
    let Some(cases) = cases() else { return };
    assert!(!cases.encode.is_empty());
    for (key, Encode { input, output }) in &cases.encode {
        assert_eq!(input.precision, "1ns", "{key}: times are written in nanoseconds only");
        let point = input.point.point();
        let mut line = String::new();
        let written = write(&point, &mut line);
        match &output.result {
            Some(expected) => {
                assert_eq!(written, Ok(()), "{key}");
                assert_eq!(line.as_bytes(), expected.bytes(), "{key}");
                let back = parse(line.as_bytes(), Dialect::Strict, Precision::Nanoseconds);
                assert_eq!(back, Ok(Some(point)), "{key}");
            }
            None => assert!(written.is_err(), "{key} gives {line:?}"),
        }
    }
}

/// Every point of a body, with the given time where it has none and its tags in order; or its first
/// error.
fn read(body: &[u8], precision: Precision, default_time: i64) -> Result<Vec<Point<'_>>, String> {
    let mut points = Vec::new();
    for (number, line) in lines(body) {
        let point = parse(line, Dialect::Strict, precision)
            .map_err(|error| format!("line {number}, {error}"))?;
        if let Some(mut point) = point {
            point.tags.sort();
            point.time.get_or_insert(precision.truncate(default_time));
            points.push(point);
        }
    }
    Ok(points)
}

#[derive(Deserialize)]
struct Cases {
    decode: BTreeMap<String, Decode>,
    encode: BTreeMap<String, Encode>,
}

#[derive(Deserialize)]
struct Decode {
    input: Body,
    output: Expected<Vec<Case>>,
}

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "defaultTime")]
    default_time: i64,
    precision: String,
    text: Text,
}

#[derive(Deserialize)]
struct Encode {
    input: ToWrite,
    output: Expected<Text>,
}

#[derive(Deserialize)]
struct ToWrite {
    point: Case,
    precision: String,
}

/// The result; where there is none, an error, whose wording is not compared.
#[derive(Deserialize)]
struct Expected<T> {
    result: Option<T>,
}

#[derive(Deserialize)]
struct Case {
    name: Text,
    tags: Vec<Tag>,
    fields: Vec<Field>,
    time: i64,
}

#[derive(Deserialize)]
struct Tag {
    key: Text,
    value: Text,
}

/// The value is kept as it stands in the file, by its type: a JSON reader may round floats otherwise.
#[derive(Deserialize)]
struct Field {
    key: Text,
    value: BTreeMap<String, Box<RawValue>>,
}

/// A text, or where it is not one, its bytes in base 64.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Binary { binary: String },
}

impl Case {
    fn point(&self) -> Point<'static> {
        let mut tags: Vec<_> = self
            .tags
            .iter()
            .map(|tag| (tag.key.string().into(), tag.value.string().into()))
            .collect();
        tags.sort();
        Point {
            measurement: Some(self.name.string().into()),
            tags,
            fields: self
                .fields
                .iter()
                .map(|field| (field.key.string().into(), field.value()))
                .collect(),
            time: Some(self.time),
        }
    }
}

impl Field {
    fn value(&self) -> FieldValue<'static> {
        let (kind, value) = self.value.first_key_value().expect("a field has a value");
        let value = value.get();
        match kind.as_str() {
            "float" => FieldValue::Float(value.parse().expect("a float")),
            "int" => FieldValue::Integer(value.parse().expect("an integer")),
            "uint" => FieldValue::Unsigned(value.parse().expect("an unsigned integer")),
            "bool" => FieldValue::Boolean(value.parse().expect("a boolean")),
            "string" => {
                let text: Text = serde_json::from_str(value).expect("a text");
                FieldValue::Text(text.string().into())
            }
            other => panic!("a field value of the unknown type {other}"),
        }
    }
}

impl Text {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Plain(text) => text.clone().into_bytes(),
            Self::Binary { binary } => from_base64(binary),
        }
    }

    fn string(&self) -> String {
        String::from_utf8(self.bytes()).expect("what is expected is text")
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0);
    for digit in text.bytes().filter(|&digit| digit != b'=') {
        let value = digits.iter().position(|&known| known == digit).expect("base 64");
        bits = (bits << 6 | u32::try_from(value).expect("below 64")) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    bytes
}

fn precision(name: &str) -> Precision {
    name.strip_prefix('1').unwrap_or(name).parse().expect("a precision")
}

fn cases() -> Option<Cases> {
    let Some(path) = path() else {
        let required = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!required, "shared/conformance/line-protocol.json is not beside the project");
        eprintln!("not run: shared/conformance/line-protocol.json is not beside the project");
        return None;
    };
    let text = std::fs::read_to_string(&path).expect("the cases can be read");
    Some(serde_json::from_str(&text).expect("the cases are as expected"))
}

/// The cases, in a folder `shared` beside the project or beside a folder that holds it.
fn path() -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/conformance/line-protocol.json"))
        .find(|path| path.is_file())
}
