//! From declarations to the streams, views, sinks and spaces of once that the node runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_views::Definitions;

use super::declared::{Declaration, Kind};
use super::document::Document;
use super::problem::Problem;
use super::reader::Reader;
use super::routes::Routes;
use super::sinks::Sinks;
use super::streams::{self, Around, StreamRead};
use super::{Config, Given, once, sinks, udp, uses, views};

/// Reads all declarations of a file. What has a mistake is told and left out.
pub(super) fn read(
    config: &mut Config,
    document: &Document<'_>,
    given: &mut Given,
    problems: &mut Vec<Problem>,
) {
    let mut found = Vec::new();
    let mut routes = Routes::default();
    let broker = match given.unreadable.contains("engine.broker") {
        true => Err(()),
        false => Ok(config.engine.broker.as_ref()),
    };
    let mut streams: BTreeMap<String, StreamRead> = BTreeMap::new();
    for declaration in of(document, Kind::Stream) {
        let mut reader = Reader::new(declaration, &document.spots, &mut found);
        let has_source = reader.get("amqp").is_some();
        let used = uses::of_stream(declaration, of(document, Kind::View));
        let around = Around { engine: &config.engine, broker, used };
        let read = streams::read_stream(&mut reader, declaration, around, &mut routes);
        let others =
            streams.iter().filter_map(|(name, read)| Some((name, read.settings.udp.as_ref()?)));
        if let Some(source) = &read.settings.udp
            && let Some(other) = udp::taken(others, source.listen)
            && let Some(entry) = reader.entry("udp")
        {
            let reason = format!("[stream.{other}] has {} already", source.listen);
            reader.explain("udp", &entry.value.span, reason);
        }
        if has_source && read.settings.amqp.is_none() {
            given.unreadable.insert("stream.amqp");
        }
        streams.insert(declaration.name.clone(), read);
    }
    for declaration in of(document, Kind::Sink) {
        let mut reader = Reader::new(declaration, &document.spots, &mut found);
        config.sinks.extend(sinks::read_sink(&mut reader, declaration, broker));
    }
    let mut definitions = Definitions::default();
    // Those with a mistake are there, too: it is told once.
    let sinks: Vec<&str> = of(document, Kind::Sink).map(|sink| sink.name.as_str()).collect();
    for declaration in of(document, Kind::View) {
        let mut reader = Reader::new(declaration, &document.spots, &mut found);
        let sinks = Sinks { names: &sinks, read: &config.sinks };
        let around = views::Around { streams: &streams, sinks };
        let view = views::read_view(&mut reader, declaration, &around, &mut routes);
        if let Some(view) = view.as_ref().filter(|view| view.windows.is_some()) {
            config.rows.insert(view.name.to_string(), view.sinks.clone());
        }
        definitions.views.extend(view.map(Arc::new));
    }
    for declaration in of(document, Kind::Once) {
        let mut reader = Reader::new(declaration, &document.spots, &mut found);
        config.once.spaces.extend(once::read_once(&mut reader, declaration));
    }
    routes.check(&document.spots, &mut found);
    document.tell(found, problems);
    for declaration in of(document, Kind::Stream) {
        let Some(read) = streams.remove(&declaration.name) else { continue };
        definitions.streams.extend(read.stream);
        config.streams.insert(declaration.name.clone(), read.settings);
    }
    config.definitions = definitions;
}

/// The declarations of one kind, in the order of the file.
fn of<'a>(document: &'a Document<'_>, kind: Kind) -> impl Iterator<Item = &'a Declaration> {
    document.declarations.iter().filter(move |declaration| declaration.kind == kind)
}
