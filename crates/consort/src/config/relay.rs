//! The settings of `consort relay`: where lines come in, which targets there are, and which lines go to which.

mod file;
mod relay_spec;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use consort_line::Dialect;
use consort_server::udp::IpNet;
use consort_views::Form;

use super::ConfigFile;
use super::catalog::Catalog;
use super::problem::{Place, Problem, Problems};
use super::read::{self, Raw};
use super::reference::{TableReference, table_reference};
use super::spec::TableSpec;
use super::spot::Spots;
use file::read_file;
use relay_spec::{CONFIG, RELAY, ROUTE, TARGET};

/// Datagrams of this size pass an Ethernet without being cut in parts, with room for tunnels.
const DATAGRAM: u64 = 1400;

/// What waits for a target that does not take it: some minutes of a usual stream.
const QUEUE: u64 = 16 << 20;

/// What the kernel may hold of a burst.
const BUFFER: u64 = 8 << 20;

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

/// All tables of a relay's file with their settings, for a reference page.
pub fn relay_reference() -> Vec<TableReference> {
    let names = [(&RELAY, "relay"), (&TARGET, "target.NAME"), (&ROUTE, "[route]")];
    let table = |(table, name): (&'static TableSpec, &str)| {
        table_reference(name.to_owned(), table.doc, table.settings)
    };
    names.map(table).into()
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
        match read::networks(&list) {
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
    let catalog = Catalog::from_parts(&[&CONFIG]);
    let place = match file {
        Some(file) => Spots::new(file, &catalog, &[], &[]).place(&(0..0)),
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
                "other machines can reach {setting} {address}, so programs on them could send lines; list the \
                 networks that may send with 'allow' in [relay] (or --allow), as in [\"10.0.0.0/8\"], or listen on 127.0.0.1"
            ));
        }
    }
}
