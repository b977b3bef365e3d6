//! What a private Redis server is to be like, and the configuration file that says so.

use std::fmt::Write;
use std::path::Path;

use crate::tls::Tls;

/// When the append-only file reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before each answer.
    Always,
    /// Once a second.
    Everysec,
    /// When the kernel likes.
    No,
}

/// The settings of a server. By default: append-only file with `everysec`, no password, no TLS, no
/// memory limit.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    fsync: Option<Fsync>,
    volatile: bool,
    pub(crate) password: Option<String>,
    pub(crate) tls: Option<Tls>,
    pub(crate) cluster: bool,
    lines: Vec<String>,
}

/// The ports that a configuration names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RedisPorts {
    pub(crate) plain: u16,
    pub(crate) tls: Option<u16>,
    pub(crate) bus: Option<u16>,
}

impl RedisOptions {
    pub fn new() -> RedisOptions {
        RedisOptions::default()
    }

    /// The append-only file's fsync policy.
    #[must_use]
    pub fn fsync(mut self, fsync: Fsync) -> RedisOptions {
        self.fsync = Some(fsync);
        self
    }

    /// No append-only file and no snapshots: a restart finds nothing.
    #[must_use]
    pub fn volatile(mut self) -> RedisOptions {
        self.volatile = true;
        self
    }

    /// The password of the default user; letters, digits and dashes only, since it goes into URLs
    /// as it is.
    #[must_use]
    pub fn password(mut self, password: &str) -> RedisOptions {
        self.password = Some(password.to_owned());
        self
    }

    /// A TLS port with this certificate, beside the plain one; [`url`](crate::RedisServer::url)
    /// then names the TLS port.
    #[must_use]
    pub fn tls(mut self, tls: &Tls) -> RedisOptions {
        self.tls = Some(tls.clone());
        self
    }

    /// `maxmemory`, in Redis's words: `"64mb"`.
    #[must_use]
    pub fn maxmemory(self, size: &str) -> RedisOptions {
        self.line(&format!("maxmemory {size}"))
    }

    /// `maxmemory-policy`: `"noeviction"` (Redis's default), `"allkeys-lru"` and so on.
    #[must_use]
    pub fn maxmemory_policy(self, policy: &str) -> RedisOptions {
        self.line(&format!("maxmemory-policy {policy}"))
    }

    /// Cluster mode; the bus gets a port of its own. The server owns no slots:
    /// [`RedisCluster`](crate::RedisCluster) hands them out.
    #[must_use]
    pub fn cluster_enabled(mut self) -> RedisOptions {
        self.cluster = true;
        self
    }

    /// Any other line of redis.conf.
    #[must_use]
    pub fn line(mut self, line: &str) -> RedisOptions {
        self.lines.push(line.to_owned());
        self
    }

    /// The text of redis.conf. `folder` holds what outlives
    /// [`restart_empty`](crate::RedisServer::restart_empty), `data` what does not.
    pub(crate) fn configuration(&self, ports: RedisPorts, folder: &Path, data: &Path) -> String {
        let mut text = String::new();
        let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a string works");
        line("bind 127.0.0.1");
        line(&format!("port {}", ports.plain));
        line(&format!("dir {}", data.display()));
        line("save \"\"");
        line(if self.volatile { "appendonly no" } else { "appendonly yes" });
        line(match self.fsync.unwrap_or(Fsync::Everysec) {
            Fsync::Always => "appendfsync always",
            Fsync::Everysec => "appendfsync everysec",
            Fsync::No => "appendfsync no",
        });
        if let Some(password) = &self.password {
            line(&format!("requirepass {password}"));
            line(&format!("masterauth {password}"));
        }
        if let (Some(tls), Some(port)) = (&self.tls, ports.tls) {
            line(&format!("tls-port {port}"));
            line(&format!("tls-ca-cert-file {}", tls.ca().display()));
            line(&format!("tls-cert-file {}", tls.certificate().display()));
            line(&format!("tls-key-file {}", tls.key().display()));
            line("tls-auth-clients no");
        }
        if let Some(port) = ports.bus {
            line("cluster-enabled yes");
            line(&format!("cluster-port {port}"));
            line(&format!("cluster-config-file {}", folder.join("nodes.conf").display()));
        }
        self.lines.iter().for_each(|extra| line(extra));
        text
    }
}
