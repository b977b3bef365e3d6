//! The relay's file: its tables, with every mistake told at its place.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use consort_line::Dialect;
use toml::de::DeTable;

use super::relay_spec::{CONFIG, RELAY, ROUTE, TARGET};
use super::{Aim, BUFFER, DATAGRAM, QUEUE, RelayConfig, Rule, Target, http_url, loopback};
use crate::config::catalog::Catalog;
use crate::config::declared::{self, Contents, Entry, Node};
use crate::config::problem::Problem;
use crate::config::reader::Reader;
use crate::config::spec::TableSpec;
use crate::config::spot::Spots;
use crate::config::suggest::nearest;
use crate::config::{ConfigFile, read};

const DATAGRAMS: RangeInclusive<u64> = 256..=60_000;
const QUEUES: RangeInclusive<u64> = 64 << 10..=4 << 30;
const BUFFERS: RangeInclusive<u64> = 64 << 10..=1 << 30;

/// Reads all tables of the file.
pub(super) fn read_file(config: &mut RelayConfig, file: &ConfigFile, problems: &mut Vec<Problem>) {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    // A target's address may hold a password: its spec hides it.
    let catalog = Catalog::from_parts(&[&CONFIG]);
    let spots = Spots::new(file, &catalog, &[], &[]);
    for error in &errors {
        let place = spots.place(&error.span().unwrap_or_default());
        problems.push(Problem::new(
            place,
            format!("not TOML: {}", error.message().replace('\n', ", ")),
        ));
    }
    // What the parser made of the rest is a guess.
    if !errors.is_empty() {
        return;
    }
    let tables = declared::entries(root.get_ref());
    let mut walk = Walk { config, spots: &spots, problems, names: BTreeMap::new() };
    for entry in &tables {
        walk.check_table(entry);
    }
    let table = |name: &str| tables.iter().find(|entry| entry.name == name);
    if let Some(entry) = table("target") {
        walk.targets(entry);
    }
    if let Some(entry) = table("relay") {
        walk.relay(entry);
    }
    if let Some(entry) = table("route") {
        walk.routes(entry);
    }
}

struct Walk<'a> {
    config: &'a mut RelayConfig,
    spots: &'a Spots<'a>,
    problems: &'a mut Vec<Problem>,
    /// The places of the targets; none of one that has a mistake.
    names: BTreeMap<String, Option<usize>>,
}

impl Walk<'_> {
    fn tell(&mut self, span: &Range<usize>, message: String) {
        self.problems.push(Problem::new(self.spots.place(span), message));
    }

    fn check_table(&mut self, entry: &Entry) {
        let known = || CONFIG.tables.iter().map(|table| table.name);
        if known().any(|name| name == entry.name) {
            return;
        }
        let hint = match nearest(&entry.name, known()) {
            Some(near) => format!("; did you mean [{near}]?"),
            None => "; there are [relay], [target.NAME] and [[route]]".to_owned(),
        };
        self.tell(&entry.span, format!("unknown table [{}]{hint}", entry.name));
    }

    /// Reads a table by its settings.
    fn read<T>(
        &mut self,
        table: String,
        span: &Range<usize>,
        entries: &[Entry],
        spec: &'static TableSpec,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        read(&mut Reader::of_table(table, span, entries, spec.settings, self.spots, self.problems))
    }

    fn targets(&mut self, entry: &Entry) {
        let Contents::Table(targets) = &entry.value.contents else {
            return self.tell(&entry.span, "'target' must be tables: write [target.NAME]".into());
        };
        for Entry { name, span, value } in targets {
            let Contents::Table(entries) = &value.contents else {
                self.tell(span, format!("'{name}' must be a table: write [target.{name}]"));
                continue;
            };
            let table = format!("target.{name}");
            let read = self.read(table, span, entries, &TARGET, read_target);
            let place = read.map(|(aim, queue)| {
                self.config.targets.push(Target { name: name.clone(), aim, queue });
                self.config.targets.len() - 1
            });
            self.names.insert(name.clone(), place);
        }
    }

    fn relay(&mut self, entry: &Entry) {
        let Contents::Table(entries) = &entry.value.contents else {
            return self.tell(&entry.span, "'relay' must be a table: write [relay]".into());
        };
        let Walk { config, names, spots, problems } = self;
        let reader = &mut Reader::of_table(
            "relay".into(),
            &entry.span,
            entries,
            RELAY.settings,
            spots,
            problems,
        );
        config.udp = reader.read("udp", read::address);
        config.tcp = reader.read("tcp", read::address);
        config.http = reader.read("http", loopback).unwrap_or(config.http);
        config.allow = reader.read("allow", read::networks).unwrap_or_default();
        let forms = [("line", Dialect::Strict), ("line-loose", Dialect::Loose)];
        config.dialect = reader.read("form", |raw| read::one_of(raw, forms)).unwrap_or_default();
        let datagram = reader.read("datagram", |raw| read::integer(raw, DATAGRAMS));
        config.datagram = datagram.unwrap_or(DATAGRAM) as usize;
        let buffer = reader.read("udp_buffer", |raw| read::size(raw, BUFFERS));
        config.buffer = buffer.unwrap_or(BUFFER);
        config.default = read_to(reader, "default", names);
    }

    fn routes(&mut self, entry: &Entry) {
        let Contents::List(rules) = &entry.value.contents else {
            return self.tell(&entry.span, "'route' must be a list: write [[route]]".into());
        };
        for (at, Node { span, contents, .. }) in rules.iter().enumerate() {
            let Contents::Table(entries) = contents else {
                self.tell(span, "'route' must be a list of tables: write [[route]]".into());
                continue;
            };
            let names = std::mem::take(&mut self.names);
            let table = format!("route {}", at + 1);
            let rule = self.read(table, span, entries, &ROUTE, |reader| read_rule(reader, &names));
            self.names = names;
            self.config.routes.push(rule);
        }
    }
}

