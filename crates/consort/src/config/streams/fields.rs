//! The fields of a stream, and how far they could be understood: a view must not be blamed for a
//! mistake of its stream.

use std::collections::BTreeSet;
use std::sync::Arc;

use consort_views::form::{MEASUREMENT, TIME};
use consort_views::{Field, FieldType, Form, Schema, Unknown};

use crate::config::declared::{Contents, Entry};
use crate::config::read::{self, Raw};
use crate::config::reader::Reader;

/// The longest name of a field: as long as that of a stream.
const NAME_MOST: usize = consort_views::NAME_MOST;

/// What is known of a stream's fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    /// Those that were understood.
    pub(super) schema: Arc<Schema>,
    /// Those that were not.
    unclear: BTreeSet<String>,
    /// Whether there may be others.
    incomplete: bool,
    /// Where the fields are those that were used: those that are there without it. Only these have a type
    /// that an expression can rely on.
    pub(super) firm: Option<Schema>,
}

/// What a stream says of its fields beside `fields`.
pub(super) struct Shape {
    /// None if it could not be read.
    pub(super) form: Option<Form>,
    /// None if it is not given.
    pub(super) unknown: Option<Unknown>,
    /// Those that its key, its id and its views name.
    pub(super) used: BTreeSet<String>,
}

impl Fields {
    /// Those of a stream of which nothing is known.
    pub(super) fn unknown() -> Fields {
        Fields { incomplete: true, ..Fields::default() }
    }

    /// Whether the field may be there although the schema does not have it.
    pub(super) fn excuse(&self, name: &str) -> bool {
        self.incomplete || self.unclear.contains(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.schema
            .fields()
            .iter()
            .map(|field| &*field.name)
            .chain(self.unclear.iter().map(|n| &**n))
    }
}

/// Whether a field, or a part of a group, may have this name; otherwise what it must be.
pub(super) fn check_field_name(name: &str) -> Result<(), String> {
    let wanted = "letters, digits, '_', '-' and '.'";
    read::name(&Raw::Text(name.into()), NAME_MOST, name_character, wanted).map(drop)
}

fn name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.".contains(c)
}

/// Reads `fields`.
pub(super) fn read_fields(reader: &mut Reader<'_>, shape: Shape) -> Fields {
    let Some(node) = reader.get("fields") else {
        return match shape.form {
            Some(Form::Json) => {
                let example =
                    "what each event has, as in fields = { user = \"int\", name = \"text\" }";
                reader.missing(&["fields"], format!("'fields': {example}"));
                Fields::unknown()
            }
            Some(Form::Line(_)) if !reader.may_have("fields") => inferred(shape),
            _ => Fields::unknown(),
        };
    };
    let Contents::Table(entries) = &node.contents else {
        let wanted =
            "must be a table of names and types, as in { user = \"int\", name = \"text\" }";
        reader.wrong("fields", &node.span, format!("{wanted}, not {}", node.raw.kind()));
        return Fields::unknown();
    };
    if entries.is_empty() {
        reader.wrong("fields", &node.span, "must have at least one field");
        return Fields::unknown();
    }
    let mut good = Vec::new();
    let mut unclear = BTreeSet::new();
    for entry in entries {
        match read_field(reader, entry, shape.form) {
            Some(field) => good.push(field),
            None => {
                unclear.insert(entry.name.clone());
            }
        }
    }
    // Events are stored by this order, which must not depend on that of the file.
    good.sort_by(|a, b| a.name.cmp(&b.name));
    let incomplete = reader.is_broken() || shape.form.is_none();
    Fields { schema: Arc::new(schema(good, &shape)), unclear, incomplete, firm: None }
}

/// The fields that are used, each a text that may be absent.
fn inferred(shape: Shape) -> Fields {
    let Ok(ty) = "text?".parse::<FieldType>() else { return Fields::unknown() };
    let field = |name: &String| Field { name: name.clone(), ty: ty.clone() };
    let all = schema(shape.used.iter().map(field).collect(), &shape).inferred();
    let firm = Some(schema(Vec::new(), &shape));
    Fields { schema: Arc::new(all), firm, ..Fields::default() }
}

/// Agents send a lot that nobody asked for, so lines with more than the stream has are good by default.
fn schema(fields: Vec<Field>, shape: &Shape) -> Schema {
    match shape.form {
        Some(Form::Line(dialect)) => {
            Schema::of_lines(fields, shape.unknown.unwrap_or(Unknown::Ignore), dialect)
        }
        _ => Schema::new(fields, shape.unknown.unwrap_or_default()),
    }
}

fn read_field(
    reader: &mut Reader<'_>,
    Entry { name, span, value }: &Entry,
    form: Option<Form>,
) -> Option<Field> {
    if form.is_some_and(Form::is_line) && [TIME, MEASUREMENT].contains(&&**name) {
        let reason = format!("every line has '{name}', without declaring it: leave it out");
        reader.explain("fields", span, reason);
        return None;
    }
    if let Err(wrong) = check_field_name(name) {
        reader.explain("fields", span, format!("the name of a field {wrong}"));
        return None;
    }
    let text = match read::text(&value.raw) {
        Ok(text) => text,
        Err(wrong) => {
            reader.explain("fields", &value.span, format!("the type of '{name}' {wrong}"));
            return None;
        }
    };
    match text.parse::<FieldType>() {
        Ok(ty) => Some(Field { name: name.clone(), ty }),
        Err(error) => {
            reader.explain("fields", &value.span, format!("the type of '{name}': {error}"));
            None
        }
    }
}
