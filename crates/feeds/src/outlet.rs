//! Outlets: the declared sinks with the feeds that are delivered to them.

use std::sync::Arc;

use crate::sink::config::{SinkConfig, check_sink};
use crate::spec::FeedSpec;

/// A sink with the feeds that are delivered to it.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    /// The sink.
    pub(crate) sink: SinkConfig,
    /// The feeds, in the order of their names.
    pub(crate) feeds: Vec<Arc<FeedSpec>>,
}

/// A feed names a sink that it cannot be delivered to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutletError {
    /// There is no such sink.
    #[error("the feed '{feed}' names the sink '{sink}', which is not declared")]
    Unknown {
        /// The feed's path.
        feed: String,
        /// The name of the sink.
        sink: String,
    },
    /// The sink cannot take the feed's payload.
    #[error("the feed '{feed}': {reason}")]
    Payload {
        /// The feed's path.
        feed: String,
        /// Why, and what to do.
        reason: String,
    },
}

/// The outlets of a node: each sink that at least one feed names, with those feeds.
pub(crate) fn outlets(
    sinks: &[SinkConfig],
    feeds: &[Arc<FeedSpec>],
) -> Result<Vec<Outlet>, OutletError> {
    let mut outlets: Vec<Outlet> =
        sinks.iter().map(|sink| Outlet { sink: sink.clone(), feeds: Vec::new() }).collect();
    for spec in feeds {
        let feed = || spec.path.clone();
        for name in &spec.sinks {
            let outlet = outlets.iter_mut().find(|outlet| outlet.sink.name.as_str() == name);
            let Some(outlet) = outlet else {
                return Err(OutletError::Unknown { feed: feed(), sink: name.clone() });
            };
            check_sink(&outlet.sink, &*spec.payload)
                .map_err(|reason| OutletError::Payload { feed: feed(), reason })?;
            outlet.feeds.push(Arc::clone(spec));
        }
    }
    outlets.retain(|outlet| !outlet.feeds.is_empty());
    for outlet in &mut outlets {
        outlet.feeds.sort_by(|a, b| a.feed.cmp(&b.feed));
        outlet.feeds.dedup_by(|a, b| a.feed == b.feed);
    }
    Ok(outlets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Notes, feed};
    use crate::sink::config::{FileConfig, FileForm, SinkKind};
    use crate::subjects::SendMode;

    fn sink(name: &str, form: FileForm) -> SinkConfig {
        let file = FileConfig { path: name.into(), form };
        let kind = SinkKind::File(file);
        SinkConfig { name: name.parse().unwrap(), kind, send: SendMode::Pieces }
    }

    fn spec(name: &str, sinks: &[&str]) -> FeedSpec {
        let sinks = sinks.iter().map(|sink| (*sink).to_owned()).collect();
        FeedSpec { sinks, ..(*feed(name)).clone() }
    }

    #[test]
    fn each_sink_gets_the_feeds_that_name_it() {
        let sinks = ["a", "b", "unused"].map(|name| sink(name, FileForm::Line));
        let feeds = [spec("z", &["b", "a"]), spec("y", &["a", "a"]), spec("x", &[])].map(Arc::new);
        let shown: Vec<String> = outlets(&sinks, &feeds)
            .unwrap()
            .iter()
            .map(|outlet| {
                let feeds: Vec<&str> = outlet.feeds.iter().map(|feed| feed.feed.as_str()).collect();
                format!("{}: {feeds:?}", outlet.sink.name)
            })
            .collect();
        assert_eq!(shown, ["a: [\"test.y\", \"test.z\"]", "b: [\"test.z\"]"]);
    }

    #[test]
    fn a_sink_that_is_not_declared_is_named() {
        let wrong = outlets(&[], &[Arc::new(spec("v", &["s"]))]).unwrap_err();
        let told = "the feed 'test/v' names the sink 's', which is not declared";
        assert_eq!(wrong.to_string(), told);
    }

    #[test]
    fn a_sink_that_cannot_take_the_payload_is_refused() {
        let notes = FeedSpec { payload: Arc::new(Notes), ..spec("v", &["s"]) };
        let feeds = [Arc::new(notes)];
        assert!(outlets(&[sink("s", FileForm::Ndjson)], &feeds).is_ok());
        let wrong = outlets(&[sink("s", FileForm::Line)], &feeds).unwrap_err();
        let told = "the feed 'test/v': the sink 's' writes line protocol: it cannot carry changes of the \
                    kind 'note'; set 'format' in [sink.s] to \"ndjson\"";
        assert_eq!(wrong.to_string(), told);
    }
}
