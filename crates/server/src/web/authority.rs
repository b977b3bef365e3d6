//! Host and port, as `Host`, a request-target and an origin write them (RFC 3986 §3.2). Pure.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A host with an optional port. It borrows the text that it was parsed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Authority<'a> {
    /// A name, an IPv4 address, or an IPv6 address in brackets. Never empty.
    pub(super) host: &'a str,
    pub(super) port: Option<u16>,
}

/// A further name or address by which a node is reached. Ports do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

/// A text that is no host name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a host: write a name or address without scheme, port and path, \
     such as \"consort.example.org\" or \"[fd00::7]\""
)]
pub struct BadHostName(String);

impl<'a> Authority<'a> {
    /// `None` for what no client may send: an empty host, a user's name, a space.
    pub(super) fn parse(text: &'a [u8]) -> Option<Authority<'a>> {
        let text = std::str::from_utf8(text).ok()?;
        let after_address = if text.starts_with('[') { text.find(']')? + 1 } else { 0 };
        let (host, port) = match text[after_address..].find(':') {
            Some(colon) => {
                let (host, port) = text.split_at(after_address + colon);
                (host, Some(&port[1..]))
            }
            None => (text, None),
        };
        let port = match port {
            // The grammar allows a colon with nothing behind it.
            None | Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        let fits = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(is_name_byte),
        };
        fits.then_some(Authority { host, port })
    }

    /// Whether only this machine can be meant: browsers resolve these names themselves.
    pub(super) fn is_loopback(&self) -> bool {
        let name = without_dot(self.host);
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return address.is_loopback();
        }
        if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
        }
        let above = name.len().checked_sub("localhost".len());
        above.is_some_and(|above| {
            let (rest, last) = name.as_bytes().split_at(above);
            last.eq_ignore_ascii_case(b"localhost") && (rest.is_empty() || rest.ends_with(b"."))
        })
    }

    /// Whether it names this host, with or without the dot of the root.
    pub(super) fn is_host(&self, name: &HostName) -> bool {
        without_dot(self.host).eq_ignore_ascii_case(&name.0)
    }
}

impl HostName {
    /// The host of an address with an optional port.
    pub(super) fn without_port(address: &str) -> Option<HostName> {
        Authority::parse(address.as_bytes())?.host.parse().ok()
    }
}

impl FromStr for HostName {
    type Err = BadHostName;

    fn from_str(text: &str) -> Result<HostName, BadHostName> {
        match Authority::parse(text.as_bytes()) {
            Some(Authority { host, port: None }) if !text.ends_with(':') && !text.contains('*') => {
                Ok(HostName(without_dot(host).to_ascii_lowercase()))
            }
            _ => Err(BadHostName(text.to_owned())),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// The bytes of a registered name: unreserved, sub-delims, and percent codes.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_an_optional_port_and_nothing_else() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("127.0.0.1:7400", "127.0.0.1", Some(7400)),
            ("[::1]:80", "[::1]", Some(80)),
            ("[::1]", "[::1]", None),
            ("h:", "h", None),
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), Some(Authority { host, port }), "{text}");
        }
        for text in [
            "",
            ":80",
            "a b",
            "a, b",
            "u@h",
            "h:80:90",
            "h:x",
            "h:-1",
            "h:65536",
            "h/p",
            "::1",
            "[::1",
            "[x]",
            "[]",
            "[::1]x",
            "h\u{e9}",
            "http://h",
            "[::1%25eth0]",
            "h?x",
            "h#x",
        ] {
            assert_eq!(Authority::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Authority::parse(b"h\xff"), None);
    }

    #[test]
    fn only_loopback_names_and_addresses_mean_this_machine() {
        let is_loopback = |text: &str| Authority::parse(text.as_bytes()).unwrap().is_loopback();
        for text in [
            "localhost",
            "LocalHost:1",
            "localhost.",
            "tour.localhost",
            "a.b.localhost:7400",
            "127.0.0.1",
            "127.255.3.4:80",
            "[::1]:7400",
            "[0:0:0:0:0:0:0:1]",
        ] {
            assert!(is_loopback(text), "{text}");
        }
        for text in [
            "evil.example",
            "notlocalhost",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "127.1",
            "2130706433",
            "[::]",
            "[::ffff:127.0.0.1]",
            "10.0.0.1",
            "t",
        ] {
            assert!(!is_loopback(text), "{text}");
        }
    }

    #[test]
    fn a_further_host_is_a_name_without_a_port() {
        let name: HostName = "Consort.Example.org".parse().unwrap();
        for text in ["consort.example.org", "CONSORT.example.org:81", "consort.example.org."] {
            assert!(Authority::parse(text.as_bytes()).unwrap().is_host(&name), "{text}");
        }
        assert!(!Authority::parse(b"x.consort.example.org").unwrap().is_host(&name));
        // A pattern would match nothing, so it is refused rather than kept.
        for bad in ["", "h:80", "h:", "http://h", "h/x", "a b", "*", "*.example.org"] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
    }
}
