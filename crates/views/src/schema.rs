//! The schema of a stream: its fields, and how an event is taken from JSON by them. How one is taken from a
//! line is in `point.rs`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use consort_line::Dialect;

use crate::event::Event;
use crate::form::{Form, MEASUREMENT, TIME};
use crate::value::{FieldType, Kind, TEXT_MOST, Value, parse_decimal};

/// So many names are compared one by one.
const FEW_FIELDS: usize = 16;

/// A field of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub ty: FieldType,
}

/// What to do with fields that the stream does not declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// The event is refused, with the field's name.
    #[default]
    Reject,
    /// The field is left out.
    Ignore,
}

/// The fields of a stream, in the order in which they are stored.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    fields: Vec<Field>,
    by_name: HashMap<String, usize>,
    /// Their names, for messages: written once, since many events may have a field that is unknown.
    known: Arc<str>,
    unknown: Unknown,
    form: Form,
    inferred: bool,
    /// The field that expressions also call `_time`.
    time: Option<usize>,
}

/// Why an event is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Not JSON, or not an object.
    #[error("not a JSON object: {0}")]
    Malformed(String),
    /// Not a line of line protocol.
    #[error("not a line: {0}")]
    Line(consort_line::LineError),
    /// A field that the stream does not have.
    #[error("unknown field '{field}'; there are {known}")]
    UnknownField {
        /// The field.
        field: String,
        /// Those there are.
        known: Arc<str>,
    },
    /// A field that came twice.
    #[error("field '{0}' comes twice")]
    Twice(String),
    /// A value that does not fit.
    #[error("field '{field}' must be {wanted}")]
    Wrong {
        /// The field.
        field: String,
        /// What it takes.
        wanted: String,
    },
    /// A field that must be there.
    #[error("field '{field}' is missing: it must be {wanted}")]
    Missing {
        /// The field.
        field: String,
        /// What it takes.
        wanted: String,
    },
}

impl Schema {
    /// A schema of `fields`, whose names differ.
    pub fn new(fields: Vec<Field>, unknown: Unknown) -> Self {
        let by_name = fields.iter().enumerate().map(|(at, f)| (f.name.clone(), at)).collect();
        let names: Vec<String> = fields.iter().map(|f| format!("'{}'", f.name)).collect();
        let known = names.join(", ").into();
        Schema { fields, by_name, known, unknown, ..Schema::default() }
    }

    /// A schema of lines: `fields`, which are not `_time` or `_measurement`, and these two, all in the order
    /// of their names.
    pub fn of_lines(mut fields: Vec<Field>, unknown: Unknown, dialect: Dialect) -> Self {
        let int = FieldType { kind: Kind::Int, optional: false, range: i64::MIN..=i64::MAX };
        let text = FieldType { kind: Kind::Text, optional: true, range: 0..=TEXT_MOST };
        fields.push(Field { name: TIME.into(), ty: int });
        fields.push(Field { name: MEASUREMENT.into(), ty: text });
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Schema { form: Form::Line(dialect), ..Schema::new(fields, unknown) }
    }

    /// The same, where nobody declared the fields: they are texts, and any value of a line is one.
    pub fn inferred(self) -> Self {
        Schema { inferred: true, ..self }
    }

    /// The same, with `_time` as another name of the field at `at`, for expressions.
    pub fn timed(self, at: usize) -> Self {
        Schema { time: Some(at), ..self }
    }

    /// How its events are written.
    pub fn form(&self) -> Form {
        self.form
    }

    /// What is done with fields that are not declared.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    /// Whether its fields are only those that were used somewhere.
    pub fn is_inferred(&self) -> bool {
        self.inferred
    }

    /// The fields.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Where a field stands.
    pub fn find(&self, name: &str) -> Option<usize> {
        // A look at a few names is over before one of them is hashed.
        if self.fields.len() <= FEW_FIELDS {
            return self.fields.iter().position(|field| field.name == name);
        }
        self.by_name.get(name).copied()
    }

    /// Where a field stands by its name or, of the event's time, by `_time`: what an expression means by a
    /// name.
    pub fn resolve(&self, name: &str) -> Option<usize> {
        self.find(name).or(self.time.filter(|_| name == TIME))
    }

    /// The value that `text`, from a path, is for the field at `at`.
    pub fn parse(&self, at: usize, text: &str) -> Result<Value, Rejection> {
        let Field { name, ty } = &self.fields[at];
        ty.parse(text).map_err(|wanted| Rejection::Wrong { field: name.clone(), wanted })
    }

