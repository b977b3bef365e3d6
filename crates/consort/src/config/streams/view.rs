//! `[view.NAME]`: what is kept of a stream, for which groups, and how it is asked.

use std::sync::Arc;

use consort_kernel::Name;
use consort_views::view::Shown;
use consort_views::{Aggregate, Answer, Expression, GroupField, Kind, Method, Route, View};

use super::StreamsConfig;
use super::fields::{Fields, check_field_name};
use super::stream::{StreamRead, StreamsRead};
use super::windows::read_windows;
use crate::config::declared::{Contents, Declaration, Entry, Node};
use crate::config::feeds::{Sinks, read_sinks};
use crate::config::part::Context;
use crate::config::read;
use crate::config::reader::{Reader, Spanned};
use crate::config::routes::Routes;
use crate::config::suggest::nearest;
use crate::rows::Rows;

/// Reads a `[view.NAME]`.
pub(super) fn read_declaration(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    context: &mut Context<'_>,
) {
    let sinks = Sinks::declared(context);
    let streams = context.notes::<StreamsRead>().clone();
    let view = read_view(reader, declaration, &streams, &sinks, &mut context.routes);
    context.config.part_mut::<StreamsConfig>().definitions.views.extend(view.map(Arc::new));
}

/// Reads a view of one of the streams; none if there is a mistake in it or in its stream.
fn read_view(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    streams: &StreamsRead,
    known_sinks: &Sinks<'_>,
    routes: &mut Routes,
) -> Option<View> {
    let from = read_from(reader, streams);
    let unknown = Fields::unknown();
    let fields = from.map_or(&unknown, |from| &from.fields);
    let by = read_by(reader, fields);
    let aggregate = read_aggregate(reader, fields);
    let condition = read_condition(reader, fields);
    let windows = read_windows(reader);
    let sinks = read_sinks(reader, known_sinks, &Rows);
    let view_routes = read_routes(reader, by.as_deref(), routes);
    let answer = read_answer(reader, by.as_deref());
    let stream = from?.stream.clone()?;
    if reader.is_flawed() {
        return None;
    }
    Some(View {
        number: 0,
        name: Name::new(&declaration.name).ok()?,
        from: stream,
        by: by?.into_iter().map(|group| group.field).collect::<Option<_>>()?,
        aggregate: aggregate?,
        condition,
        windows,
        sinks,
        routes: view_routes,
        answer,
    })
}

fn read_from<'s>(reader: &mut Reader<'_>, streams: &'s StreamsRead) -> Option<&'s StreamRead> {
    if reader.get("from").is_none() {
        reader.missing(&["from"], "'from': the stream that it is kept of");
    }
    let Spanned { text, span } = reader.text("from")?;
    let found = streams.get(text);
    if found.is_none() {
        let hint = match nearest(text, streams.keys().map(String::as_str)) {
            Some(near) => format!("; did you mean '{near}'?"),
            None if streams.is_empty() => format!("; declare it with [stream.{text}]"),
            None => {
                let names: Vec<String> = streams.keys().map(|name| format!("'{name}'")).collect();
                format!("; there are {}", names.join(", "))
            }
        };
        reader.explain("from", span, format!("no stream is called '{text}'{hint}"));
    }
    found
}

/// A part of a group, of which at least the name is known.
struct Group {
    name: String,
    field: Option<GroupField>,
}

/// The fields that tell groups apart; none if not even their names are known.
fn read_by(reader: &mut Reader<'_>, fields: &Fields) -> Option<Vec<Group>> {
    let Some(node) = reader.get("by") else {
        // Without `by` there is one group; but a misspelt one is there and not understood.
        return (!reader.may_have("by")).then(Vec::new);
    };
    let Contents::List(items) = &node.contents else {
        let wanted = "must be a list of fields, as in [\"user\", { hour = \"time / 60\" }]";
        reader.wrong("by", &node.span, format!("{wanted}, not {}", node.raw.kind()));
        return None;
    };
    let mut by: Vec<Group> = Vec::new();
    let mut unreadable = reader.is_broken();
    for item in items {
        let Some(group) = read_group(reader, fields, item) else {
            unreadable = true;
            continue;
        };
        if by.iter().any(|known| known.name == group.name) {
            reader.explain("by", &item.span, format!("'{}' comes twice", group.name));
        } else {
            by.push(group);
        }
    }
    (!unreadable).then_some(by)
}

