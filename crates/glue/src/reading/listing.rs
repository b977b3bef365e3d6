//! The documents of a collection, ordered by id over all shards.
//!
//! The heads of each shard are ordered, and a page merges them. Bodies are read for the documents of the page alone.

use std::collections::{BTreeMap, VecDeque};

use consort_kernel::limits::PAGE_BYTES;
use consort_kernel::{Budget, Element, Key, Kind, Shard, Value};

use super::{CollectionReader, DocumentText, PAGE_ITEMS, ReadingError, TenantSelection};
use crate::stored::{DocumentBody, DocumentHead, Existence};

/// Heads that one page looks at, at most: those of tombstones, and of documents that wait for their first piece, are
/// passed over. A page that ends here says where the next one begins.
const LOOKED_AT: usize = 10_000;

/// Heads that are read of a shard at once, at least.
const READ_LEAST: usize = 16;

/// A page of a list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Whose documents.
    pub tenants: TenantSelection,
    /// The document that the page begins behind: tenant and id.
    pub after: Option<(String, String)>,
    /// How many documents.
    pub limit: usize,
    /// Whether tombstones are listed as well.
    pub deleted: bool,
    /// Whether the documents themselves are read.
    pub texts: bool,
}

/// A document in a list.
#[derive(Clone, Debug)]
pub struct ListedDocument {
    /// Its tenant.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// Its head.
    pub head: DocumentHead,
    /// Its text, if it was asked for and the document is live.
    pub text: Option<DocumentText>,
}

/// A page of documents.
#[derive(Clone, Debug)]
pub struct DocumentPage {
    /// The documents, ordered by id; with all tenants, by tenant and id.
    pub documents: Vec<ListedDocument>,
    /// The document that the next page begins behind; none at the end.
    pub next: Option<(String, String)>,
}

/// The heads of one shard, in their order.
struct ShardHeads {
    shard: Shard,
    /// The last key that was read.
    after: Option<Key>,
    heads: VecDeque<(Key, DocumentHead)>,
    ended: bool,
}

impl CollectionReader {
    /// A page of documents.
    pub async fn list(&self, request: &ListRequest) -> Result<DocumentPage, ReadingError> {
        let limit = request.limit.clamp(1, PAGE_ITEMS);
        let after = request.after.as_ref().map(|(tenant, id)| self.cells().head(tenant, id));
        let mut shards: Vec<ShardHeads> = self
            .shards()
            .map(|shard| ShardHeads {
                shard,
                after: after.clone(),
                heads: VecDeque::new(),
                ended: false,
            })
            .collect();
        let prefix = match &request.tenants {
            TenantSelection::All => self.cells().heads().clone(),
            TenantSelection::One(tenant) => self.cells().heads_of(tenant),
        };
        let chunk = (2 * limit / shards.len().max(1)).clamp(READ_LEAST, PAGE_ITEMS);
        let (mut documents, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
        let (mut budget, mut next) = (Budget::default(), None);
        loop {
            for shard in shards.iter_mut().filter(|shard| shard.heads.is_empty() && !shard.ended) {
                self.read_heads(shard, &prefix, chunk).await?;
            }
            let Some((key, head)) = lowest(&mut shards) else { break };
            let Some((tenant, id)) = self.cells().head_subject(&key) else { continue };
            looked_at += 1;
            budget.spend(id.len()).await;
            next = Some((tenant.clone(), id.clone()));
            if is_listed(&head, request.deleted) {
                bytes += if request.texts { head.size as usize } else { 0 };
                documents.push(ListedDocument { tenant, id, head, text: None });
            }
            if documents.len() == limit || looked_at == LOOKED_AT || bytes >= PAGE_BYTES {
                break;
            }
        }
        let is_end = shards.iter().all(|shard| shard.ended && shard.heads.is_empty());
        if request.texts {
            self.read_texts(&mut documents).await?;
        }
        Ok(DocumentPage { documents, next: next.filter(|_| !is_end) })
    }

    async fn read_heads(
        &self,
        shard: &mut ShardHeads,
        prefix: &Key,
        limit: usize,
    ) -> Result<(), ReadingError> {
        let after = shard.after.as_ref();
        let rows = self.store.scan(shard.shard, Kind::Bytes, prefix, after, limit).await?;
        // Only an empty page is the end.
        shard.ended = rows.is_empty();
        for (key, value) in rows {
            shard.after = Some(key.clone());
            if let Value::Bytes(cell) = value {
                shard.heads.push_back((key, DocumentHead::decode(&cell)?));
            }
        }
        Ok(())
    }

    /// Reads the texts of live documents. One that changed since its head was read is read as a whole again.
    async fn read_texts(&self, documents: &mut [ListedDocument]) -> Result<(), ReadingError> {
        let mut by_shard: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (at, document) in documents.iter().enumerate() {
            if document.head.existence == Existence::Live {
                let shard = self.shard(&document.tenant, &document.id);
                by_shard.entry(shard).or_default().push(at);
            }
        }
        for (shard, places) in by_shard {
            let key = |at: &usize| self.cells().body(&documents[*at].tenant, &documents[*at].id);
            let bodies = self.bytes(shard, places.iter().map(key).collect()).await?;
            for (at, body) in places.into_iter().zip(bodies) {
                let document = &mut documents[at];
                let body = body.map(|cell| DocumentBody::decode(&cell)).transpose()?;
                match body.filter(|body| document.head.tag() == Some(body.tag)) {
                    Some(DocumentBody { tag, document: text }) => {
                        document.text = Some(DocumentText { tag, text });
                    }
                    None => {
                        let now = self.document(&document.tenant, &document.id).await?;
                        (document.head, document.text) = (now.head, now.body);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Takes the lowest head of all shards. Keys of one collection are ordered by tenant and id.
fn lowest(shards: &mut [ShardHeads]) -> Option<(Key, DocumentHead)> {
    let first = |shard: &ShardHeads| shard.heads.front().map(|(key, _)| key.clone());
    let lowest = shards.iter_mut().filter(|shard| !shard.heads.is_empty()).min_by_key(|s| first(s));
    lowest?.heads.pop_front()
}

fn is_listed(head: &DocumentHead, deleted: bool) -> bool {
    match head.existence {
        Existence::Live => true,
        Existence::Deleted => deleted,
        // Pieces wait for the first one: there is no document yet.
        Existence::Never => false,
    }
}

/// Where a listing goes on, as a text: tenant and id as the elements of a key, in hexadecimal.
impl DocumentPage {
    /// The text of a place between two documents.
    pub fn encode_after((tenant, id): &(String, String)) -> String {
        let key = Key::from([tenant.as_str(), id.as_str()]);
        key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads a text that [`encode_after`](DocumentPage::encode_after) wrote.
    pub fn decode_after(text: &str) -> Option<(String, String)> {
        let digits = text.as_bytes();
        if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        match <[Element; 2]>::try_from(Key::from_stored(bytes?).elements().ok()?).ok()? {
            [Element::Text(tenant), Element::Text(id)] => Some((tenant, id)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_list_survives_its_text() {
        for place in [("a", "crid://a/1"), ("default", "ä\u{0}b"), ("t", "")] {
            let place = (place.0.to_owned(), place.1.to_owned());
            assert_eq!(
                DocumentPage::decode_after(&DocumentPage::encode_after(&place)),
                Some(place)
            );
        }
        for text in ["", "0", "zz", "é1", "0241", &"00".repeat(3)] {
            assert_eq!(DocumentPage::decode_after(text), None, "{text}");
        }
    }
}
