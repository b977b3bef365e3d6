//! What a sink is told.

use std::fmt;
use std::path::PathBuf;

use consort_kernel::Name;
use url::Url;

use crate::secret::Secret;

/// A declared sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// What views call it.
    pub name: Name,
    /// What it is.
    pub kind: SinkKind,
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

/// A URL that rows are posted to, as CloudEvents.
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
    /// How a row is written.
    pub form: FileForm,
}

/// How rows stand in a file, each in a line.
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