fn read_group(reader: &mut Reader<'_>, fields: &Fields, item: &Node) -> Option<Group> {
    match &item.contents {
        Contents::None => {
            let text = reader.read_node("by", item, |raw| read::text(raw).map(str::to_owned))?;
            // A plain name: an expression would have no name to be asked by.
            let advice = match check_field_name(&text) {
                Ok(()) => String::new(),
                Err(_) => format!("; an expression needs a name: {{ name = \"{text}\" }}"),
            };
            let field = match fields.schema.resolve(&text) {
                Some(_) => {
                    let spanned = Spanned { text: &text, span: &item.span };
                    let expression = reader.expression("by", fields, &spanned);
                    expression.map(|expression| GroupField { name: text.clone(), expression })
                }
                None if fields.excuse(&text) => {
                    reader.excuse();
                    None
                }
                // A route with the right name must not be told that `by` does not have it.
                None => {
                    reader.unknown_field("by", fields, &text, &item.span, &advice);
                    return None;
                }
            };
            Some(Group { name: text, field })
        }
        Contents::Table(entries) => match &entries[..] {
            [Entry { name, span, value }] => {
                if let Err(wrong) = check_field_name(name) {
                    reader.explain("by", span, format!("the name of an expression {wrong}"));
                    return None;
                }
                let text = reader.read_node("by", value, |raw| read::text(raw).map(str::to_owned));
                let field = text.and_then(|text| {
                    let spanned = Spanned { text: &text, span: &value.span };
                    let expression = reader.expression("by", fields, &spanned)?;
                    Some(GroupField { name: name.clone(), expression })
                });
                Some(Group { name: name.clone(), field })
            }
            _ => {
                let wanted = "must have tables of one name each, as in { hour = \"time / 60\" }";
                reader.wrong("by", &item.span, wanted);
                None
            }
        },
        Contents::List(_) => {
            reader.wrong("by", &item.span, "must not have a list in its list");
            None
        }
    }
}

fn read_aggregate(reader: &mut Reader<'_>, fields: &Fields) -> Option<Aggregate> {
    let mut given: Vec<&Entry> =
        Aggregate::NAMES.iter().filter_map(|name| reader.entry(name)).collect();
    given.sort_by_key(|entry| entry.span.start);
    let Some(first) = given.first() else {
        let names: Vec<String> = Aggregate::NAMES.iter().map(|name| format!("'{name}'")).collect();
        reader.missing(&Aggregate::NAMES, format!("one of {}", names.join(", ")));
        return None;
    };
    for more in &given[1..] {
        let reason = format!(
            "there is '{}' already; a view keeps one of them: declare another view",
            first.name
        );
        reader.explain(&more.name, &more.span, reason);
    }
    let aggregates: Vec<Option<Aggregate>> =
        given.iter().map(|entry| read_one_aggregate(reader, fields, entry)).collect();
    aggregates.into_iter().next().flatten()
}

fn read_one_aggregate(
    reader: &mut Reader<'_>,
    fields: &Fields,
    Entry { name, value, .. }: &Entry,
) -> Option<Aggregate> {
    let setting = name.as_str();
    match setting {
        "count" => match reader.read(setting, read::flag)? {
            true => Some(Aggregate::Count),
            false => {
                reader.wrong(setting, &value.span, "must be true; leave it out otherwise");
                None
            }
        },
        "distinct" | "distinct_approx" => {
            let texts = reader.texts(setting, "expression")?;
            let all: Vec<Option<Expression>> =
                texts.iter().map(|text| reader.expression(setting, fields, text)).collect();
            let all: Vec<Expression> = all.into_iter().collect::<Option<_>>()?;
            Some(match setting {
                "distinct" => Aggregate::Distinct(all),
                _ => Aggregate::DistinctApprox(all),
            })
        }
        _ => {
            let text = reader.text(setting)?;
            let one = reader.expression(setting, fields, &text)?;
            match setting {
                "sum" if !matches!(one.kind(), Kind::Int | Kind::Decimal(_)) => {
                    let kind = one.kind();
                    let wrong =
                        format!("must be of type int or decimal, but '{}' is {kind}", one.text());
                    reader.wrong(setting, text.span, wrong);
                    None
                }
                "sum" => Some(Aggregate::Sum(one)),
                "min" => Some(Aggregate::Min(one)),
                "max" => Some(Aggregate::Max(one)),
                "last" => Some(Aggregate::Last(one)),
                _ => Some(Aggregate::Set(one)),
            }
        }
    }
}

