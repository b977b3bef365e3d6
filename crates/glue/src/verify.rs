//! Compares a document in the store with the replay of the log.

use crate::stored::{DocumentBody, DocumentHead, Existence, PiecePlace};

/// How a document in the store compares with the replay of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentCheck {
    /// Both are equal.
    Same,
    /// The document's life began before the first piece that the log still has: the replay cannot know it.
    OlderThanLog,
    /// They differ: how.
    Differs(String),
}

/// A document as its cells have it; `None` for a cell that is not there.
#[derive(Clone, Debug, Default)]
pub struct DocumentCells {
    /// The head.
    pub head: Option<DocumentHead>,
    /// The body.
    pub body: Option<DocumentBody>,
}

/// Compares the cells of a document with those that the replay made. `first` is the place of the first piece that the
/// partition's log still has.
pub fn check_document(
    stored: &DocumentCells,
    replayed: &DocumentCells,
    first: PiecePlace,
) -> DocumentCheck {
    let state = |cells: &DocumentCells| {
        let head = cells.head.as_ref()?;
        Some((head.tag(), head.existence, head.flow))
    };
    let document = |cells: &DocumentCells| cells.body.as_ref().map(|body| body.document.clone());
    if state(stored) == state(replayed) && document(stored) == document(replayed) {
        return DocumentCheck::Same;
    }
    if is_older(stored, replayed, first) {
        return DocumentCheck::OlderThanLog;
    }
    let shown = |cells: &DocumentCells| match &cells.head {
        None => "there is none".to_owned(),
        Some(head) => {
            let existence = match head.existence {
                Existence::Never => "no document",
                Existence::Live => "a document",
                Existence::Deleted => "a deleted document",
            };
            let tag = head.tag().map(|tag| format!(" at {tag}")).unwrap_or_default();
            format!("{existence}{tag}, {}", head.flow.as_str())
        }
    };
    let (in_store, by_log) = (shown(stored), shown(replayed));
    DocumentCheck::Differs(if in_store == by_log {
        "the content differs, at the same version".to_owned()
    } else {
        format!("in the store: {in_store}; by the log: {by_log}")
    })
}

/// Whether the document has versions or numbers that the log has no longer.
fn is_older(stored: &DocumentCells, replayed: &DocumentCells, first: PiecePlace) -> bool {
    let Some(head) = &stored.head else { return false };
    let began_before = head.life.is_some_and(|life| life < first);
    let replayed_version = replayed.head.as_ref().map_or(0, |head| head.version);
    let continues = replayed.head.as_ref().is_some_and(|replayed| head.life == replayed.life);
    // A life that the log has whole may follow older ones: then only the versions are counted from elsewhere.
    began_before
        || (continues
            && head.version > replayed_version
            && head.life >= Some(first)
            && is_same_document(stored, replayed))
}

fn is_same_document(stored: &DocumentCells, replayed: &DocumentCells) -> bool {
    let document = |cells: &DocumentCells| cells.body.as_ref().map(|body| body.document.clone());
    document(stored) == document(replayed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DocumentTag;

    fn cells(life: &str, version: u64, document: &'static str) -> DocumentCells {
        let life: PiecePlace = life.parse().unwrap();
        let head = DocumentHead {
            life: Some(life),
            version,
            existence: Existence::Live,
            ..DocumentHead::default()
        };
        let body = DocumentBody { tag: DocumentTag { life, version }, document: document.into() };
        DocumentCells { head: Some(head), body: Some(body) }
    }

    #[test]
    fn a_document_is_compared_with_its_replay() {
        let first = "0-0-100-0".parse().unwrap();
        let stored = cells("0-0-120-0", 3, "1");
        assert_eq!(check_document(&stored, &stored, first), DocumentCheck::Same);
        let other = check_document(&stored, &cells("0-0-120-0", 3, "2"), first);
        let text = "the content differs, at the same version";
        assert_eq!(other, DocumentCheck::Differs(text.into()));
        let missing = check_document(&stored, &DocumentCells::default(), first);
        let text = "in the store: a document at 0-0-120-0.3, live; by the log: there is none";
        assert_eq!(missing, DocumentCheck::Differs(text.into()));
        let lost = check_document(&DocumentCells::default(), &stored, first);
        assert!(matches!(lost, DocumentCheck::Differs(_)));
    }

    #[test]
    fn a_document_that_is_older_than_the_log_is_named_as_such() {
        let first = "0-0-100-0".parse().unwrap();
        let old = cells("0-0-7-0", 30, "1");
        let replayed = cells("0-0-101-0", 2, "2");
        assert_eq!(check_document(&old, &replayed, first), DocumentCheck::OlderThanLog);
        // Older lives were trimmed, so the versions are counted from elsewhere.
        let later_life = cells("0-0-120-0", 9, "1");
        let counted = cells("0-0-120-0", 2, "1");
        assert_eq!(check_document(&later_life, &counted, first), DocumentCheck::OlderThanLog);
    }
}
