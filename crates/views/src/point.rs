//! How an event is taken from a line of line protocol.

use compact_str::CompactString;
use consort_kernel::Moment;
use consort_line::{Dialect, FieldValue, Point, Precision};

use crate::event::Event;
use crate::form::{Form, MEASUREMENT, TIME};
use crate::schema::{Field, Rejection, Schema, Unknown};
use crate::value::{FieldType, Kind, Value, parse_decimal};

impl Schema {
    /// Takes an event from a line without its line end, by way of `point`; none if it is blank or a comment. A
    /// line without a timestamp gets the moment at which it was received, in the precision of the others.
    pub fn take_line<'a>(
        &self,
        line: &'a [u8],
        point: &mut Point<'a>,
        precision: Precision,
        received: impl FnOnce() -> Moment,
    ) -> Result<Option<Event>, Rejection> {
        let dialect = match self.form() {
            Form::Line(dialect) => dialect,
            Form::Json => Dialect::Strict,
        };
        let received = || Moment(precision.truncate(received().0));
        match consort_line::parse_into(point, line, dialect, precision) {
            Ok(true) => self.take_point(point, received).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(Rejection::Line(error)),
        }
    }

    /// Takes an event from a line that was read. One without a timestamp was `received` when it happened.
    fn take_point(
        &self,
        point: &Point<'_>,
        received: impl FnOnce() -> Moment,
    ) -> Result<Event, Rejection> {
        if self.unknown() == Unknown::Reject {
            self.know_all(point)?;
        }
        let time = point.time.unwrap_or_else(|| received().0);
        let take = |field: &Field| match field.name.as_str() {
            TIME => Ok(Some(Value::Int(time))),
            MEASUREMENT => match &point.measurement {
                Some(name) => checked(field, Some(Value::Text(name.as_ref().into()))),
                None => Ok(None),
            },
            _ => self.take_value(field, point),
        };
        let values = self.fields().iter().map(take).collect::<Result<Vec<_>, _>>()?;
        self.complete(&values)?;
        Ok(Event { id: None, values })
    }

    /// The value of a declared field, from the tag or the field of its name.
    fn take_value(&self, field: &Field, point: &Point<'_>) -> Result<Option<Value>, Rejection> {
        let Field { name, ty } = field;
        match (point.tag(name), point.field(name)) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(Rejection::Twice(name.clone())),
            (Some(tag), None) => match ty.parse(tag) {
                Ok(value) => Ok(Some(value)),
                Err(wanted) => Err(Rejection::Wrong { field: name.clone(), wanted }),
            },
            (None, Some(value)) if self.is_inferred() => {
                checked(field, Some(Value::Text(canonical(value))))
            }
            (None, Some(value)) => checked(field, converted(ty, value)),
        }
    }

    /// Refuses what the stream does not declare.
    fn know_all(&self, point: &Point<'_>) -> Result<(), Rejection> {
        let tags = point.tags.iter().map(|(name, _)| name);
        let mut names = tags.chain(point.fields.iter().map(|(name, _)| name));
        let is_known =
            |name: &str| name != TIME && name != MEASUREMENT && self.find(name).is_some();
        match names.find(|name| !is_known(name)) {
            Some(name) => Err(Rejection::UnknownField {
                field: name.clone().into_owned(),
                known: self.known(),
            }),
            None => Ok(()),
        }
    }
}

/// The value if the field takes it.
fn checked(field: &Field, value: Option<Value>) -> Result<Option<Value>, Rejection> {
    match value.filter(|value| field.ty.allows(value)) {
        Some(value) => Ok(Some(value)),
        None => Err(Rejection::Wrong { field: field.name.clone(), wanted: field.ty.to_string() }),
    }
}

/// The value in the field's type, if it is exactly that.
fn converted(ty: &FieldType, value: &FieldValue<'_>) -> Option<Value> {
    match (ty.kind, value) {
        (Kind::Bool, FieldValue::Boolean(flag)) => Some(Value::Bool(*flag)),
        (Kind::Text, FieldValue::Text(text)) => Some(Value::Text(text.as_ref().into())),
        (Kind::Int, FieldValue::Integer(number)) => Some(Value::Int(*number)),
        (Kind::Int, FieldValue::Unsigned(number)) => i64::try_from(*number).ok().map(Value::Int),
        (Kind::Int, FieldValue::Float(number)) => whole(*number).map(Value::Int),
        (
            Kind::Decimal(scale),
            FieldValue::Integer(_) | FieldValue::Unsigned(_) | FieldValue::Float(_),
        ) => parse_decimal(&digits(value), scale).map(Value::Decimal),
        _ => None,
    }
}

