//! Which feeds go to which sink.

use consort_kernel::{Name, NameError, Row};

use crate::sink::config::SinkConfig;

/// A sink with the feeds that are delivered to it.
#[derive(Clone, Debug)]
pub struct Outlet {
    /// Where to.
    pub sink: SinkConfig,
    /// What, in the order of their names.
    pub feeds: Vec<Name>,
}

/// A view names a sink that is not declared, or has a name too long for a feed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSink {
    /// No such sink.
    #[error("view '{view}' names the sink '{sink}', which is not declared")]
    Unknown {
        /// The view.
        view: String,
        /// What it names.
        sink: String,
    },
    /// No such feed.
    #[error("view '{0}' cannot have a feed: {1}")]
    Name(String, NameError),
}

/// The outlets of a node: each sink that at least one view names, with the feeds of those views.
/// `views` are the names of views, each with the names of its sinks.
pub fn outlets<'a>(
    sinks: &[SinkConfig],
    views: impl IntoIterator<Item = (&'a str, &'a [String])>,
) -> Result<Vec<Outlet>, UnknownSink> {
    let mut outlets: Vec<Outlet> =
        sinks.iter().map(|sink| Outlet { sink: sink.clone(), feeds: Vec::new() }).collect();
    for (view, named) in views {
        let feed = Row::feed(view).map_err(|error| UnknownSink::Name(view.into(), error))?;
        for name in named {
            let outlet = outlets.iter_mut().find(|outlet| outlet.sink.name.as_str() == name);
            let Some(outlet) = outlet else {
                return Err(UnknownSink::Unknown { view: view.into(), sink: name.clone() });
            };
            outlet.feeds.push(feed.clone());
        }
    }
    outlets.retain(|outlet| !outlet.feeds.is_empty());
    for outlet in &mut outlets {
        outlet.feeds.sort();
        outlet.feeds.dedup();
    }
    Ok(outlets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::config::{FileConfig, FileForm, SinkKind};

    fn sink(name: &str) -> SinkConfig {
        let file = FileConfig { path: name.into(), form: FileForm::Ndjson };
        SinkConfig { name: name.parse().unwrap(), kind: SinkKind::File(file) }
    }

    #[test]
    fn each_sink_gets_the_feeds_of_the_views_that_name_it() {
        let sinks = [sink("a"), sink("b"), sink("unused")];
        let both = ["b".to_owned(), "a".to_owned()];
        let one = ["a".to_owned(), "a".to_owned()];
        let outlets = outlets(&sinks, [("z", &both[..]), ("y", &one[..]), ("x", &[][..])]).unwrap();
        let shown: Vec<String> = outlets
            .iter()
            .map(|outlet| format!("{}: {:?}", outlet.sink.name, outlet.feeds))
            .collect();
        assert_eq!(shown, ["a: [\"rows.y\", \"rows.z\"]", "b: [\"rows.z\"]"]);
    }

    #[test]
    fn a_sink_that_is_not_declared_is_named() {
        let wrong = outlets(&[], [("v", &["s".to_owned()][..])]).unwrap_err();
        assert_eq!(wrong.to_string(), "view 'v' names the sink 's', which is not declared");
    }
}
