//! `[sink.NAME]`: where changes are delivered to; and the setting `sink` of the tables that fill feeds.

use consort_feeds::{
    AmqpConfig, FileConfig, FileForm, InfluxConfig, InfluxTarget, Payload, Secret, SendMode,
    SinkConfig, SinkKind, WebhookConfig, check_sink,
};
use consort_kernel::Name;
use url::Url;

use super::FeedsConfig;
use crate::config::declared::Declaration;
use crate::config::part::Context;
use crate::config::read::{self, Raw};
use crate::config::reader::Reader;
use crate::config::redact::SecretUrl;
use crate::config::suggest::nearest;

/// A secret that can be guessed signs nothing.
const SECRET_LEAST: usize = 16;

/// The longest name of an exchange, and the longest routing key, in bytes.
const AMQP_MOST: usize = 255;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Influx,
    Webhook,
    Amqp,
    File,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Influx => "influx",
            Kind::Webhook => "webhook",
            Kind::Amqp => "amqp",
            Kind::File => "file",
        }
    }

    fn settings(self) -> &'static [&'static str] {
        match self {
            Kind::Influx => &[
                "kind",
                "url",
                "database",
                "retention",
                "user",
                "password",
                "org",
                "bucket",
                "token",
            ],
            Kind::Webhook => &["kind", "url", "secret", "allow_private", "send"],
            Kind::Amqp => &["kind", "url", "exchange", "routing_key", "send"],
            Kind::File => &["kind", "path", "format", "send"],
        }
    }
}

/// The declared sinks, which other tables name.
pub(crate) struct Sinks<'a> {
    /// The names of all, also of those with a mistake.
    pub(crate) names: Vec<&'a str>,
    /// Those without one.
    pub(crate) read: Vec<SinkConfig>,
}

impl<'a> Sinks<'a> {
    /// The sinks of the config that is being read.
    pub(crate) fn declared(context: &Context<'a>) -> Sinks<'a> {
        Sinks {
            names: context.declarations("sink").map(|sink| &*sink.name).collect(),
            read: context.config.sinks().to_vec(),
        }
    }
}

/// The setting `sink` of a table that fills a feed with this payload: names of sinks that can take it.
pub(crate) fn read_sinks(
    reader: &mut Reader<'_>,
    known: &Sinks<'_>,
    payload: &dyn Payload,
) -> Vec<String> {
    let mut sinks: Vec<String> = Vec::new();
    for name in reader.texts("sink", "sink").unwrap_or_default() {
        if sinks.iter().any(|other| other == name.text) {
            reader.explain("sink", name.span, format!("'{}' comes twice", name.text));
        } else if !known.names.contains(&name.text) {
            let hint = match nearest(name.text, known.names.iter().copied()) {
                Some(near) => format!("; did you mean '{near}'?"),
                None => format!("; declare it with [sink.{}]", name.text),
            };
            reader.explain("sink", name.span, format!("no sink is called '{}'{hint}", name.text));
        } else if let Some(sink) = known.read.iter().find(|sink| sink.name.as_str() == name.text)
            && let Err(reason) = check_sink(sink, payload)
        {
            reader.explain("sink", name.span, reason);
        } else {
            sinks.push(name.text.to_owned());
        }
    }
    sinks
}

/// Reads a `[sink.NAME]`.
pub(super) fn read_declaration(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    context: &mut Context<'_>,
) {
    let sink = read_sink(reader, declaration, context.broker());
    if let Some(SinkConfig { kind: SinkKind::Amqp(amqp), .. }) = &sink {
        context.connects_to(Some(amqp.url.reveal()));
    }
    context.config.part_mut::<FeedsConfig>().sinks.extend(sink);
}

/// `broker` is the engine's, unless that could not be read. None if there is a mistake in the sink.
fn read_sink(
    reader: &mut Reader<'_>,
    declaration: &Declaration,
    broker: Result<Option<SecretUrl>, ()>,
) -> Option<SinkConfig> {
    let words = [Kind::Influx, Kind::Webhook, Kind::Amqp, Kind::File].map(|k| (k.name(), k));
    if reader.get("kind").is_none() {
        let kinds = "\"influx\", \"webhook\", \"amqp\" or \"file\"";
        reader.missing(&["kind"], format!("'kind': {kinds}"));
        return None;
    }
    let kind = reader.read("kind", |raw| read::one_of(raw, words))?;
    for setting in declaration.spec.settings.iter().map(|spec| spec.name) {
        if let Some(entry) = reader.entry(setting)
            && !kind.settings().contains(&setting)
        {
            let belongs = kind.settings().join("', '");
            let wrong =
                format!("has no use in a sink of kind \"{}\", which has '{belongs}'", kind.name());
            reader.wrong(setting, &entry.span, wrong);
        }
    }
    let kind = match kind {
        Kind::Influx => read_influx(reader).map(SinkKind::Influx),
        Kind::Webhook => read_webhook(reader).map(SinkKind::Webhook),
        Kind::Amqp => read_amqp(reader, broker).map(SinkKind::Amqp),
        Kind::File => read_file(reader).map(SinkKind::File),
    };
    let words = [("pieces", SendMode::Pieces), ("states", SendMode::States)];
    let send = reader.read("send", |raw| read::one_of(raw, words)).unwrap_or_default();
    let name = Name::new(&declaration.name).ok().filter(|_| !reader.is_flawed())?;
    Some(SinkConfig { name, kind: kind?, send })
}

fn read_influx(reader: &mut Reader<'_>) -> Option<InfluxConfig> {
    let url =
        required(reader, "url", "where InfluxDB is, such as \"http://127.0.0.1:8086\"", http_url);
    let url = url.and_then(|url| bare(reader, url));
    let first = ["database", "retention", "user", "password"];
    let second = ["org", "bucket", "token"];
    let given = |reader: &Reader<'_>, names: &[&str]| {
        names.iter().find_map(|name| reader.entry(name)).map(|entry| entry.span.clone())
    };
    let target = match (given(reader, &first), given(reader, &second)) {
        (Some(_), Some(span)) => {
            let wrong = "'org', 'bucket' and 'token' are those of InfluxDB 2, and 'database', \
                         'retention', 'user' and 'password' those of InfluxDB 1: give the one or the other";
            let setting = second.into_iter().find(|name| reader.entry(name).is_some())?;
            reader.explain(setting, &span, wrong);
            return None;
        }
        (None, None) => {
            reader.missing(
                &["database", "bucket"],
                "'database' (InfluxDB 1), or 'org', 'bucket' and 'token' (InfluxDB 2)",
            );
            return None;
        }
        (Some(_), None) => {
            let database = required(reader, "database", "the database to write to", some_text);
            let retention = reader.read("retention", some_text);
            InfluxTarget::V1 { database: database?, retention, user: read_user(reader)? }
        }
        (None, Some(_)) => {
            let org = required(reader, "org", "the organisation that has the bucket", some_text);
            let bucket = required(reader, "bucket", "the bucket to write to", some_text);
            let token = required(reader, "token", "what lets Consort write there", secret);
            InfluxTarget::V2 { org: org?, bucket: bucket?, token: token? }
        }
    };
    Some(InfluxConfig { url: url?, target })
}

