//! The settings of `consort relay`: where lines come in, which targets there are, and which lines go to which.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};

use consort_line::Dialect;
use consort_server::udp::IpNet;
use consort_views::Form;
use toml::de::DeTable;

use super::declared::{self, Entry, Node, Parts};
use super::problem::{Place, Problem, Problems};
use super::read::{self, Raw};
use super::reader::Reader;
use super::spot::Spots;
use super::suggest::nearest;
use super::{ConfigFile, udp};

const TABLES: [&str; 3] = ["relay", "target", "route"];
const RELAY: [&str; 8] =
    ["udp", "tcp", "http", "allow", "form", "default", "datagram", "udp_buffer"];
const TARGET: [&str; 4] = ["udp", "http", "token", "queue"];
const ROUTE: [&str; 3] = ["measurement", "tag", "to"];

/// Datagrams of this size pass an Ethernet without being cut in parts, with room for tunnels.
const DATAGRAM: u64 = 1400;
const DATAGRAMS: RangeInclusive<u64> = 256..=60_000;

/// What waits for a target that does not take it: some minutes of a usual stream.
const QUEUE: u64 = 16 << 20;
const QUEUES: RangeInclusive<u64> = 64 << 10..=4 << 30;

const BUFFER: u64 = 8 << 20;
const BUFFERS: RangeInclusive<u64> = 64 << 10..=1 << 30;

/// Where the counters are shown.
const HTTP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7401);

/// Everything a relay can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayConfig {
    /// Where datagrams come in.
    pub udp: Option<SocketAddr>,
    /// Where lines come in over connections.
    pub tcp: Option<SocketAddr>,
    /// Where the counters are shown.
    pub http: SocketAddr,
    /// Who may send; everybody who can, if it is empty.
    pub allow: Vec<IpNet>,
    pub dialect: Dialect,
    /// The largest datagram that holds more than one line.
    pub datagram: usize,
    /// What the kernel is asked to hold of datagrams, in bytes.
    pub buffer: u64,
    pub targets: Vec<Target>,
    /// The first that a line fits decides.
    pub routes: Vec<Rule>,
    /// The targets of lines that fit no route, by their places.
    pub default: Vec<usize>,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub aim: Aim,
    /// Bytes of lines that may wait for it.
    pub queue: usize,
}

/// How lines get there.
#[derive(Clone, PartialEq, Eq)]
pub enum Aim {
    /// Datagrams to a host and port.
    Udp(String),
    /// Batches to a URL, which may hold a password.
    Http { url: url::Url, token: Option<String> },
}

/// Which lines go where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub measurement: Option<String>,
    /// A tag that the line must have, and perhaps its value.
    pub tag: Option<(String, Option<String>)>,
    /// The targets, by their places.
    pub to: Vec<usize>,
}

/// What the command line says beside the file.
#[derive(Debug, Clone, Default)]
pub struct RelayFlags {
    pub udp: Option<String>,
    pub tcp: Option<String>,
    pub http: Option<String>,
    pub allow: Vec<String>,
    pub form: Option<String>,
    /// Targets of all lines: hosts with ports for datagrams, or URLs.
    pub to: Vec<String>,
}

impl RelayConfig {
    /// Reads the file, and lays the flags over it.
    pub fn resolve(file: Option<&ConfigFile>, flags: &RelayFlags) -> Result<RelayConfig, Problems> {
        let mut config = RelayConfig {
            udp: None,
            tcp: None,
            http: HTTP,
            allow: Vec::new(),
            dialect: Dialect::Strict,
            datagram: DATAGRAM as usize,
            buffer: BUFFER,
            targets: Vec::new(),
            routes: Vec::new(),
            default: Vec::new(),
        };
        let mut problems = Vec::new();
        if let Some(file) = file {
            read_file(&mut config, file, &mut problems);
        }
        read_flags(&mut config, flags, &mut problems);
        if problems.is_empty() {
            check(&config, file, &mut problems);
        }
        if problems.is_empty() { Ok(config) } else { Err(Problems::new(problems)) }
    }
}

impl std::fmt::Debug for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Aim::Udp(address) => f.debug_tuple("Udp").field(address).finish(),
            Aim::Http { url, .. } => f.debug_tuple("Http").field(&url.host_str()).finish(),
        }
    }
}

