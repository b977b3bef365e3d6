//! The types of fields and the forms of expressions as data, for the reference page. The tests hold each line against
//! the parser and the evaluation.

/// A type of fields.
#[derive(Clone, Copy, Debug)]
pub struct TypeForm {
    pub name: &'static str,
    pub holds: &'static str,
    /// What a range behind the type bounds; empty if it takes none.
    pub range: &'static str,
    pub example: &'static str,
}

/// An operator or a function.
#[derive(Clone, Copy, Debug)]
pub struct ExpressionForm {
    pub form: &'static str,
    /// The types of its operands.
    pub operands: &'static str,
    /// The type of its value.
    pub gives: &'static str,
    /// An example over the event of the reference page, and its value.
    pub example: (&'static str, &'static str),
}

/// All types.
pub const TYPES: &[TypeForm] = &[
    TypeForm {
        name: "int",
        holds: "A whole number of 64 bits.",
        range: "the value",
        example: "int 1..10",
    },
    TypeForm {
        name: "decimal(DIGITS)",
        holds: "An exact decimal number with this many digits behind the point, 0 to 18.",
        range: "the value",
        example: "decimal(2) 0..99.99",
    },
    TypeForm {
        name: "text",
        holds: "A text of at most 256 characters, unless a range permits more.",
        range: "the number of characters",
        example: "text 1..32",
    },
    TypeForm { name: "bool", holds: "`true` or `false`.", range: "", example: "bool" },
];

/// The event of all examples, as JSON; its fields have the types of [`EXAMPLE_FIELDS`].
pub const EXAMPLE_EVENT: &str =
    r#"{"lift": 7, "time": 125, "name": "Ann", "vip": true, "paid": "1.50"}"#;

/// The fields of the example.
pub const EXAMPLE_FIELDS: &[(&str, &str)] = &[
    ("lift", "int"),
    ("time", "int"),
    ("name", "text"),
    ("vip", "bool"),
    ("wait", "int?"),
    ("paid", "decimal(2)"),
];

macro_rules! forms {
    ($($form:literal, $operands:literal => $gives:literal, $example:literal = $value:literal;)*) => {
        /// All operators and functions.
        pub const FORMS: &[ExpressionForm] = &[$(ExpressionForm {
            form: $form,
            operands: $operands,
            gives: $gives,
            example: ($example, $value),
        }),*];
    };
}