/// User and password come together. None if there is a mistake.
fn read_user(reader: &mut Reader<'_>) -> Option<Option<(String, Secret)>> {
    let user = reader.read("user", some_text);
    let password = reader.read("password", secret);
    match (reader.get("user").is_some(), reader.get("password").is_some()) {
        (true, true) => Some(Some((user?, password?))),
        (false, false) => Some(None),
        (true, false) => {
            reader.missing(&["password"], "'password' beside 'user'");
            None
        }
        (false, true) => {
            reader.missing(&["user"], "'user' beside 'password'");
            None
        }
    }
}

fn read_webhook(reader: &mut Reader<'_>) -> Option<WebhookConfig> {
    let url = required(reader, "url", "where rows are posted to", http_url);
    let secret = reader.read("secret", |raw| {
        let secret = read::text(raw)?;
        match secret.len() >= SECRET_LEAST {
            true => Ok(Secret::new(secret)),
            false => Err(format!(
                "must have at least {SECRET_LEAST} characters (`openssl rand -hex 32` makes one)"
            )),
        }
    });
    let allow_private = reader.read("allow_private", read::flag).unwrap_or_default();
    Some(WebhookConfig { url: url?, secret, allow_private })
}

fn read_amqp(reader: &mut Reader<'_>, broker: Result<Option<SecretUrl>, ()>) -> Option<AmqpConfig> {
    let url = reader.broker(broker, "the RabbitMQ to publish to");
    let short = |raw: &Raw| {
        let text = read::text(raw)?;
        match text.len() <= AMQP_MOST {
            true => Ok(text.to_owned()),
            false => Err(format!("must have at most {AMQP_MOST} bytes, not {}", text.len())),
        }
    };
    let exchange = reader.read("exchange", short).unwrap_or_default();
    let why = "what the exchange routes by; without an 'exchange', the name of the queue";
    let routing_key = required(reader, "routing_key", why, short);
    let url = url?;
    Some(AmqpConfig {
        shown: url.to_string(),
        url: Secret::new(url.reveal()),
        exchange,
        routing_key: routing_key?,
    })
}

fn read_file(reader: &mut Reader<'_>) -> Option<FileConfig> {
    let path = required(reader, "path", "the file that rows are appended to", read::path);
    let words = [("ndjson", FileForm::Ndjson), ("line", FileForm::Line)];
    let form = reader.read("format", |raw| read::one_of(raw, words)).unwrap_or_default();
    Some(FileConfig { path: path?, form })
}

fn required<T>(
    reader: &mut Reader<'_>,
    setting: &'static str,
    why: &str,
    read: impl FnOnce(&Raw) -> Result<T, String>,
) -> Option<T> {
    if reader.get(setting).is_none() {
        reader.missing(&[setting], format!("'{setting}': {why}"));
    }
    reader.read(setting, read)
}

fn some_text(raw: &Raw) -> Result<String, String> {
    match read::text(raw)? {
        "" => Err("must not be empty".into()),
        text => Ok(text.to_owned()),
    }
}

fn secret(raw: &Raw) -> Result<Secret, String> {
    let plain = |text: &String| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    match some_text(raw)? {
        text if plain(&text) => Ok(Secret::new(text)),
        _ => Err("must be of ASCII characters, without control characters".into()),
    }
}

/// An address to post to. Its message never repeats it.
fn http_url(raw: &Raw) -> Result<Url, String> {
    let wanted = "must be an http:// or https:// address, such as \"https://example.org/rows\"";
    let url = Url::parse(read::text(raw)?).map_err(|_| wanted.to_owned())?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(wanted.into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must be without user and password: give those in settings of their own".into());
    }
    Ok(url)
}

/// InfluxDB's own paths and queries are added to its address.
fn bare(reader: &mut Reader<'_>, url: Url) -> Option<Url> {
    if url.query().is_none() && url.fragment().is_none() {
        return Some(url);
    }
    let span = reader.entry("url")?.value.span.clone();
    reader.wrong(
        "url",
        &span,
        "must be without a query: 'database' or 'bucket' say where to write",
    );
    None
}