    /// Takes an event from JSON.
    pub fn take(&self, json: &[u8]) -> Result<Event, Rejection> {
        self.fill(json, self.blank())
    }

    /// No value yet for any field, for [`fill`](Schema::fill).
    pub fn blank(&self) -> Vec<Option<Value>> {
        vec![None; self.fields.len()]
    }

    /// Takes an event from JSON beside the `values` that a path gave, which must not come again.
    pub fn fill(&self, json: &[u8], mut values: Vec<Option<Value>>) -> Result<Event, Rejection> {
        let mut rejection = None;
        let seed = EventSeed { schema: self, values: &mut values, rejection: &mut rejection };
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let taken = seed.deserialize(&mut deserializer).and_then(|()| deserializer.end());
        if let Some(rejection) = rejection {
            return Err(rejection);
        }
        taken.map_err(|error| Rejection::Malformed(error.to_string()))?;
        self.complete(&values)?;
        Ok(Event { id: None, values })
    }

    pub(crate) fn complete(&self, values: &[Option<Value>]) -> Result<(), Rejection> {
        let missing =
            |(field, value): &(&Field, &Option<Value>)| value.is_none() && !field.ty.optional;
        match self.fields.iter().zip(values).find(missing) {
            Some((field, _)) => {
                Err(Rejection::Missing { field: field.name.clone(), wanted: field.ty.to_string() })
            }
            None => Ok(()),
        }
    }

    /// The names of all fields, for messages.
    pub fn known(&self) -> Arc<str> {
        Arc::clone(&self.known)
    }
}

/// Reads an object by its schema, without a tree of JSON values in between.
struct EventSeed<'a> {
    schema: &'a Schema,
    values: &'a mut [Option<Value>],
    rejection: &'a mut Option<Rejection>,
}

impl<'de> DeserializeSeed<'de> for EventSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // The rejection says it better than an error of the parser; the error only ends the reading.
        let rejection = self.rejection;
        let mut reject = |reason: Rejection| {
            *rejection = Some(reason);
            Err(A::Error::custom("rejected"))
        };
        // Fields that came as null, of which nothing is seen in the values.
        let mut nulls = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            let Some(at) = self.schema.find(&name) else {
                if self.schema.unknown == Unknown::Ignore {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                let known = self.schema.known();
                return reject(Rejection::UnknownField { field: name.into(), known });
            };
            if self.values[at].is_some() || nulls.contains(&at) {
                return reject(Rejection::Twice(name.into()));
            }
            let ty = &self.schema.fields[at].ty;
            let taken = match ty.kind {
                Kind::Decimal(scale) => decimal(map.next_value()?, scale),
                _ => map.next_value_seed(ValueSeed(ty.kind))?,
            };
            match taken {
                Taken::Value(value) if ty.allows(&value) => self.values[at] = Some(value),
                Taken::Null if ty.optional => nulls.push(at),
                _ => {
                    let wanted = ty.to_string();
                    return reject(Rejection::Wrong { field: name.into(), wanted });
                }
            }
        }
        Ok(())
    }
}

/// A name that is copied only where it is escaped.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// What stands in the place of a value.
enum Taken {
    Value(Value),
    Null,
    /// Something else than the field takes.
    Other,
}

/// The digits as they were written, in a number or in a text: a float would round them.
fn decimal(json: &RawValue, scale: u8) -> Taken {
    let json = json.get();
    if json == "null" {
        return Taken::Null;
    }
    let text = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let number = parse_decimal(text.unwrap_or(json), scale);
    number.map_or(Taken::Other, |number| Taken::Value(Value::Decimal(number)))
}

