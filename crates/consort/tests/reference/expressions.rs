//! `expressions.md`: types, operators and functions.

use consort_views::language::{EXAMPLE_EVENT, EXAMPLE_FIELDS, FORMS, TYPES};

use super::{compare, row};

const HEAD: &str = "
# Types and expressions

`fields` of a stream gives each field a type. `sum`, `min`, `max`, `last`, `distinct`, `set` and `where` of a view take
expressions over these fields. They are a subset of [CEL](https://cel.dev), checked when the config is read.

## Types

| type | values | a range bounds | example |
| --- | --- | --- | --- |
";

const TYPES_FOOT: &str = "
A `?` behind the name of the type means that the field may be absent: `int? 0..60`. Ranges include both ends.

## Operators and functions

An expression over an absent field is absent, and the event then changes nothing in that view. `a == null` and
`a != null` ask for absence; `a && b` and `a || b` are known as soon as one side decides. A result that does not fit,
and a division by zero, reject the event for that view; `GET /views/{view}/rejects` lists it.

Texts stand in single or double quotes. Whole numbers are the only numbers in an expression; compare a decimal with
another field.

The examples use this event:
";

const FORMS_HEAD: &str = "
| form | operands | value | example |
| --- | --- | --- | --- |
";

#[test]
fn the_page_of_expressions_is_current() {
    let mut text = HEAD.to_owned();
    for form in TYPES {
        let range = if form.range.is_empty() { "–" } else { form.range };
        text.push_str(&row(&[
            &format!("`{}`", form.name),
            form.holds,
            range,
            &format!("`{}`", form.example),
        ]));
    }
    text.push_str(TYPES_FOOT);
    text.push_str(&format!("\n```json figure\n{EXAMPLE_EVENT}\n```\n"));
    let fields: Vec<String> =
        EXAMPLE_FIELDS.iter().map(|(name, ty)| format!("{name} = \"{ty}\"")).collect();
    text.push_str(&format!(
        "\nof a stream with these fields:\n\n```toml\n[stream.visits]\nfields = {{ {} }}\n```\n",
        fields.join(", ")
    ));
    text.push_str(FORMS_HEAD);
    for form in FORMS {
        let (example, value) = form.example;
        text.push_str(&row(&[
            &format!("`{}`", form.form),
            form.operands,
            form.gives,
            &format!("`{example}` is `{value}`"),
        ]));
    }
    compare("expressions.md", &text);
}
