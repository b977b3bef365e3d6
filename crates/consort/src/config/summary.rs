//! What a config declares, in a line each.

use consort_server::once::Space;
use consort_views::{Stream, View};

use super::Config;
use super::read::duration_text;

impl Config {
    /// A line for each stream, each view, each sink and each space of once.
    pub fn declared(&self) -> Vec<String> {
        let streams = self.definitions.streams.iter().map(|stream| describe_stream(stream));
        let views = self.definitions.views.iter().map(|view| describe_view(view));
        let sinks = self.sinks.iter().map(|sink| format!("sink '{}': {}", sink.name, sink.kind));
        let once = self.once.spaces.iter().map(describe_once);
        streams.chain(views).chain(sinks).chain(once).collect()
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

fn describe_once(space: &Space) -> String {
    let Space { name, upstream, terms, headers, .. } = space;
    let mut text = format!(
        "once '{name}': asks {}, fresh for {}",
        upstream.origin(),
        duration_text(terms.fresh_for)
    );
    if !terms.stale_for.is_zero() {
        text.push_str(&format!(", stale for {}", duration_text(terms.stale_for)));
    }
    if !headers.is_empty() {
        let names: Vec<&str> = headers.iter().map(|name| name.as_str()).collect();
        text.push_str(&format!(", by {}", names.join(", ")));
    }
    text
}

/// `1 field`, `2 fields`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