/// A float that is a whole number of 64 bits.
fn whole(number: f64) -> Option<i64> {
    // 2^63 itself is a float, and the first that does not fit.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    ((-BEYOND..BEYOND).contains(&number) && number.fract() == 0.0).then_some(number as i64)
}

/// The value of a field of which only its text is wanted: the same for all ways in which senders write the
/// same value.
fn canonical(value: &FieldValue<'_>) -> CompactString {
    match value {
        FieldValue::Text(text) => text.as_ref().into(),
        FieldValue::Boolean(flag) => if *flag { "true" } else { "false" }.into(),
        number => digits(number).into(),
    }
}

/// From here on floats are written with an exponent: their digits say nothing.
const LARGE: f64 = 1e21;

/// The digits of a number, the fewest that are read as the same number.
fn digits(value: &FieldValue<'_>) -> String {
    match value {
        FieldValue::Integer(number) => number.to_string(),
        FieldValue::Unsigned(number) => number.to_string(),
        // Zero has no sign.
        FieldValue::Float(number) if *number == 0.0 => "0".into(),
        FieldValue::Float(number) if number.abs() < LARGE => number.to_string(),
        FieldValue::Float(number) => format!("{number:e}"),
        FieldValue::Text(_) | FieldValue::Boolean(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECEIVED: Moment = Moment(1_500_000_000_123_456_789);

    fn fields(fields: &[(&str, &str)]) -> Vec<Field> {
        let field =
            |(name, ty): &(&str, &str)| Field { name: (*name).into(), ty: ty.parse().unwrap() };
        fields.iter().map(field).collect()
    }

    fn declared(unknown: Unknown) -> Schema {
        let fields = fields(&[
            ("host", "text 1..8"),
            ("n", "int? 0..100"),
            ("price", "decimal(2)?"),
            ("up", "bool?"),
        ]);
        Schema::of_lines(fields, unknown, Dialect::Loose)
    }

    fn inferred() -> Schema {
        let schema = Schema::of_lines(fields(&[("who", "text?")]), Unknown::Ignore, Dialect::Loose);
        schema.inferred()
    }

    fn take(schema: &Schema, line: &str) -> Result<Option<Event>, Rejection> {
        let mut point = Point::default();
        schema.take_line(line.as_bytes(), &mut point, Precision::Nanoseconds, || RECEIVED)
    }

    fn value(schema: &Schema, line: &str, field: &str) -> Option<Value> {
        let event = take(schema, line).unwrap_or_else(|no| panic!("{line}: {no}"));
        let at = schema.find(field).unwrap();
        event.unwrap_or_else(|| panic!("{line} is an event")).values[at].clone()
    }

    #[test]
    fn every_line_has_a_time_and_perhaps_a_measurement() {
        let schema = declared(Unknown::Ignore);
        let names: Vec<&str> = schema.fields().iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["_measurement", "_time", "host", "n", "price", "up"]);
        assert_eq!(value(&schema, "m,host=a n=1 7", TIME), Some(Value::Int(7)));
        assert_eq!(value(&schema, "m,host=a n=1", TIME), Some(Value::Int(RECEIVED.0)));
        assert_eq!(value(&schema, "m,host=a n=1", MEASUREMENT), Some(Value::Text("m".into())));
        assert_eq!(value(&schema, "host=a n=1", MEASUREMENT), None);
        assert_eq!(take(&schema, "# a comment"), Ok(None));
        assert_eq!(take(&schema, "  "), Ok(None));
    }

    #[test]
    fn a_time_has_the_precision_of_its_body() {
        let schema = declared(Unknown::Ignore);
        let time = |line: &str, precision| {
            let mut point = Point::default();
            let event = schema.take_line(line.as_bytes(), &mut point, precision, || RECEIVED);
            let event = event.unwrap().unwrap();
            event.values[schema.find(TIME).unwrap()].clone()
        };
        let seconds = Some(Value::Int(1_500_000_000_000_000_000));
        assert_eq!(time("m,host=a n=1 1500000000", Precision::Seconds), seconds);
        assert_eq!(time("m,host=a n=1", Precision::Seconds), seconds);
    }

    #[test]
    fn values_of_declared_fields_are_taken_where_they_are_exact() {
        let schema = declared(Unknown::Ignore);
        let cases = [
            ("m,host=a n=5i", "n", Value::Int(5)),
            ("m,host=a n=5u", "n", Value::Int(5)),
            ("m,host=a n=5", "n", Value::Int(5)),
            ("m,host=a n=5e1", "n", Value::Int(50)),
            ("m,host=a,n=5 x=1", "n", Value::Int(5)),
            ("m,host=a price=12.5", "price", Value::Decimal(1250)),
            ("m,host=a price=-3i", "price", Value::Decimal(-300)),
            ("m,host=a,price=0.01 x=1", "price", Value::Decimal(1)),
            ("m,host=a up=t", "up", Value::Bool(true)),
            ("m,host=a,up=false x=1", "up", Value::Bool(false)),
            ("m host=\"b c\"", "host", Value::Text("b c".into())),
            ("m host=word", "host", Value::Text("word".into())),
            ("m,host=a n=1,n=2", "n", Value::Int(2)),
        ];
        for (line, field, expected) in cases {
            assert_eq!(value(&schema, line, field), Some(expected), "{line}");
        }
    }

    #[test]
    fn a_value_of_another_type_refuses_its_line() {
        let schema = declared(Unknown::Ignore);
        let number = "field 'n' must be a whole number from 0 to 100";
        let price = "field 'price' must be a number with at most 2 digits";
        let cases = [
            ("m,host=a n=5.5", number),
            ("m,host=a n=101i", number),
            ("m,host=a n=1e300", number),
            ("m,host=a n=18446744073709551615u", number),
            ("m,host=a n=\"5\"", number),
            ("m,host=a n=t", number),
            ("m,host=a,n=5.0 x=1", number),
            ("m,host=a price=0.001", price),
            ("m,host=a price=1e300", price),
            ("m,host=a price=word", price),
            ("m,host=a up=1i", "field 'up' must be true or false"),
            ("m,host=a,up=t x=1", "field 'up' must be true or false"),
            ("m host=5i", "field 'host' must be a text of 1 to 8 characters"),
            ("m,host=123456789 n=1", "field 'host' must be a text of 1 to 8 characters"),
            ("m n=1", "field 'host' is missing"),
            ("m,host=a host=\"a\"", "field 'host' comes twice"),
            ("m,host=a", "not a line: column"),
            ("m,host=a n=5 then", "not a line: column"),
        ];
        for (line, reason) in cases {
            let refused = take(&schema, line).expect_err(line).to_string();
            assert!(refused.starts_with(reason), "{line}: {refused}");
        }
    }

    #[test]
    fn a_field_that_is_only_used_is_the_text_of_any_value() {
        let schema = inferred();
        let cases = [
            ("m,who=ann n=1", "ann"),
            ("m who=ann", "ann"),
            ("m who=\"ann\"", "ann"),
            ("m,who=12 n=1", "12"),
            ("m who=12", "12"),
            ("m who=12.0", "12"),
            ("m who=12i", "12"),
            ("m who=12u", "12"),
            ("m who=1.5e0", "1.5"),
            ("m who=-0", "0"),
            ("m who=1e300", "1e300"),
            ("m who=T", "true"),
            ("m who=FALSE", "false"),
        ];
        for (line, expected) in cases {
            assert_eq!(value(&schema, line, "who"), Some(Value::Text(expected.into())), "{line}");
        }
        assert_eq!(value(&schema, "m other=1", "who"), None);
        let long = format!("m who=\"{}\"", "x".repeat(257));
        let refused = take(&schema, &long).unwrap_err().to_string();
        assert_eq!(refused, "field 'who' must be a text of 0 to 256 characters");
    }

    #[test]
    fn what_is_not_declared_is_left_out_or_refused() {
        let line = "m,host=a,rack=7 n=1,load=0.5";
        assert!(take(&declared(Unknown::Ignore), line).is_ok());
        let strict = declared(Unknown::Reject);
        let refused = take(&strict, line).unwrap_err().to_string();
        assert!(refused.starts_with("unknown field 'rack'; there are"), "{refused}");
        let refused = take(&strict, "m,host=a load=0.5").unwrap_err().to_string();
        assert!(refused.starts_with("unknown field 'load'; there are"), "{refused}");
        let refused = take(&strict, "m,host=a _time=5i").unwrap_err().to_string();
        assert!(refused.starts_with("unknown field '_time'"), "{refused}");
        assert!(take(&strict, "m,host=a n=1").is_ok());
    }
}