fn read_target(reader: &mut Reader<'_>) -> Option<(Aim, usize)> {
    let udp = reader.read("udp", read::host_and_port);
    let url = reader.read("http", http_url);
    let token = reader.read("token", |raw| read::text(raw).map(str::to_owned));
    let queue = reader.read("queue", |raw| read::size(raw, QUEUES)).unwrap_or(QUEUE) as usize;
    match (reader.entry("udp"), reader.entry("http")) {
        (None, None) => {
            reader.missing(
                &["udp", "http"],
                "'udp' (a host and port) or 'http' (a URL that takes lines)",
            );
            None
        }
        (Some(_), Some(http)) => {
            let reason = "there is 'udp' already; a target has one of them: declare another target";
            reader.explain("http", &http.span, reason);
            None
        }
        (Some(_), None) => {
            if let Some(token) = reader.entry("token") {
                reader.explain("token", &token.span, "datagrams carry no token: leave it out");
            }
            Some((Aim::Udp(udp?), queue))
        }
        (None, Some(_)) => Some((Aim::Http { url: url?, token }, queue)),
    }
}

fn read_rule(reader: &mut Reader<'_>, names: &BTreeMap<String, Option<usize>>) -> Rule {
    let measurement = reader.read("measurement", |raw| read::text(raw).map(str::to_owned));
    let tag = reader.read("tag", |raw| {
        let text = read::text(raw)?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        match name {
            "" => Err("must be \"name\" or \"name=value\"".to_owned()),
            name => Ok((name.to_owned(), value)),
        }
    });
    if reader.get("measurement").is_none() && reader.get("tag").is_none() {
        reader.missing(&["measurement", "tag"], "'measurement' or 'tag': which lines it is for");
    }
    if reader.get("to").is_none() {
        reader.missing(&["to"], "'to': the targets of these lines");
    }
    Rule { measurement, tag, to: read_to(reader, "to", names) }
}

/// Names of targets.
fn read_to(
    reader: &mut Reader<'_>,
    setting: &str,
    names: &BTreeMap<String, Option<usize>>,
) -> Vec<usize> {
    let mut to = Vec::new();
    for name in reader.texts(setting, "target").unwrap_or_default() {
        match names.get(name.text) {
            Some(Some(place)) if !to.contains(place) => to.push(*place),
            Some(_) => {}
            None => {
                let hint = match nearest(name.text, names.keys().map(String::as_str)) {
                    Some(near) => format!("; did you mean '{near}'?"),
                    None => format!("; declare it with [target.{}]", name.text),
                };
                let reason = format!("no target is called '{}'{hint}", name.text);
                reader.explain(setting, name.span, reason);
            }
        }
    }
    to
}
