//! What can be subscribed to.

use std::collections::BTreeMap;

use consort_kernel::{Name, NameError, Row};

/// The part whose feeds are the rows of views.
const VIEWS: &str = "views";

/// A feed as subscribers name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedName {
    /// The part that fills it.
    pub part: String,
    /// Its name within the part.
    pub name: String,
    /// Its name in the store.
    pub feed: Name,
}

impl FeedName {
    /// The rows of a view with a window.
    pub fn view(view: &str) -> Result<FeedName, NameError> {
        Ok(FeedName { part: VIEWS.into(), name: view.into(), feed: Row::feed(view)? })
    }

    /// Where it is served.
    pub(super) fn path(&self) -> String {
        format!("/feeds/{}/{}", self.part, self.name)
    }
}

/// All feeds there are.
#[derive(Clone, Debug, Default)]
pub struct Catalog(BTreeMap<(String, String), FeedName>);

impl Catalog {
    /// Of these.
    pub fn new(feeds: impl IntoIterator<Item = FeedName>) -> Catalog {
        let keyed = |feed: FeedName| ((feed.part.clone(), feed.name.clone()), feed);
        Catalog(feeds.into_iter().map(keyed).collect())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &FeedName> {
        self.0.values()
    }

    pub(super) fn find(&self, part: &str, name: &str) -> Option<&FeedName> {
        self.0.get(&(part.to_owned(), name.to_owned()))
    }
}