fn read_condition(reader: &mut Reader<'_>, fields: &Fields) -> Option<Expression> {
    let text = reader.text("where")?;
    let condition = reader.expression("where", fields, &text)?;
    if condition.kind() != Kind::Bool {
        let kind = condition.kind();
        let wrong = format!("must be of type bool, but '{}' is {kind}", condition.text());
        reader.wrong("where", text.span, wrong);
    }
    Some(condition)
}

fn read_routes(reader: &mut Reader<'_>, by: Option<&[Group]>, routes: &mut Routes) -> Vec<Route> {
    let mut read = Vec::new();
    for text in reader.texts("route", "route").unwrap_or_default() {
        let Some(route) = routes.read(reader, &text, Method::Get) else { continue };
        if let Some(by) = by {
            check_path(reader, by, &route, &text);
        }
        routes.add(reader, &route, text.span);
        read.push(route);
    }
    read
}

/// Groups are kept in the order of `by`, so a path can give all of it, or the first of it.
fn check_path(reader: &mut Reader<'_>, by: &[Group], route: &Route, text: &Spanned<'_>) {
    let names = || by.iter().map(|group| group.name.as_str());
    let mut unknown =
        route.fields.iter().filter(|field| names().all(|name| name != **field)).peekable();
    if unknown.peek().is_some() {
        for field in unknown {
            let hint = match nearest(field, names()) {
                Some(near) => format!("; did you mean '{near}'?"),
                None if by.is_empty() => "; there is no 'by'".to_owned(),
                None => format!("; there are {}", quoted(names())),
            };
            reader.explain("route", text.span, format!("'{field}' is not in 'by'{hint}"));
        }
        return;
    }
    let leading = &by[..route.fields.len().min(by.len())];
    if let Some(left_out) = leading.iter().find(|group| !route.fields.contains(&group.name)) {
        let reason = format!(
            "'{}' is left out of the path: groups are ordered by {}, so give the first of them, or all",
            left_out.name,
            quoted(names())
        );
        reader.explain("route", text.span, reason);
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

fn read_answer(reader: &mut Reader<'_>, by: Option<&[Group]>) -> Option<Answer> {
    let entry = reader.entry("answer")?;
    if reader.get("route").is_none() && !reader.may_have("route") {
        let reason = "it is the shape of answers on routes, and there is no 'route'";
        reader.explain("answer", &entry.span, reason);
    }
    let node = &entry.value;
    let wanted = "must be \"value\", or a table of names to \"value\" or fields of 'by', as in { total = \"value\" }";
    let Contents::Table(entries) = &node.contents else {
        let bare = read::text(&node.raw).is_ok_and(|text| text == "value");
        if !bare {
            reader.wrong("answer", &node.span, wanted);
        }
        return bare.then_some(Answer::Bare);
    };
    if entries.is_empty() {
        reader.wrong("answer", &node.span, wanted);
    }
    let shown: Vec<Option<(String, Shown)>> =
        entries.iter().map(|entry| read_shown(reader, by, entry)).collect();
    shown.into_iter().collect::<Option<_>>().map(Answer::Object)
}

fn read_shown(
    reader: &mut Reader<'_>,
    by: Option<&[Group]>,
    Entry { name, value, .. }: &Entry,
) -> Option<(String, Shown)> {
    let text = reader.read_node("answer", value, |raw| read::text(raw).map(str::to_owned))?;
    if text == "value" {
        return Some((name.clone(), Shown::Value));
    }
    let by = by?;
    if let Some(at) = by.iter().position(|group| group.name == text) {
        return Some((name.clone(), Shown::Group(at)));
    }
    let names = || by.iter().map(|group| group.name.as_str()).chain(["value"]);
    let hint = match nearest(&text, names()) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => format!("; there are {}", quoted(names())),
    };
    reader.explain("answer", &value.span, format!("'{text}' is not in 'by'{hint}"));
    None
}
