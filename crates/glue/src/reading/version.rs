//! Old versions of a document, from the ring of its history.
//!
//! A slot of the ring holds a version's piece, or the document itself. Every 16th version holds the document, and so does
//! each with a large piece; so an old version is a stored document and at most 15 pieces that are applied to it.

use consort_kernel::limits::PAGE_BYTES;

use super::{CollectionReader, DocumentText, PAGE_ITEMS, ReadingError};
use crate::bounds::HISTORY_STRIDE;
use crate::json::JsonDocument;
use crate::stored::{DocumentHead, Existence, RingContent, RingVersion};
use crate::xml::XmlDocument;
use crate::{Collection, DocumentFormat, PieceForm, Rejection};

/// What there is of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionAnswer {
    /// The document at that version.
    Document(DocumentText),
    /// The document was deleted by it.
    Deleted,
    /// It is not kept, or does not exist yet. The versions that can be read are `first` to `last`.
    Absent {
        /// The oldest that is kept.
        first: u64,
        /// The newest.
        last: u64,
    },
}

/// A page of versions, newest first.
#[derive(Clone, Debug)]
pub struct VersionPage {
    /// The versions.
    pub versions: Vec<RingVersion>,
    /// The version that the next page begins below; none at the end.
    pub next: Option<u64>,
}

impl CollectionReader {
    /// The oldest version of a document that is kept, by its head.
    fn oldest_kept(&self, head: &DocumentHead) -> u64 {
        let kept = u64::from(self.collection().history);
        head.version.saturating_sub(kept.saturating_sub(1)).max(1)
    }

    /// A page of the versions of a document that are kept, newest first, below `after`.
    pub async fn versions(
        &self,
        tenant: &str,
        id: &str,
        head: &DocumentHead,
        after: Option<u64>,
        limit: usize,
    ) -> Result<VersionPage, ReadingError> {
        let limit = limit.clamp(1, PAGE_ITEMS);
        let first = self.oldest_kept(head);
        let mut at = head.version.min(after.map_or(u64::MAX, |after| after.saturating_sub(1)));
        let mut versions = Vec::new();
        // Each slot may hold a document: as many are asked for as fit a page.
        let most = PAGE_BYTES / self.collection().max_document.max(16 << 10);
        let chunk = most.clamp(1, PAGE_ITEMS) as u64;
        while at >= first && versions.len() < limit {
            let low =
                (at + 1).saturating_sub(chunk.min((limit - versions.len()) as u64)).max(first);
            let slots = self.slots(tenant, id, low..=at).await?;
            let numbered: Vec<_> = (low..=at).zip(slots).collect();
            // A slot that has gone on to a newer version is not kept any more.
            let kept = |(number, slot): (u64, Option<RingVersion>)| {
                slot.filter(|slot| slot.tag.version == number)
            };
            versions.extend(numbered.into_iter().rev().filter_map(kept));
            at = low - 1;
        }
        Ok(VersionPage { versions, next: (at >= first).then_some(at + 1) })
    }

    /// A document at a version. `current` is the document as it is now.
    pub async fn version(
        &self,
        tenant: &str,
        id: &str,
        current: &super::CurrentDocument,
        version: u64,
    ) -> Result<VersionAnswer, ReadingError> {
        let super::CurrentDocument { head, body } = current;
        if version == head.version {
            match (head.existence, body) {
                (Existence::Live, Some(text)) => return Ok(VersionAnswer::Document(text.clone())),
                (Existence::Deleted, _) => return Ok(VersionAnswer::Deleted),
                _ => {}
            }
        }
        let first = self.oldest_kept(head);
        let absent = VersionAnswer::Absent { first: first.min(head.version), last: head.version };
        if self.collection().history == 0 || !(first..head.version).contains(&version) {
            return Ok(absent);
        }
        let low = version.saturating_sub(HISTORY_STRIDE - 1).max(1);
        let mut steps = Vec::new();
        // Backwards, up to a document: only one of these slots is large.
        for number in (low..=version).rev() {
            let slot = self.slots(tenant, id, number..=number).await?.pop().flatten();
            let Some(slot) = slot.filter(|slot| slot.tag.version == number) else { break };
            let is_base = !matches!(slot.content, RingContent::Piece(_)) || is_whole(&slot);
            steps.push(slot);
            if is_base {
                steps.reverse();
                return Ok(replay(self.collection(), &steps).unwrap_or(absent));
            }
        }
        Ok(absent)
    }

    async fn slots(
        &self,
        tenant: &str,
        id: &str,
        versions: std::ops::RangeInclusive<u64>,
    ) -> Result<Vec<Option<RingVersion>>, ReadingError> {
        let slots = self.collection().ring_slots().max(1);
        let key = |version: u64| self.cells().version(tenant, id, version % slots);
        let cells = self.bytes(self.shard(tenant, id), versions.map(key).collect()).await?;
        let decode = |cell: Option<bytes::Bytes>| {
            cell.map(|cell| RingVersion::decode(&cell)).transpose().map_err(ReadingError::from)
        };
        cells.into_iter().map(decode).collect()
    }
}

fn is_whole(slot: &RingVersion) -> bool {
    slot.form == PieceForm::Whole || slot.tag.version == 1
}

/// A document while its history is replayed.
enum Replayed {
    Absent,
    Json(JsonDocument),
    Xml(XmlDocument),
}

/// The document behind the last of these versions, the first of which needs none before it. None if a piece that was
/// applied once cannot be applied again, which no release should cause.
fn replay(collection: &Collection, steps: &[RingVersion]) -> Option<VersionAnswer> {
    let mut document = Replayed::Absent;
    for step in steps {
        document = match &step.content {
            RingContent::Deleted => Replayed::Absent,
            RingContent::Document(text) => parsed(collection, text).ok()?,
            RingContent::Piece(piece) => applied(collection, document, step.form, piece).ok()?,
        };
    }
    let tag = steps.last()?.tag;
    Some(match document {
        Replayed::Absent => VersionAnswer::Deleted,
        Replayed::Json(json) => {
            VersionAnswer::Document(DocumentText { tag, text: json.to_bytes() })
        }
        Replayed::Xml(xml) => VersionAnswer::Document(DocumentText { tag, text: xml.to_bytes() }),
    })
}

fn parsed(collection: &Collection, text: &[u8]) -> Result<Replayed, Rejection> {
    match collection.format {
        DocumentFormat::Json => JsonDocument::parse(text).map(Replayed::Json),
        DocumentFormat::Xml => XmlDocument::parse(text).map(Replayed::Xml),
    }
}

fn applied(
    collection: &Collection,
    before: Replayed,
    form: PieceForm,
    piece: &[u8],
) -> Result<Replayed, Rejection> {
    let most = collection.max_document;
    let before = match (before, form) {
        (_, PieceForm::Whole) => return parsed(collection, piece),
        (_, PieceForm::Delete) => return Ok(Replayed::Absent),
        (Replayed::Absent, PieceForm::MergePatch) => {
            return JsonDocument::from_merge_patch(piece, most).map(Replayed::Json);
        }
        (Replayed::Absent, _) => {
            parsed(collection, collection.template.as_deref().unwrap_or_default())?
        }
        (before, _) => before,
    };
    match before {
        Replayed::Json(mut json) => json.apply(form, piece, most).map(|()| Replayed::Json(json)),
        Replayed::Xml(mut xml) => xml.apply(form, piece, most).map(|()| Replayed::Xml(xml)),
        Replayed::Absent => Ok(Replayed::Absent),
    }
}
