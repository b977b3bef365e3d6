//! What a private RabbitMQ broker is to be like, and the configuration file that says so.

use crate::tls::Tls;

/// The settings of a broker. By default: user and password `guest`, no TLS, no plugins.
#[derive(Debug, Clone, Default)]
pub struct RabbitOptions {
    pub(crate) tls: Option<Tls>,
    lines: Vec<String>,
}

impl RabbitOptions {
    pub fn new() -> RabbitOptions {
        RabbitOptions::default()
    }

    /// A TLS port with this certificate, beside the plain one;
    /// [`tls_url`](crate::RabbitServer::tls_url) names it.
    #[must_use]
    pub fn tls(mut self, tls: &Tls) -> RabbitOptions {
        self.tls = Some(tls.clone());
        self
    }

    /// Any other line of rabbitmq.conf.
    #[must_use]
    pub fn line(mut self, line: &str) -> RabbitOptions {
        self.lines.push(line.to_owned());
        self
    }

    /// The text of rabbitmq.conf.
    pub(crate) fn configuration(&self, port: u16, tls_port: Option<u16>) -> String {
        let mut lines = vec![
            format!("listeners.tcp.1 = 127.0.0.1:{port}"),
            "loopback_users = none".to_owned(),
            // A broker that finds the disk nearly full blocks publishers without a word, which a
            // test would take for a hang.
            "disk_free_limit.absolute = 1MB".to_owned(),
        ];
        if let (Some(tls), Some(port)) = (&self.tls, tls_port) {
            lines.push(format!("listeners.ssl.1 = 127.0.0.1:{port}"));
            lines.push(format!("ssl_options.cacertfile = {}", tls.ca().display()));
            lines.push(format!("ssl_options.certfile = {}", tls.certificate().display()));
            lines.push(format!("ssl_options.keyfile = {}", tls.key().display()));
            lines.push("ssl_options.verify = verify_none".to_owned());
            lines.push("ssl_options.fail_if_no_peer_cert = false".to_owned());
        }
        lines.extend(self.lines.iter().cloned());
        lines.join("\n") + "\n"
    }
}
