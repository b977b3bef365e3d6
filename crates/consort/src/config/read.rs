//! Reads one value: from its raw form in the file, the environment or a flag to what the setting
//! means.
//!
//! Each function says in its error what the value must be, as the end of a sentence that begins
//! with the setting's name. Errors about secrets and URLs never repeat the value.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use consort_server::udp::IpNet;

use super::redact::SecretUrl;
use super::suggest::nearest;

/// A value before anybody knows what it should be.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    Text(String),
    Integer(i64),
    Flag(bool),
    List(Vec<Raw>),
    /// Anything else the file can hold, by its name.
    Other(&'static str),
    /// From the environment or a flag, where everything is text and the setting decides what it
    /// means.
    Loose(String),
}

type Read<T> = Result<T, String>;

const ENGINE_SCHEMES: [&str; 6] =
    ["embedded", "memory", "redis", "rediss", "redis-cluster", "rediss-cluster"];
const BROKER_SCHEMES: [&str; 2] = ["amqp", "amqps"];
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: [(&str, u64); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

impl Raw {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Raw::Text(_) | Raw::Loose(_) => "text",
            Raw::Integer(_) => "a number",
            Raw::Flag(_) => "true or false",
            Raw::List(_) => "a list",
            Raw::Other(kind) => kind,
        }
    }
}

pub(crate) fn text(raw: &Raw) -> Read<&str> {
    match raw {
        Raw::Text(text) | Raw::Loose(text) => Ok(text),
        other => Err(format!("must be text in quotes, not {}", other.kind())),
    }
}

pub(crate) fn integer(raw: &Raw, range: RangeInclusive<u64>) -> Read<u64> {
    let (low, high) = (range.start(), range.end());
    let wanted = format!("must be a whole number from {low} to {high}");
    let number = match raw {
        Raw::Integer(number) => i128::from(*number),
        Raw::Loose(text) => text.parse().map_err(|_| format!("{wanted}, not '{text}'"))?,
        other => return Err(format!("{wanted}, not {}", other.kind())),
    };
    match u64::try_from(number) {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("{wanted}, not {number}")),
    }
}

pub(crate) fn flag(raw: &Raw) -> Read<bool> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Loose(text) if text == "true" => Ok(true),
        Raw::Loose(text) if text == "false" => Ok(false),
        other => Err(format!("must be true or false, not {}", other.kind())),
    }
}

/// A list of texts, each of which is parsed.
pub(crate) fn parsed_texts<T>(raw: &Raw) -> Result<Vec<T>, String>
where
    T: FromStr<Err: Display>,
{
    let parse = |text: &String| {
        text.parse().map_err(|bad: T::Err| format!("has an entry that cannot be used: {bad}"))
    };
    texts(raw)?.iter().map(parse).collect()
}

/// A list of texts; in the environment and in flags, one text with commas.
pub(crate) fn texts(raw: &Raw) -> Read<Vec<String>> {
    match raw {
        Raw::List(items) => items.iter().map(|item| text(item).map(str::to_owned)).collect(),
        Raw::Loose(text) if text.is_empty() => Ok(Vec::new()),
        Raw::Loose(text) => Ok(text.split(',').map(str::to_owned).collect()),
        other => Err(format!("must be a list of texts, not {}", other.kind())),
    }
    .map_err(|wrong| wrong.replace("must be text in quotes", "must be a list of texts in quotes"))
}

