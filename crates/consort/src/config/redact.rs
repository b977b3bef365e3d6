//! Keeps secrets out of everything that is shown: passwords in URLs, and config lines that may hold
//! one.

use std::fmt;

use super::catalog::Catalog;
use super::spec::Visibility;

/// Stands where a secret was.
pub(crate) const HIDDEN: &str = "***";

/// A URL that may hold a password: it shows itself without it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    pub fn new(url: impl Into<String>) -> SecretUrl {
        SecretUrl(url.into())
    }

    /// The URL as it is, password included; for connecting, never for showing.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&url(&self.0))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", url(&self.0))
    }
}

/// The URL without its password. When it is not clear which part is the password, everything that
/// could be is hidden.
pub(crate) fn url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let local = ["embedded:", "memory:"].iter().any(|scheme| url.starts_with(scheme));
        return if local && !url.contains('@') { url.to_owned() } else { HIDDEN.to_owned() };
    };
    if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
        return HIDDEN.to_owned();
    }
    if let Some((account, hosts)) = rest.rsplit_once('@') {
        let user = account.split_once(':').map_or("", |(user, _)| user);
        return format!("{scheme}://{user}:{HIDDEN}@{hosts}");
    }
    // `redis://:secret` has forgotten its host: what looks like a port is the password.
    let hosts = rest.split(['/', '?']).next().unwrap_or_default();
    let plain = hosts.split(',').all(|host| {
        let port = host.rsplit_once(':').map_or("", |(_, port)| port.trim_end_matches(']'));
        host.starts_with('[') || port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if plain { url.to_owned() } else { format!("{scheme}://{HIDDEN}") }
}

/// A line of a config file as it may be shown. A line that is not surely harmless keeps only its
/// name.
pub(crate) fn line(line: &str, catalog: &Catalog) -> String {
    let bare = line.split('#').next().unwrap_or_default().trim();
    if bare.starts_with('[') && bare.ends_with(']') && bare.bytes().all(in_table_name) {
        return line.to_owned();
    }
    // A name in quotes is hidden with the rest: `"bG9uZyB0b2tlbg=="` on a line of its own looks
    // like one.
    let Some((name, value)) =
        line.split_once('=').filter(|(name, _)| name.trim().bytes().all(in_table_name))
    else {
        return HIDDEN.to_owned();
    };
    let leaf = name.rsplit('.').next().unwrap_or_default().trim();
    match catalog.visibility_of(leaf) {
        Some(Visibility::Plain) if !value.contains(['=', '@']) => line.to_owned(),
        Some(Visibility::Url) => format!("{name}={}", url_in_quotes(value)),
        _ => format!("{name}= {HIDDEN}"),
    }
}

/// A line that holds only declared settings without secrets. Its comment may still hold an earlier value.
pub(crate) fn declaration(text: &str, catalog: &Catalog) -> String {
    if text.contains('@') || text.contains("://") { line(text, catalog) } else { text.to_owned() }
}

fn url_in_quotes(value: &str) -> String {
    let inside = value.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inside {
        // The path or query of a sink's address may be a key. Engines and brokers are never reached by HTTP.
        Some(inside) if !inside.contains('"') && !inside.starts_with("http") => {
            format!(" \"{}\"", url(inside))
        }
        _ => format!(" {HIDDEN}"),
    }
}

fn in_table_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"[]._- ".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::configs;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (given, shown) in [
            ("embedded:./data", "embedded:./data"),
            ("memory:", "memory:"),
            ("redis://h:6379/0", "redis://h:6379/0"),
            ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
            ("redis://:s3cret@h:6379/0", "redis://:***@h:6379/0"),
            ("amqp://user:pa@ss/wo:rd@h/v", "amqp://user:***@h/v"),
            ("redis://s3cret@h", "redis://:***@h"),
            ("redis://:s3cret", "redis://***"),
            ("redis://user:s3cret/0", "redis://***"),
            ("redis-cluster://a:1,b:2,c:3", "redis-cluster://a:1,b:2,c:3"),
            ("s3cret", "***"),
            ("redis:s3cret@h", "***"),
        ] {
            assert_eq!(url(given), shown, "{given}");
            assert_eq!(format!("{:?}", SecretUrl::new(given)), format!("{shown:?}"));
        }
    }

    #[test]
    fn a_line_that_could_hold_a_secret_keeps_only_its_name() {
        let catalog = Catalog::new(&configs());
        for (given, shown) in [
            ("listen = \"127.0.0.1:7400\"", "listen = \"127.0.0.1:7400\""),
            ("  partitions = x  # why", "  partitions = x  # why"),
            ("[http]", "[http]"),
            ("[[view.x]] # note", "[[view.x]] # note"),
            ("url = \"redis://:s3cret@h\"", "url = \"redis://:***@h\""),
            ("engine.url = \"redis://:s3cret@h\"", "engine.url = \"redis://:***@h\""),
            ("url = redis://:s3cret@h", "url = ***"),
            ("url = \"redis://:s3cret@h", "url = ***"),
            ("url = \"https://example.org/hooks/s3cret\"", "url = ***"),
            ("upstream = \"http://h/?key=s3cret\"", "upstream = ***"),
            ("url = \"redis://h\" # was \"redis://:s3cret@h\"", "url = ***"),
            ("tokens = [\"s3cret\"]", "tokens = ***"),
            ("password = \"s3cret\"", "password = ***"),
            ("from = rides", "from = rides"),
            ("where = \"a == 's3cret'\"", "where = ***"),
            ("key = \"s3cret\"", "key = ***"),
            ("amqp = { url = \"amqp://u:s3cret@h\", queue = \"q\" }", "amqp = ***"),
            ("amqp = { queue = \"q\", url = \"amqp://u:s3cret@h\"", "amqp = ***"),
            ("  url = \"amqp://u:s3cret@h\",", "  url = ***"),
            ("queue = \"q\", url = \"amqp://u:s3cret@h\" }", "queue = ***"),
            ("engine = { url = \"redis://:s3cret@h\" }", "engine = ***"),
            ("listen = \"x\" tokens = [\"s3cret\"]", "listen = ***"),
            ("  \"s3cret\",", "***"),
            ("[\"s3cret\"]", "***"),
            ("  \"s3cret==\",", "***"),
            ("s3cret", "***"),
        ] {
            assert_eq!(line(given, &catalog), shown, "{given}");
        }
    }
}
