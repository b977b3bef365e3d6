//! What `GET /` and `GET /streams` show of a config beside the definitions themselves.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use consort_server::home::Link;
use consort_server::streams::OtherWays;

use crate::config::Config;

/// The ways into streams besides HTTP; `udp` is where sockets are open.
pub(crate) fn other_ways(
    config: &Config,
    udp: &BTreeMap<String, SocketAddr>,
) -> BTreeMap<String, OtherWays> {
    let ways = |(name, stream): (&String, &crate::config::StreamSettings)| {
        let udp = udp.get(name).copied();
        let amqp_queue = stream.amqp.as_ref().map(|source| source.queue.clone());
        (name.clone(), OtherWays { udp, amqp_queue })
    };
    config.streams.iter().map(ways).collect()
}

/// A link to each space of once.
pub(crate) fn links(config: &Config) -> Vec<Link> {
    let link = |space: &consort_server::once::Space| Link {
        path: format!("/once/{}/", space.name),
        about: "a space of answers that are computed once".to_owned(),
    };
    config.once.spaces.iter().map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFile, Sources};

    #[test]
    fn a_queue_is_shown_without_its_broker() {
        let text = "[stream.rides]\nfields = { skier = \"int\" }\n\
            amqp = { url = \"amqp://user:s3cret@h/v\", queue = \"rides-in\" }\n\
            [once.items]\nupstream = \"http://h/{path}\"\n";
        let file = ConfigFile { name: "test".into(), text: text.into() };
        let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() }).unwrap();
        let address: SocketAddr = "127.0.0.1:8089".parse().unwrap();
        let ways = other_ways(&config, &BTreeMap::from([("rides".to_owned(), address)]));
        let expected = OtherWays { udp: Some(address), amqp_queue: Some("rides-in".into()) };
        assert_eq!(ways["rides"], expected);
        let links: Vec<String> = links(&config).into_iter().map(|link| link.path).collect();
        assert_eq!(links, ["/once/items/"]);
        assert!(!format!("{ways:?}").contains("s3cret"));
    }
}