fn read_file(config: &mut RelayConfig, file: &ConfigFile, problems: &mut Vec<Problem>) {
    let (root, errors) = DeTable::parse_recoverable(&file.text);
    // A target's address may hold a password, so no line of values is shown.
    let spots = Spots::new(file, &[], &[]);
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
        if TABLES.contains(&&*entry.name) {
            return;
        }
        let hint = match nearest(&entry.name, TABLES) {
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
        known: &[&'static str],
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        read(&mut Reader::of_table(table, span, entries, known, self.spots, self.problems))
    }

    fn targets(&mut self, entry: &Entry) {
        let Parts::Table(targets) = &entry.value.parts else {
            return self.tell(&entry.span, "'target' must be tables: write [target.NAME]".into());
        };
        for Entry { name, span, value } in targets {
            let Parts::Table(entries) = &value.parts else {
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
        let Parts::Table(entries) = &entry.value.parts else {
            return self.tell(&entry.span, "'relay' must be a table: write [relay]".into());
        };
        let Walk { config, names, spots, problems } = self;
        let reader =
            &mut Reader::of_table("relay".into(), &entry.span, entries, &RELAY, spots, problems);
        config.udp = reader.read("udp", read::address);
        config.tcp = reader.read("tcp", read::address);
        config.http = reader.read("http", loopback).unwrap_or(config.http);
        config.allow = reader.read("allow", udp::networks).unwrap_or_default();
        let forms = [("line", Dialect::Strict), ("line-loose", Dialect::Loose)];
        config.dialect = reader.read("form", |raw| read::one_of(raw, forms)).unwrap_or_default();
        let datagram = reader.read("datagram", |raw| read::integer(raw, DATAGRAMS));
        config.datagram = datagram.unwrap_or(DATAGRAM) as usize;
        let buffer = reader.read("udp_buffer", |raw| read::size(raw, BUFFERS));
        config.buffer = buffer.unwrap_or(BUFFER);
        config.default = read_to(reader, "default", names);
    }

    fn routes(&mut self, entry: &Entry) {
        let Parts::List(rules) = &entry.value.parts else {
            return self.tell(&entry.span, "'route' must be a list: write [[route]]".into());
        };
        for (at, Node { span, parts, .. }) in rules.iter().enumerate() {
            let Parts::Table(entries) = parts else {
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

fn loopback(raw: &Raw) -> Result<SocketAddr, String> {
    let address = read::address(raw)?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(format!("must be on loopback, such as \"127.0.0.1:7401\", not \"{address}\"")),
    }
}

/// It may hold a password, so it is never repeated.
fn http_url(raw: &Raw) -> Result<url::Url, String> {
    let wanted = "must be a URL that takes lines, such as \"http://influx:8086/write?db=events\"";
    let given = read::text(raw)?;
    let url = url::Url::parse(given).map_err(|_| wanted.to_owned())?;
    match (url.scheme(), url.host_str(), url.username()) {
        ("http", Some(_), "") => Ok(url),
        ("https", ..) => Err("must begin with http://: the relay has no TLS".to_owned()),
        _ => Err(wanted.to_owned()),
    }
}

fn read_flags(config: &mut RelayConfig, flags: &RelayFlags, problems: &mut Vec<Problem>) {
    let mut tell = |flag: &str, wrong: String| {
        problems.push(Problem::new(Place::Flag(flag.to_owned()), wrong));
    };
    let text = |text: &String| Raw::Loose(text.clone());
    let mut address =
        |flag, given: &Option<String>, read: fn(&Raw) -> Result<SocketAddr, String>| {
            let read = given.as_ref().map(|given| read(&text(given)));
            read.and_then(|read| read.map_err(|wrong| tell(flag, wrong)).ok())
        };
    config.udp = address("--udp", &flags.udp, read::address).or(config.udp);
    config.tcp = address("--tcp", &flags.tcp, read::address).or(config.tcp);
    config.http = address("--http", &flags.http, loopback).unwrap_or(config.http);
    if !flags.allow.is_empty() {
        let list = Raw::List(flags.allow.iter().map(text).collect());
        match udp::networks(&list) {
            Ok(allow) => config.allow = allow,
            Err(wrong) => tell("--allow", wrong),
        }
    }
    if let Some(form) = &flags.form {
        match read::one_of(&text(form), Form::NAMES) {
            Ok(Form::Line(dialect)) => config.dialect = dialect,
            Ok(Form::Json) => tell("--form", "must be \"line\" or \"line-loose\"".into()),
            Err(wrong) => tell("--form", wrong),
        }
    }
    for given in &flags.to {
        let raw = text(given);
        let aim = match given.contains("://") {
            true => http_url(&raw).map(|url| Aim::Http { url, token: None }),
            false => read::host_and_port(&raw).map(Aim::Udp),
        };
        match aim {
            Ok(aim) => {
                let name = match &aim {
                    Aim::Udp(address) => address.clone(),
                    Aim::Http { url, .. } => url.host_str().unwrap_or_default().to_owned(),
                };
                config.default.push(config.targets.len());
                config.targets.push(Target { name, aim, queue: QUEUE as usize });
            }
            Err(wrong) => tell("--to", wrong),
        }
    }
}

/// What needs all settings.
fn check(config: &RelayConfig, file: Option<&ConfigFile>, problems: &mut Vec<Problem>) {
    let place = match file {
        Some(file) => Spots::new(file, &[], &[]).place(&(0..0)),
        None => Place::Flag("consort relay".to_owned()),
    };
    let mut tell = |message: String| problems.push(Problem::new(place.clone(), message));
    if config.udp.is_none() && config.tcp.is_none() {
        tell(
            "lines must come in somewhere: set 'udp' or 'tcp' in [relay], or --udp or --tcp".into(),
        );
    }
    if config.targets.is_empty() {
        tell("lines must go somewhere: declare a [target.NAME], or use --to".into());
    } else if config.default.is_empty() && config.routes.is_empty() {
        tell(
            "no line would go to any target: set 'default' in [relay], or write a [[route]]".into(),
        );
    }
    for (setting, address) in [("udp", config.udp), ("tcp", config.tcp)] {
        if let Some(address) = address
            && !address.ip().is_loopback()
            && config.allow.is_empty()
        {
            tell(format!(
                "other machines can reach {setting} {address}, and anybody there could send lines; name those who \
                 may with 'allow' in [relay] (or --allow), as in [\"10.0.0.0/8\"], or listen on 127.0.0.1"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "[relay]\nudp = '127.0.0.1:8090'\ndefault = ['a']\n[target.a]\nudp = 'h:1'\n";

    fn resolve(text: &str, flags: &RelayFlags) -> Result<RelayConfig, Problems> {
        let file = ConfigFile { name: "relay.toml".into(), text: text.into() };
        RelayConfig::resolve(Some(&file), flags)
    }

    /// The messages without the excerpts below them.
    fn told(text: &str) -> Vec<String> {
        let problems = resolve(text, &RelayFlags::default()).expect_err(text).to_string();
        let first = problems.lines().filter_map(|line| line.strip_prefix("relay.toml:"));
        first.map(str::to_owned).collect()
    }

    #[test]
    fn every_setting_is_read() {
        let text = "\
[relay]
udp = '10.0.0.5:8090'
tcp = '127.0.0.1:8091'
http = '127.0.0.1:9000'
allow = ['10.0.0.0/8', '127.0.0.1']
form = 'line-loose'
default = ['db', 'a']
datagram = 512
udp_buffer = '1MiB'
[target.a]
udp = 'node-a:8089'
[target.db]
http = 'http://influx:8086/api/v2/write?bucket=b'
token = 's3cret'
queue = '1MiB'
[[route]]
measurement = 'cpu'
tag = 'host=x=y'
to = 'a'
[[route]]
tag = 'host'
to = ['db', 'a', 'db']
";
        let config = resolve(text, &RelayFlags::default()).unwrap();
        assert_eq!(
            (config.udp, config.tcp),
            ("10.0.0.5:8090".parse().ok(), "127.0.0.1:8091".parse().ok())
        );
        assert_eq!((config.allow.len(), config.datagram, config.buffer), (2, 512, 1 << 20));
        assert_eq!(config.dialect, Dialect::Loose);
        assert_eq!(config.default, [1, 0]);
        assert_eq!(config.targets[0].aim, Aim::Udp("node-a:8089".into()));
        assert_eq!(config.targets[1].queue, 1 << 20);
        let tags: Vec<_> = config.routes.iter().map(|rule| rule.tag.clone().unwrap()).collect();
        assert_eq!(tags, [("host".into(), Some("x=y".into())), ("host".to_owned(), None)]);
        assert_eq!(config.routes[1].to, [1, 0]);
        assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_what_to_do() {
        let cases = [
            ("[realy]\n", "1:2: unknown table [realy]; did you mean [relay]?"),
            ("[relay]\nudb = 1\n", "2:1: unknown setting 'udb' in [relay]; did you mean 'udp'?"),
            (
                "[relay]\nform = 'lines'\n",
                "2:8: 'form' in [relay] must be \"line\" or \"line-loose\", not \"lines\"; did you mean \"line\"?",
            ),
            (
                "[relay]\ndefault = ['b']\n[target.bb]\nudp = 'h:1'\n",
                "2:12: 'default' in [relay]: no target is called 'b'; did you mean 'bb'?",
            ),
            (
                "[relay]\nhttp = '0.0.0.0:1'\n",
                "2:8: 'http' in [relay] must be on loopback, such as \"127.0.0.1:7401\", not \"0.0.0.0:1\"",
            ),
            ("[relay]\nudp = 1\n", "2:7: 'udp' in [relay] must be text in quotes, not a number"),
            (
                "[target.a]\n",
                "1:9: [target.a] needs 'udp' (a host and port) or 'http' (a URL that takes lines)",
            ),
            (
                "[target.a]\nudp = 'h:1'\nhttp = 'http://h/write'\n",
                "3:1: 'http' in [target.a]: there is 'udp' already; a target has one of them: declare another target",
            ),
            (
                "[target.a]\nhttp = 'https://u:p@h/write'\n",
                "2:8: 'http' in [target.a] must begin with http://: the relay has no TLS",
            ),
            (
                "[target.a]\nudp = 'h'\n",
                "2:7: 'udp' in [target.a] must be a host and a port, such as \"node-a.example.org:7400\" or \"10.0.0.7:7400\", not \"h\"",
            ),
            (
                "[[route]]\nmeasurement = 'm'\n",
                "1:1: [route 1] needs 'to': the targets of these lines",
            ),
            (
                "[target.a]\nudp = 'h:1'\n[[route]]\nto = ['a']\n",
                "3:1: [route 1] needs 'measurement' or 'tag': which lines it is for",
            ),
            (
                "[target.a]\nudp = 'h:1'\n",
                "1:1: lines must come in somewhere: set 'udp' or 'tcp' in [relay], or --udp or --tcp",
            ),
            (
                "[relay]\nudp = '127.0.0.1:1'\n",
                "1:1: lines must go somewhere: declare a [target.NAME], or use --to",
            ),
            (
                "[relay]\nudp = '127.0.0.1:1'\n[target.a]\nudp = 'h:1'\n",
                "1:1: no line would go to any target: set 'default' in [relay], or write a [[route]]",
            ),
            (
                "[relay]\nudp = \n",
                "2:7: not TOML: string values must be quoted, expected literal string",
            ),
        ];
        for (text, expected) in cases {
            let told = told(text);
            assert!(told.iter().any(|told| told == expected), "{text}\n{told:#?}\n{expected}");
        }
        let open = told(&GOOD.replace("127.0.0.1:8090", "0.0.0.0:8090"));
        assert!(
            open.len() == 1 && open[0].contains("other machines can reach udp 0.0.0.0:8090"),
            "{open:?}"
        );
    }

    #[test]
    fn flags_win_over_the_file_and_can_do_without_it() {
        let flags = RelayFlags {
            udp: Some("127.0.0.1:1".into()),
            form: Some("line-loose".into()),
            to: vec!["h:2".into(), "http://i:8086/write?db=x".into()],
            ..RelayFlags::default()
        };
        let config = resolve(GOOD, &flags).unwrap();
        assert_eq!((config.udp, config.dialect), ("127.0.0.1:1".parse().ok(), Dialect::Loose));
        assert_eq!((config.targets.len(), &config.default[..]), (3, &[0, 1, 2][..]));
        let alone = RelayConfig::resolve(None, &flags).unwrap();
        assert_eq!(alone.targets[0].aim, Aim::Udp("h:2".into()));
        let wrong = RelayFlags { udp: Some("x".into()), allow: vec!["y".into()], ..flags };
        let told = RelayConfig::resolve(None, &wrong).unwrap_err().to_string();
        assert!(
            told.contains("--udp: must be an IP address") && told.contains("--allow: must be"),
            "{told}"
        );
        let none = RelayConfig::resolve(None, &RelayFlags::default()).unwrap_err().to_string();
        assert!(none.starts_with("consort relay: lines must come in somewhere"), "{none}");
    }
}
