//! What a sink is told.

use std::fmt;
use std::path::PathBuf;

use consort_kernel::Name;
use url::Url;

use crate::payload::Payload;
use crate::secret::Secret;
use crate::subjects::SendMode;

/// A declared sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// What feeds call it.
    pub name: Name,
    /// What it is.
    pub kind: SinkKind,
    /// How it gets the changes of documents.
    pub send: SendMode,
}

/// The kinds of sinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// InfluxDB.
    Influx(InfluxConfig),
    /// A URL that is posted to.
    Webhook(WebhookConfig),
    /// An exchange of RabbitMQ.
    Amqp(AmqpConfig),
    /// A file of the node that delivers.
    File(FileConfig),
}

impl SinkKind {
    /// Whether the sink writes line protocol, which carries only payloads that have such a form.
    fn writes_lines(&self) -> bool {
        match self {
            SinkKind::Influx(_) => true,
            SinkKind::File(file) => file.form == FileForm::Line,
            SinkKind::Webhook(_) | SinkKind::Amqp(_) => false,
        }
    }
}

/// Refuses a sink that cannot take changes with this payload, and says what to do.
pub fn check_sink(sink: &SinkConfig, payload: &dyn Payload) -> Result<(), String> {
    let SinkConfig { name, kind, send } = sink;
    if *send == SendMode::States && payload.subjects().is_none() {
        return Err(format!(
            "the sink '{name}' takes states: changes of the kind '{}' have none; leave 'send' out in [sink.{name}], or \
             name another sink",
            payload.name()
        ));
    }
    if !kind.writes_lines() || payload.points().is_some() {
        return Ok(());
    }
    let what_to_do = match kind {
        SinkKind::File(_) => format!("set 'format' in [sink.{name}] to \"ndjson\""),
        _ => "name a sink of kind \"webhook\", \"amqp\" or \"file\"".to_owned(),
    };
    Err(format!(
        "the sink '{name}' writes line protocol: {}; {what_to_do}",
        no_line_protocol(payload)
    ))
}

/// A payload that line protocol cannot carry.
pub(super) fn no_line_protocol(payload: &dyn Payload) -> String {
    format!("it cannot carry changes of the kind '{}'", payload.name())
}

/// InfluxDB, of either generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfluxConfig {
    /// Without user, password and query.
    pub url: Url,
    /// Where in it.
    pub target: InfluxTarget,
}

/// Which interface of InfluxDB, with what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InfluxTarget {
    /// `/write`
    V1 {
        /// The database.
        database: String,
        /// The retention policy; none is the database's default.
        retention: Option<String>,
        /// Who writes.
        user: Option<(String, Secret)>,
    },
    /// `/api/v2/write`
    V2 {
        /// The organisation, by name or id.
        org: String,
        /// The bucket, by name or id.
        bucket: String,
        /// What lets us in.
        token: Secret,
    },
}

/// A URL that changes are posted to, as CloudEvents.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Its path and query may let in whoever knows them.
    pub url: Url,
    /// Signs what is posted.
    pub secret: Option<Secret>,
    /// Whether the URL may lead to this machine or a private network.
    pub allow_private: bool,
}

/// An exchange of RabbitMQ. Its URL is with whoever opens the publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpConfig {
    /// The broker, password included.
    pub url: Secret,
    /// The same, fit to be shown.
    pub shown: String,
    /// The empty one leads to the queue that the routing key names.
    pub exchange: String,
    /// Where the exchange is to send it.
    pub routing_key: String,
}

/// A file that is appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// On the node that delivers.
    pub path: PathBuf,
    /// How a change is written.
    pub form: FileForm,
}

/// How changes stand in a file, each in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileForm {
    /// JSON, as subscribers see it.
    #[default]
    Ndjson,
    /// InfluxDB line protocol.
    Line,
}

impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("url", &origin(&self.url))
            .field("secret", &self.secret)
            .field("allow_private", &self.allow_private)
            .finish()
    }
}

/// Where a URL leads, without what may be secret of it.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// What the sink is and where, in a few words without secrets.
impl fmt::Display for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SinkKind::Influx(influx) => {
                let url = influx.url.as_str().trim_end_matches('/');
                match &influx.target {
                    InfluxTarget::V1 { database, .. } => {
                        write!(f, "influx at {url}, database {database}")
                    }
                    InfluxTarget::V2 { org, bucket, .. } => {
                        write!(f, "influx at {url}, bucket {bucket} of {org}")
                    }
                }
            }
            SinkKind::Webhook(webhook) => {
                let signed = if webhook.secret.is_some() { "signed" } else { "not signed" };
                write!(f, "webhook at {}, {signed}", origin(&webhook.url))
            }
            SinkKind::Amqp(amqp) => {
                let AmqpConfig { shown, exchange, routing_key, .. } = amqp;
                write!(f, "amqp at {shown}, exchange '{exchange}', routing key '{routing_key}'")
            }
            SinkKind::File(file) => {
                let form = match file.form {
                    FileForm::Ndjson => "NDJSON",
                    FileForm::Line => "line protocol",
                };
                write!(f, "file {}, {form}", file.path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Notes, Points};

    fn sinks() -> Vec<SinkConfig> {
        let url: Url = "http://h".parse().unwrap();
        let database = "d".to_owned();
        let target = InfluxTarget::V1 { database, retention: None, user: None };
        let influx = InfluxConfig { url: url.clone(), target };
        let webhook = WebhookConfig { url, secret: None, allow_private: false };
        let text = || "x".to_owned();
        let (url, shown) = (Secret::new("amqp://h"), text());
        let amqp = AmqpConfig { url, shown, exchange: text(), routing_key: text() };
        let file = |form| SinkKind::File(FileConfig { path: "f".into(), form });
        [
            SinkKind::Influx(influx),
            file(FileForm::Line),
            SinkKind::Webhook(webhook),
            SinkKind::Amqp(amqp),
            file(FileForm::Ndjson),
        ]
        .map(|kind| SinkConfig { name: "s".parse().unwrap(), kind, send: SendMode::Pieces })
        .into()
    }

    #[test]
    fn sinks_of_line_protocol_take_only_payloads_that_have_a_line() {
        assert!(sinks().iter().all(|sink| check_sink(sink, &Points).is_ok()));
        let told: Vec<String> =
            sinks().iter().filter_map(|sink| check_sink(sink, &Notes).err()).collect();
        let why = "the sink 's' writes line protocol: it cannot carry changes of the kind 'note'";
        let expected = [
            format!("{why}; name a sink of kind \"webhook\", \"amqp\" or \"file\""),
            format!("{why}; set 'format' in [sink.s] to \"ndjson\""),
        ];
        assert_eq!(told, expected);
    }
}
