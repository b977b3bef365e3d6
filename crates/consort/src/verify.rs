//! Checks the documents of a collection against a replay of its log, without a node.

use std::sync::Arc;

use consort_glue::Collection;
use consort_glue::reading::{CollectionReader, ReadingError, VerifiedCollection};
use consort_kernel::NameError;

use crate::config::{Config, SecretUrl};
use crate::node::engine_options;

pub use consort_glue::reading::{DocumentFinding, FindingKind};

/// Why a collection could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The config declares no such collection.
    #[error("there is no collection '{name}' in the config; there are {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The collections that there are.
        known: String,
    },
    /// The engine cannot be used.
    #[error("the engine {url} could not be opened: {source}")]
    Engine {
        /// Its address.
        url: SecretUrl,
        /// What went wrong.
        source: consort_engines::OpenError,
    },
    /// The name of the collection is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The log or the store could not be read.
    #[error("the collection could not be read: {0}")]
    Read(#[from] ReadingError),
}

/// Replays the log of a collection, and compares the documents that come of it with those in the store.
pub async fn verify_collection(
    config: &Config,
    name: &str,
) -> Result<VerifiedCollection, VerifyError> {
    let collections = &config.glue().collections;
    let found = collections.iter().find(|settings| settings.definition.name == name);
    let Some(settings) = found else {
        let known: Vec<&str> =
            collections.iter().map(|settings| &*settings.definition.name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(VerifyError::Unknown { name: name.to_owned(), known });
    };
    let engine = consort_engines::open(&engine_options(&config.engine)).await;
    let engine =
        engine.map_err(|source| VerifyError::Engine { url: config.engine.url.clone(), source })?;
    let definition = Arc::new(Collection::clone(&settings.definition));
    let reader = CollectionReader::new(definition, engine.store, engine.log)?;
    Ok(reader.verify().await?)
}
