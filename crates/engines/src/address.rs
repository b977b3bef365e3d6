//! Addresses of engines as people write them, without the secrets that may be in them.

/// An address that can be printed: user and password, and everything behind a `?`, are left out.
///
/// It works on text that is no valid URL too, since that is when messages quote it.
pub fn printable(address: &str) -> String {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), address),
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    // A password may hold any character, '@' and '/' among them: the last '@' ends it.
    let shown = rest.rsplit_once('@').map_or(rest.to_string(), |(_, host)| format!("***@{host}"));
    format!("{scheme}{shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_printed() {
        for (address, shown) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://:hush@host:6379/0", "redis://***@host:6379/0"),
            ("amqp://user:hu@sh/x@host/vhost", "amqp://***@host/vhost"),
            ("amqp://u:p@h/v?password=hush#hush", "amqp://***@h/v"),
            ("embedded:./data", "embedded:./data"),
            ("user:hush@host", "***@host"),
            ("", ""),
        ] {
            assert_eq!(printable(address), shown);
        }
    }
}
