//! One document as it is now: its head, and its text.

use bytes::Bytes;

use super::{CollectionReader, ReadingError};
use crate::stored::{DocumentBody, DocumentHead, DocumentTag, Existence};

/// How often head and body are read again where they are of different states. They change in one commit, so each
/// further read needs a further commit between two cells of one answer.
const TRIES: usize = 5;

/// A document as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentDocument {
    /// Its head; that of an id that never had a document is the default.
    pub head: DocumentHead,
    /// Its text, of a live document.
    pub body: Option<DocumentText>,
}

/// The text of a document at a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentText {
    /// The state.
    pub tag: DocumentTag,
    /// The document, serialised.
    pub text: Bytes,
}

impl CollectionReader {
    /// The head of a document; the default if there is none.
    pub async fn head(&self, tenant: &str, id: &str) -> Result<DocumentHead, ReadingError> {
        let keys = vec![self.cells().head(tenant, id)];
        let cells = self.bytes(self.shard(tenant, id), keys).await?;
        match cells.into_iter().next().flatten() {
            Some(cell) => Ok(DocumentHead::decode(&cell)?),
            None => Ok(DocumentHead::default()),
        }
    }

    /// A document as it is now, head and text of the same state.
    pub async fn document(&self, tenant: &str, id: &str) -> Result<CurrentDocument, ReadingError> {
        let shard = self.shard(tenant, id);
        for _ in 0..TRIES {
            let keys = vec![self.cells().head(tenant, id), self.cells().body(tenant, id)];
            let mut cells = self.bytes(shard, keys).await?.into_iter();
            let (head, body) = (cells.next().flatten(), cells.next().flatten());
            let head = head.map(|cell| DocumentHead::decode(&cell)).transpose()?;
            let head = head.unwrap_or_default();
            if head.existence != Existence::Live {
                return Ok(CurrentDocument { head, body: None });
            }
            let body = body.map(|cell| DocumentBody::decode(&cell)).transpose()?;
            if let Some(DocumentBody { tag, document }) = body
                && head.tag() == Some(tag)
            {
                let body = Some(DocumentText { tag, text: document });
                return Ok(CurrentDocument { head, body });
            }
        }
        Err(ReadingError::Restless)
    }
}
