//! What a config declares of streams and views, in a line each.

use consort_views::{Stream, View};

use crate::config::Config;
use crate::config::part::{Summary, counted};

pub(super) fn summary(config: &Config) -> Summary {
    let definitions = config.definitions();
    let streams = definitions.streams.iter().map(|stream| describe_stream(stream));
    let views = definitions.views.iter().map(|view| describe_view(view));
    Summary {
        counts: vec![
            counted(definitions.streams.len(), "stream"),
            counted(definitions.views.len(), "view"),
        ],
        lines: streams.chain(views).collect(),
    }
}

fn describe_stream(stream: &Stream) -> String {
    let fields = stream.schema.fields();
    let mut parts =
        vec![counted(fields.len(), "field"), counted(stream.partitions as usize, "partition")];
    if !stream.key.is_empty() {
        let key: Vec<&str> = stream.key.iter().map(|at| &*fields[*at].name).collect();
        parts.push(format!("key {}", key.join(" and ")));
    }
    if stream.schema.form().is_line() {
        parts.insert(0, format!("form {}", stream.schema.form()));
    }
    parts.extend(stream.id.map(|at| format!("id {}", fields[at].name)));
    parts.extend(stream.time.map(|at| format!("time {}", fields[at].name)));
    parts.extend(stream.route.as_ref().map(ToString::to_string));
    format!("stream '{}': {}", stream.name, parts.join(", "))
}

fn describe_view(view: &View) -> String {
    let expressions: Vec<&str> = view.aggregate.expressions().iter().map(|e| e.text()).collect();
    let mut text = format!("view '{}': {}", view.name, view.aggregate.name());
    if !expressions.is_empty() {
        text.push_str(&format!("({})", expressions.join(", ")));
    }
    let by: Vec<String> = view
        .by
        .iter()
        .map(|field| match field.expression.text() == field.name {
            true => field.name.clone(),
            false => format!("{} = {}", field.name, field.expression.text()),
        })
        .collect();
    if !by.is_empty() {
        text.push_str(&format!(" by {}", by.join(", ")));
    }
    if let Some(condition) = &view.condition {
        text.push_str(&format!(" where {}", condition.text()));
    }
    if let Some(windows) = &view.windows {
        text.push_str(&format!(" in windows of {:?}", windows.length));
    }
    if !view.sinks.is_empty() {
        text.push_str(&format!(" to {}", view.sinks.join(", ")));
    }
    for route in &view.routes {
        text.push_str(&format!(", {route}"));
    }
    text
}
