//! The name of a node that was given none.

/// The longest part of a host name that is taken: enough to recognise a machine.
const HOST_LENGTH: usize = 40;

/// Host name and a random part, so that two nodes on one machine, or a node and its dead
/// predecessor, differ.
pub(crate) fn default_id() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    id(&host, rand::random())
}

fn id(host: &str, random: u32) -> String {
    let first = host.split('.').next().unwrap_or_default();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    let host: String = first.chars().filter(allowed).take(HOST_LENGTH).collect();
    let host = if host.is_empty() { "node" } else { &host };
    format!("{host}-{random:08x}")
}

#[cfg(test)]
mod tests {
    use super::id;

    #[test]
    fn an_id_is_the_host_and_a_random_part_in_allowed_letters() {
        assert_eq!(id("web1.example.org", 0xabc), "web1-00000abc");
        assert_eq!(id("", 1), "node-00000001");
        assert_eq!(id("höst name", 1), "hstname-00000001");
        assert_eq!(id(&"x".repeat(300), 1).len(), 49);
    }
}
