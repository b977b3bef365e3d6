//! From declarations to the streams, views and sinks that the node runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use consort_views::Definitions;

use super::declared::{Declaration, Kind};
use super::document::Document;
use super::problem::Problem;
use super::reader::Reader;
use super::routes::Routes;
use super::streams::{self, StreamRead};
use super::{Config, Given, sinks, views};

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
        let read =
            streams::read_stream(&mut reader, declaration, &config.engine, broker, &mut routes);
        if has_source && read.settings.amqp.is_none() {
            given.unreadable.insert("stream.amqp");
        }
        streams.insert(declaration.name.clone(), read);
    }
    let mut definitions = Definitions::default();
    for declaration in of(document, Kind::View) {
        let mut reader = Reader::new(declaration, &document.spots, &mut found);
        let view = views::read_view(&mut reader, declaration, &streams, &mut routes);
        definitions.views.extend(view.map(Arc::new));
    }
    for declaration in of(document, Kind::Sink) {
        let mut reader = Reader::new(declaration, &document.spots, &mut found);
        config.sinks.extend(sinks::read_sink(&mut reader, declaration, broker));
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
