//! The name of a node that was given none.

/// The longest part of a host name that is taken: enough to recognise a machine.
const HOST_LENGTH: usize = 40;

/// Host name and a random part, so that two nodes on one machine, or a node and its dead
/// predecessor, differ.
pub(crate) fn default_id() -> String {
    format!("{}-{:08x}", host(), rand::random::<u32>())
}

/// The host's name, as far as an id can hold it.
pub(crate) fn host() -> String {
    shortened(&rustix::system::uname().nodename().to_string_lossy())
}

fn shortened(host: &str) -> String {
    let first = host.split('.').next().unwrap_or_default();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    let host: String = first.chars().filter(allowed).take(HOST_LENGTH).collect();
    if host.is_empty() { "node".to_owned() } else { host }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn an_id_begins_with_the_host_in_allowed_letters() {
        assert_eq!(shortened("web1.example.org"), "web1");
        assert_eq!(shortened(""), "node");
        assert_eq!(shortened("höst name"), "hstname");
        assert_eq!(shortened(&"x".repeat(300)).len(), 40);
    }
}
