//! Rows of glue's collections as the payload of a feed. Glue knows no feeds, and feeds know no glue: the two meet here.

use std::sync::Arc;

use consort_feeds::{FeedSpec, Payload, Retention};
use consort_glue::stored::GlueRow;
use consort_glue::{Collection, CollectionCells, DocumentTag};
use consort_kernel::{Change, NameError};

/// The payload of a collection's feed.
#[derive(Clone, Debug)]
pub(crate) struct GlueRows(CollectionCells);

/// The feed of a collection, which goes to these sinks.
pub(crate) fn feed(collection: &Collection, sinks: &[String]) -> Result<FeedSpec, NameError> {
    let rows = GlueRows::new(collection)?;
    Ok(FeedSpec {
        path: format!("glue/{}", collection.name),
        feed: rows.0.feed().clone(),
        retention: Retention { age: collection.feed_keep, bytes: collection.feed_bytes },
        sinks: sinks.to_vec(),
        payload: Arc::new(rows),
    })
}

impl GlueRows {
    /// The payload of this collection's feed.
    pub(crate) fn new(collection: &Collection) -> Result<GlueRows, NameError> {
        CollectionCells::new(&collection.name).map(GlueRows)
    }
}

impl Payload for GlueRows {
    fn name(&self) -> &'static str {
        "glue"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        let row = GlueRow::from_change(change).map_err(|error| error.to_string())?;
        let tag = DocumentTag { life: row.life, version: row.version };
        Ok(format!("{}/{}/{}/{tag}", row.tenant, row.collection, change.subject))
    }
}