forms! {
    "a + b", "int, or decimal of the same digits" => "the same", "paid + paid" = "3.00";
    "a + b", "text" => "text", "name + '!'" = "Ann!";
    "a - b", "int, or decimal of the same digits" => "the same", "lift - 10" = "-3";
    "a * b", "int, or int and decimal" => "int, or decimal", "paid * 3" = "4.50";
    "a / b", "int" => "int, rounded towards zero", "time / 60" = "2";
    "a % b", "int" => "int, with the sign of a", "time % 60" = "5";
    "-a", "int or decimal" => "the same", "-lift" = "-7";
    "a == b", "two of one type" => "bool", "name == 'Ann'" = "true";
    "a != b", "two of one type" => "bool", "lift != 7" = "false";
    "a < b", "two of one type" => "bool", "lift < 8" = "true";
    "a <= b", "two of one type" => "bool", "lift <= 7" = "true";
    "a > b", "two of one type" => "bool", "name > 'Bob'" = "false";
    "a >= b", "two of one type" => "bool", "lift >= 8" = "false";
    "a && b", "bool" => "bool", "vip && lift > 5" = "true";
    "a || b", "bool" => "bool", "!vip || lift > 9" = "false";
    "!a", "bool" => "bool", "!vip" = "false";
    "a ? b : c", "bool, then two of one type" => "that type", "vip ? lift : 0" = "7";
    "a in [b, c]", "constants of the type of a" => "bool", "lift in [1, 7]" = "true";
    "a == null", "a field" => "bool", "wait == null" = "true";
    "a != null", "a field" => "bool", "wait != null" = "false";
    "size(a)", "text" => "int, the number of characters", "size(name)" = "3";
    "a.startsWith(b)", "text" => "bool", "name.startsWith('A')" = "true";
    "a.endsWith(b)", "text" => "bool", "name.endsWith('A')" = "false";
    "a.contains(b)", "text" => "bool", "name.contains('n')" = "true";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Unknown};
    use crate::value::{Kind, TEXT_MOST, Value};
    use crate::{Expression, ExpressionError, FieldType, Schema};

    fn schema() -> Schema {
        let field =
            |(name, ty): &(&str, &str)| Field { name: (*name).to_owned(), ty: ty.parse().unwrap() };
        Schema::new(EXAMPLE_FIELDS.iter().map(field).collect(), Unknown::Reject)
    }

    fn shown(value: &Value) -> String {
        match value {
            Value::Bool(value) => value.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Decimal(steps) => format!("{}.{:02}", steps / 100, steps % 100),
            Value::Text(text) => text.to_string(),
        }
    }

    #[test]
    fn every_example_has_the_value_that_the_reference_shows() {
        let schema = schema();
        let event = schema.take(EXAMPLE_EVENT.as_bytes()).unwrap();
        for form in FORMS {
            let (text, expected) = form.example;
            let expression = Expression::parse(text, &schema).unwrap();
            let value = expression.evaluate(&event).unwrap().unwrap();
            assert_eq!(shown(&value), expected, "{text}");
        }
    }

    #[test]
    fn every_operator_and_function_of_cel_is_listed_or_refused() {
        let schema = schema();
        let operands = ["lift", "name", "vip", "paid", "wait"];
        let candidates = [
            "a + b",
            "a - b",
            "a * b",
            "a / b",
            "a % b",
            "-a",
            "a == b",
            "a != b",
            "a < b",
            "a <= b",
            "a > b",
            "a >= b",
            "a && b",
            "a || b",
            "!a",
            "a ? b : c",
            "a in [b, c]",
            "a == null",
            "a != null",
            "size(a)",
            "a.startsWith(b)",
            "a.endsWith(b)",
            "a.contains(b)",
            "a.matches(b)",
            "a.size()",
            "has(a.b)",
            "a[b]",
            "int(a)",
            "double(a)",
            "string(a)",
            "bool(a)",
            "duration(a)",
            "timestamp(a)",
            "max(a, b)",
            "min(a, b)",
            "type(a)",
            "[a, b].exists(c, c > 0)",
            "a > null",
        ];
        for candidate in candidates {
            let accepted = operands.iter().any(|operand| {
                let second = if candidate.contains('[') { constant(operand) } else { operand };
                let first = if candidate.contains('?') { "vip" } else { operand };
                let text: String = candidate
                    .split_inclusive(|c: char| !c.is_ascii_alphanumeric())
                    .map(|word| match word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()) {
                        "a" => word.replacen('a', first, 1),
                        "b" => word.replacen('b', second, 1),
                        "c" => word.replacen('c', second, 1),
                        _ => word.to_owned(),
                    })
                    .collect();
                Expression::parse(&text, &schema).is_ok()
            });
            // `a.size()` is another way to write `size(a)`.
            let listed = FORMS.iter().any(|form| form.form == candidate) || candidate == "a.size()";
            assert_eq!(accepted, listed, "{candidate}");
        }
    }

    fn constant(field: &str) -> &'static str {
        match field {
            "lift" | "wait" => "1",
            "name" => "'Ann'",
            _ => "true",
        }
    }

    #[test]
    fn the_message_about_other_constructs_names_every_function() {
        let message = ExpressionError::NotTaken("x".into()).to_string();
        for form in FORMS {
            let function = form.form.trim_start_matches("a.").split('(').next().unwrap_or_default();
            if form.form.contains('(') {
                assert!(message.contains(&format!("{function}()")), "{function}: {message}");
            }
        }
    }

    #[test]
    fn every_type_is_listed_with_an_example_that_parses() {
        let kinds: Vec<Kind> =
            TYPES.iter().map(|form| form.example.parse::<FieldType>().unwrap().kind).collect();
        assert_eq!(kinds, [Kind::Int, Kind::Decimal(2), Kind::Text, Kind::Bool]);
        let message = "none".parse::<FieldType>().unwrap_err().to_string();
        for form in TYPES {
            assert!(message.contains(form.name), "{message}");
            let with_range = format!("{} 0..1", form.name.replace("DIGITS", "2"));
            assert_eq!(
                with_range.parse::<FieldType>().is_ok(),
                !form.range.is_empty(),
                "{with_range}"
            );
        }
        assert!(TYPES[2].holds.contains(&TEXT_MOST.to_string()));
    }
}