pub(crate) fn one_of<T: Copy, const N: usize>(raw: &Raw, words: [(&'static str, T); N]) -> Read<T> {
    let given = text(raw)?;
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == given) {
        return Ok(*meaning);
    }
    let hint = did_you_mean(given, words.map(|(word, _)| word));
    let words = words.map(|(word, _)| format!("\"{word}\""));
    Err(format!("must be {}, not \"{given}\"{hint}", words.join(" or ")))
}

pub(crate) fn duration(raw: &Raw, range: RangeInclusive<Duration>) -> Read<Duration> {
    let examples = match range.start().as_secs() {
        0..60 => "\"500ms\", \"10s\" or \"2m\"",
        _ => "\"10m\", \"2h\" or \"3d\"",
    };
    let wanted = format!(
        "must be a duration from {} to {}, such as {examples}",
        duration_text(*range.start()),
        duration_text(*range.end())
    );
    let given = text(raw).map_err(|_| format!("{wanted}, not {}", raw.kind()))?;
    let read = in_units(given, &DURATION_UNITS).map(Duration::from_millis);
    read.filter(|duration| range.contains(duration)).ok_or(format!("{wanted}, not \"{given}\""))
}

pub(crate) fn size(raw: &Raw, range: RangeInclusive<u64>) -> Read<u64> {
    let wanted = format!(
        "must be a size from {} to {}, such as \"64KiB\" or \"8MiB\"",
        size_text(*range.start()),
        size_text(*range.end())
    );
    let given = text(raw).map_err(|_| format!("{wanted}, not {}", raw.kind()))?;
    let read = in_units(given, &SIZE_UNITS);
    read.filter(|size| range.contains(size)).ok_or(format!("{wanted}, not \"{given}\""))
}

pub(crate) fn address(raw: &Raw) -> Read<SocketAddr> {
    let given = text(raw)?;
    given.parse().map_err(|_| {
        format!(
            "must be an IP address and a port, such as \"127.0.0.1:7400\" or \"[::1]:7400\", not \"{given}\""
        )
    })
}

/// A host name or IP address, and a port.
pub(crate) fn host_and_port(raw: &Raw) -> Read<String> {
    let given = text(raw)?;
    // Parsed with a scheme that has no default port, which would be left out.
    let parsed = url::Url::parse(&format!("redis://{given}")).ok();
    let fits = parsed.is_some_and(|url| {
        let (host, port) = (url.host_str().unwrap_or_default(), url.port().unwrap_or_default());
        !host.is_empty() && port > 0 && format!("{host}:{port}") == given
    });
    if fits {
        return Ok(given.to_owned());
    }
    Err(format!(
        "must be a host and a port, such as \"node-a.example.org:7400\" or \"10.0.0.7:7400\", not \"{given}\""
    ))
}

pub(crate) fn path(raw: &Raw) -> Read<PathBuf> {
    match text(raw)? {
        "" => Err("must be the path of a file, not empty".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

pub(crate) fn folder(raw: &Raw) -> Read<PathBuf> {
    match text(raw)? {
        "" => Err("must be the path of a folder, not empty".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

/// A list of addresses, and of networks as in `10.0.0.0/8`.
pub(crate) fn networks(raw: &Raw) -> Result<Vec<IpNet>, String> {
    let wanted =
        "must be a list of networks and addresses, as in [\"10.0.0.0/8\", \"192.168.1.7\"]";
    let Raw::List(items) = raw else { return Err(format!("{wanted}, not {}", raw.kind())) };
    if items.is_empty() {
        return Err(format!("{wanted}, not empty"));
    }
    let network = |item: &Raw| {
        let given = text(item).map_err(|_| format!("{wanted}, not {}", item.kind()))?;
        let network = given.parse::<IpNet>().ok();
        let network = network.or_else(|| given.parse::<IpAddr>().ok().map(IpNet::from));
        network.ok_or_else(|| format!("{wanted}, not \"{given}\""))
    };
    items.iter().map(network).collect()
}

/// A name of at most `longest` characters, each of which `allowed` accepts; `wanted` says so in
/// words.
pub(crate) fn name(
    raw: &Raw,
    longest: usize,
    allowed: fn(char) -> bool,
    wanted: &str,
) -> Read<String> {
    let given = text(raw)?;
    let length = given.chars().count();
    if (1..=longest).contains(&length) && given.chars().all(allowed) {
        return Ok(given.to_owned());
    }
    Err(format!("must be 1 to {longest} characters of {wanted}, not \"{given}\""))
}

pub(crate) fn engine_url(raw: &Raw) -> Read<SecretUrl> {
    let given = text(raw)?;
    let (scheme, rest) = scheme(given, &ENGINE_SCHEMES)?;
    match scheme {
        "memory" if rest.is_empty() => {}
        "memory" => {
            return Err("must be just \"memory:\": that engine keeps nothing anywhere".to_owned());
        }
        "embedded" if !rest.is_empty() => {}
        "embedded" => {
            return Err("must name a folder, such as \"embedded:./consort-data\"".to_owned());
        }
        "redis-cluster" | "rediss-cluster" => cluster(rest)?,
        _ => single_host(given, rest, "redis://host:6379/0")?,
    }
    Ok(SecretUrl::new(given))
}

pub(crate) fn broker_url(raw: &Raw) -> Read<SecretUrl> {
    let given = text(raw)?;
    let (_, rest) = scheme(given, &BROKER_SCHEMES)?;
    single_host(given, rest, "amqp://user:password@host/vhost")?;
    Ok(SecretUrl::new(given))
}

/// A level or filter directives. A lone word that is no level would be taken for a module's name
/// and silence everything else, so it is refused.
pub(crate) fn log_level(raw: &Raw) -> Read<String> {
    let given = text(raw)?;
    let lone_word = given.bytes().all(|byte| byte.is_ascii_alphabetic());
    if lone_word && !LEVELS.contains(&given) {
        let levels = LEVELS.join(", ");
        let hint = did_you_mean(given, LEVELS);
        return Err(format!(
            "must be one of {levels}, or directives such as \"info,consort=debug\", not \"{given}\"{hint}"
        ));
    }
    match tracing_subscriber::EnvFilter::try_new(given) {
        Ok(_) => Ok(given.to_owned()),
        Err(error) => {
            Err(format!("must be a level or directives such as \"info,consort=debug\": {error}"))
        }
    }
}

pub(crate) fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let whole = |unit: u128| millis.is_multiple_of(unit) && millis > 0;
    match () {
        () if whole(86_400_000) => format!("{}d", millis / 86_400_000),
        () if whole(3_600_000) => format!("{}h", millis / 3_600_000),
        () if whole(60_000) => format!("{}m", millis / 60_000),
        () if whole(1000) => format!("{}s", millis / 1000),
        () => format!("{millis}ms"),
    }
}

pub(crate) fn size_text(size: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.iter().find(|(_, bytes)| size > 0 && size.is_multiple_of(*bytes));
    unit.map_or_else(|| format!("{size}B"), |(name, bytes)| format!("{}{name}", size / bytes))
}

/// `; did you mean …?`, or nothing.
pub(crate) fn did_you_mean<'a>(given: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, words).map_or(String::new(), |word| format!("; did you mean \"{word}\"?"))
}

fn in_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn scheme<'a>(url: &'a str, known: &[&'static str]) -> Read<(&'a str, &'a str)> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    let slashes = !["embedded", "memory"].contains(&scheme);
    if known.contains(&scheme) && (!slashes || rest.starts_with("//")) {
        return Ok((scheme, if slashes { &rest[2..] } else { rest }));
    }
    let form = |scheme: &str| match scheme {
        "embedded" | "memory" => format!("{scheme}:"),
        _ => format!("{scheme}://"),
    };
    let forms: Vec<String> = known.iter().map(|known| form(known)).collect();
    let hint = match url.contains(':').then(|| nearest(scheme, known.iter().copied())).flatten() {
        Some(near) => format!("; did you mean {}?", form(near)),
        None => String::new(),
    };
    Err(format!("must be a URL that begins with {}{hint}", forms.join(" or ")))
}

fn single_host(url: &str, rest: &str, example: &str) -> Read<()> {
    let parsed = url::Url::parse(url).ok();
    let host = parsed.as_ref().and_then(url::Url::host_str).unwrap_or_default();
    if host.is_empty() || rest.is_empty() {
        return Err(format!(
            "must have the form {example} (a password's special characters are written in percent code, '@' as %40)"
        ));
    }
    Ok(())
}

fn cluster(rest: &str) -> Read<()> {
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
    let all_have_ports = hosts.split(',').all(|host| {
        let parsed = url::Url::parse(&format!("redis://{host}")).ok();
        parsed.is_some_and(|url| url.port().is_some() && url.path().is_empty())
    });
    if all_have_ports {
        return Ok(());
    }
    Err("must have the form redis-cluster://host1:port1,host2:port2,host3:port3".to_owned())
}
