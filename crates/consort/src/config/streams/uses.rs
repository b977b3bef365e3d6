//! Which fields a stream of lines is used by, where its config does not declare them: what `key` and `id` name,
//! and what its views name as a whole.

use std::collections::BTreeSet;

use consort_views::form::{MEASUREMENT, TIME};

use super::fields::check_field_name;
use crate::config::declared::{Contents, Declaration, Entry, Node};
use crate::config::read;

/// Settings of a stream that name fields.
const BY_STREAM: [&str; 2] = ["key", "id"];

/// Settings of a view that may name a field without declaring it: all that is done with it is to compare.
pub(super) const BY_VIEW: [&str; 5] = ["by", "distinct", "distinct_approx", "set", "last"];

/// The names of all fields that are used by a stream and those of `views` that are kept of it.
pub(super) fn fields_used<'a>(
    stream: &Declaration,
    views: impl Iterator<Item = &'a Declaration>,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(&stream.settings, &BY_STREAM, &mut names);
    for view in views.filter(|view| is_from(view, &stream.name)) {
        collect(&view.settings, &BY_VIEW, &mut names);
    }
    names
}

fn is_from(view: &Declaration, stream: &str) -> bool {
    let from = view.settings.iter().find(|entry| entry.name == "from");
    from.is_some_and(|entry| read::text(&entry.value.raw) == Ok(stream))
}

fn collect(settings: &[Entry], wanted: &[&str], names: &mut BTreeSet<String>) {
    for entry in settings.iter().filter(|entry| wanted.contains(&&*entry.name)) {
        match &entry.value.contents {
            Contents::List(items) => items.iter().for_each(|item| collect_item(item, names)),
            _ => collect_item(&entry.value, names),
        }
    }
}

/// A name, or in `by` a table that gives it another.
fn collect_item(item: &Node, names: &mut BTreeSet<String>) {
    let text = match &item.contents {
        Contents::None => read::text(&item.raw),
        Contents::Table(entries) => match &entries[..] {
            [entry] => read::text(&entry.value.raw),
            _ => return,
        },
        Contents::List(_) => return,
    };
    if let Ok(name) = text.map(str::trim)
        && is_plain(name)
        && ![TIME, MEASUREMENT].contains(&name)
    {
        names.insert(name.to_owned());
    }
}

/// Whether an expression is just the name of a field.
pub(super) fn is_plain(expression: &str) -> bool {
    check_field_name(expression.trim()).is_ok()
}