/// Takes a value of one kind, and anything else for something else.
struct ValueSeed(Kind);

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Taken;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Taken, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Taken, E> {
        Ok(match self.0 {
            Kind::Bool => Taken::Value(Value::Bool(value)),
            _ => Taken::Other,
        })
    }

    fn visit_i64<E>(self, number: i64) -> Result<Taken, E> {
        Ok(match self.0 {
            Kind::Int => Taken::Value(Value::Int(number)),
            _ => Taken::Other,
        })
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Taken, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Ok(Taken::Other),
        }
    }

    fn visit_f64<E>(self, _: f64) -> Result<Taken, E> {
        Ok(Taken::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Taken, E> {
        Ok(match self.0 {
            Kind::Text => Taken::Value(Value::Text(text.into())),
            _ => Taken::Other,
        })
    }

    fn visit_unit<E>(self) -> Result<Taken, E> {
        Ok(Taken::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Taken, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Taken::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Taken, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Taken::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(unknown: Unknown) -> Schema {
        let fields = [
            ("skier", "int 1..100"),
            ("season", "text 1..8"),
            ("wait", "int?"),
            ("paid", "decimal(2)? 0..99.99"),
            ("vip", "bool?"),
        ];
        let field = |(name, ty): (&str, &str)| Field { name: name.into(), ty: ty.parse().unwrap() };
        Schema::new(fields.map(field).into(), unknown)
    }

    #[test]
    fn an_event_is_taken_field_by_field() {
        let json =
            r#" {"season":"20\u0032\u0030", "skier":7, "paid":"12.5","vip":true,"wait":null} "#;
        let event = schema(Unknown::Reject).take(json.as_bytes()).unwrap();
        let expected = [
            Some(Value::Int(7)),
            Some(Value::Text("2020".into())),
            None,
            Some(Value::Decimal(1250)),
            Some(Value::Bool(true)),
        ];
        assert_eq!(event.values, expected);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_field_and_reason() {
        let cases = [
            (r#"{"skier":0,"season":"x"}"#, "field 'skier' must be a whole number from 1 to 100"),
            (r#"{"skier":"7","season":"x"}"#, "field 'skier' must be a whole number from 1 to 100"),
            (r#"{"skier":1.5,"season":"x"}"#, "field 'skier' must be"),
            (r#"{"skier":18446744073709551615,"season":"x"}"#, "field 'skier' must be"),
            (r#"{"skier":null,"season":"x"}"#, "field 'skier' must be"),
            (r#"{"skier":[{"a":[1]}],"season":"x"}"#, "field 'skier' must be"),
            (
                r#"{"season":{"a":1},"skier":1}"#,
                "field 'season' must be a text of 1 to 8 characters",
            ),
            (r#"{"skier":1,"season":""}"#, "field 'season' must be a text of 1 to 8 characters"),
            (r#"{"skier":1,"season":"123456789"}"#, "field 'season' must be"),
            (r#"{"skier":1,"season":"x","vip":1}"#, "field 'vip' must be true or false"),
            (
                r#"{"skier":1,"season":"x","paid":1.255}"#,
                "field 'paid' must be a number with at most 2",
            ),
            (r#"{"skier":1,"season":"x","paid":100}"#, "field 'paid' must be"),
            (r#"{"skier":1,"season":"x","paid":1e1}"#, "field 'paid' must be"),
            (r#"{"skier":1}"#, "field 'season' is missing: it must be a text of 1 to 8 characters"),
            (r#"{"skier":1,"season":"x","skier":1}"#, "field 'skier' comes twice"),
            (r#"{"skier":1,"wait":null,"wait":1,"season":"x"}"#, "field 'wait' comes twice"),
            (r#"{"skier":1,"wait":1,"wait":null,"season":"x"}"#, "field 'wait' comes twice"),
            (r#"{"skeir":1}"#, "unknown field 'skeir'; there are 'skier', 'season'"),
            (r#"[]"#, "not a JSON object"),
            (r#"{"skier":1,"season":"x"} x"#, "not a JSON object: trailing characters"),
            (r#"{"skier":1,"season":"x""#, "not a JSON object: EOF"),
            ("", "not a JSON object"),
        ];
        for (json, reason) in cases {
            let refused = schema(Unknown::Reject).take(json.as_bytes()).unwrap_err();
            assert!(refused.to_string().starts_with(reason), "{json}: {refused}");
        }
    }

    #[test]
    fn fields_of_the_path_join_those_of_the_body_and_come_once() {
        let schema = schema(Unknown::Reject);
        let mut preset = schema.blank();
        preset[0] = Some(Value::Int(5));
        let event = schema.fill(br#"{"season":"x"}"#, preset.clone()).unwrap();
        assert_eq!(event.values[0], Some(Value::Int(5)));
        let twice = schema.fill(br#"{"season":"x","skier":5}"#, preset);
        assert_eq!(twice, Err(Rejection::Twice("skier".into())));
        let wrong = schema.parse(0, "1x").unwrap_err();
        assert_eq!(wrong.to_string(), "field 'skier' must be a whole number from 1 to 100");
    }

    #[test]
    fn unknown_fields_are_left_out_where_that_is_wanted() {
        let json = br#"{"skier":1,"season":"x","more":{"a":[1,2]}}"#;
        assert!(schema(Unknown::Ignore).take(json).is_ok());
    }
}
