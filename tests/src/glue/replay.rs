//! An independent replay: the rows of the feed are folded by plain code, and compared with the pieces that were sent,
//! with their answers, with the reject list and with the documents that each node serves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ledger::{Answered, DocumentId, PieceId};
use super::pieces::{Collection, Document, Piece};

/// The pieces that were sent, with their answers.
pub type Sent = BTreeMap<PieceId, (Piece, Option<Answered>)>;

/// A document over time.
#[derive(Clone, Debug)]
pub struct History {
    /// The document after each version, from version 0 on, with whether it was deleted.
    versions: Vec<(Option<Document>, bool)>,
}

impl Default for History {
    fn default() -> History {
        History { versions: vec![(None, false)] }
    }
}

impl History {
    /// The number of the last version.
    pub fn version(&self) -> u64 {
        self.versions.len() as u64 - 1
    }

    /// The document at its last version.
    pub fn document(&self) -> Option<&Document> {
        self.versions.last().and_then(|(document, _)| document.as_ref())
    }
}

/// What the rows and rejects of all documents come to.
#[derive(Debug, Default)]
pub struct Replay {
    documents: BTreeMap<DocumentId, History>,
    seen: BTreeMap<PieceId, Seen>,
    last_numbers: BTreeMap<(DocumentId, String), u64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Version(u64),
    Reject(String),
}

impl Replay {
    /// Folds one row.
    ///
    /// # Panics
    ///
    /// If the row does not follow on those before it, or shows another piece than the one that was sent.
    pub fn row(&mut self, collection: Collection, row: &Value, sent: &Sent) {
        let (id, piece) = sent_piece(collection, row, sent);
        let history = self.documents.entry(id.0.clone()).or_default();
        assert_eq!(row["was"], history.version(), "a version is missing or comes twice: {row}");
        assert_eq!(row["version"], history.version() + 1, "versions have no gap: {row}");
        let (document, deleted) = history.versions.last().expect("there is a first version");
        let idle = *piece == Piece::Delete && document.is_none();
        assert!(!idle, "a DELETE without a document makes no version: {row}");
        let next = piece.apply(document.as_ref(), *deleted);
        let next = next.unwrap_or_else(|reason| panic!("applied, but {reason}: {row}"));
        history.versions.push((next, *piece == Piece::Delete));
        let last = self.last_numbers.entry((id.0.clone(), id.1.clone())).or_default();
        assert!(*last < id.2, "number {} of {} is applied behind {last}: {row}", id.2, id.1);
        *last = id.2;
        let seen = self.seen.insert(id, Seen::Version(history.version()));
        assert_eq!(seen, None, "a piece was applied twice: {row}");
    }

    /// Takes one entry of the reject list, after all rows.
    ///
    /// # Panics
    ///
    /// If the piece could have been applied at that version, or was applied.
    pub fn reject(&mut self, collection: Collection, reject: &Value, sent: &Sent) {
        let (id, piece) = sent_piece(collection, reject, sent);
        let reason = reject["reason"].as_str().expect("a reject has a reason").to_owned();
        let none = History::default();
        let history = self.documents.get(&id.0).unwrap_or(&none);
        let version = reject["version"].as_u64().unwrap_or_default() as usize;
        let (document, deleted) = &history.versions[version];
        let replayed = piece.apply(document.as_ref(), *deleted);
        assert_eq!(replayed.err(), Some(&*reason), "rejected at version {version}: {reject}");
        let seen = self.seen.insert(id, Seen::Reject(reason));
        assert_eq!(seen, None, "a rejected piece was there before: {reject}");
    }

    /// Compares with the answers: each acknowledged piece is there once, as it was answered. Gives how many pieces were
    /// applied and rejected.
    ///
    /// # Panics
    ///
    /// If one is missing or came to something else.
    pub fn meets(&self, sent: &Sent) -> (usize, usize) {
        for (id, (piece, answered)) in sent {
            let seen = self.seen.get(id);
            match (answered, seen) {
                (Some(Answered::Applied(version)), _) => {
                    assert_eq!(seen, Some(&Seen::Version(*version)), "{id:?} {piece:?}");
                }
                (Some(Answered::Rejected(reason)), _) => {
                    assert_eq!(seen, Some(&Seen::Reject(reason.clone())), "{id:?} {piece:?}");
                }
                // A DELETE without a document makes neither version nor reject.
                (Some(Answered::Accepted), None) if *piece == Piece::Delete => {}
                (Some(Answered::Accepted), None) => {
                    panic!("acknowledged and lost: {id:?} {piece:?}")
                }
                (Some(Answered::Accepted), Some(_)) | (None, _) => {}
            }
        }
        let applied = self.seen.values().filter(|seen| matches!(seen, Seen::Version(_))).count();
        (applied, self.seen.len() - applied)
    }

    /// The documents that there are at the end, by collection and id.
    pub fn documents(&self) -> BTreeMap<DocumentId, (u64, Value)> {
        let live = self.documents.iter().filter_map(|(id, history)| {
            Some((id.clone(), (history.version(), history.document()?.value())))
        });
        live.collect()
    }

    /// The reasons that occurred.
    pub fn reasons(&self) -> BTreeSet<&str> {
        let reasons = self.seen.values().filter_map(|seen| match seen {
            Seen::Reject(reason) => Some(&**reason),
            Seen::Version(_) => None,
        });
        reasons.collect()
    }
}

/// The piece that a row or reject shows, which must be as it was sent.
fn sent_piece<'a>(collection: Collection, shown: &Value, sent: &'a Sent) -> (PieceId, &'a Piece) {
    let text = |name: &str| shown[name].as_str().unwrap_or_else(|| panic!("{name}: {shown}"));
    let number = shown["seq"].as_u64().unwrap_or_else(|| panic!("seq: {shown}"));
    let id = ((collection, text("id").to_owned()), text("source").to_owned(), number);
    let (piece, _) = sent.get(&id).unwrap_or_else(|| panic!("never sent: {shown}"));
    assert_eq!(text("form"), piece.form(collection), "{shown}");
    assert_eq!(shown.get("piece").cloned(), piece.shown(collection), "{shown}");
    (id, piece)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(number: u64) -> PieceId {
        ((Collection::Guides, "g".to_owned()), "s".to_owned(), number)
    }

    fn sent() -> Sent {
        let whole = Document::Xml { title: "dune".into(), items: Vec::new() };
        let pieces = [Piece::Whole(whole), Piece::RemoveFirst, Piece::Delete];
        let sent = pieces.into_iter().zip(1..).map(|(piece, n)| (id(n), (piece, None)));
        sent.collect()
    }

    fn row(number: u64, version: u64, sent: &Sent) -> Value {
        let piece = &sent[&id(number)].0;
        let mut row = json!({ "id": "g", "source": "s", "seq": number, "version": version,
            "was": version - 1, "form": piece.form(Collection::Guides) });
        if let Some(shown) = piece.shown(Collection::Guides) {
            row["piece"] = shown;
        }
        row
    }

    fn told(test: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let panic = std::panic::catch_unwind(test).expect_err("it must be noticed");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn a_replay_of_good_rows_meets_the_answers() {
        let (mut sent, mut replay) = (sent(), Replay::default());
        replay.row(Collection::Guides, &row(1, 1, &sent), &sent);
        replay.row(Collection::Guides, &row(3, 2, &sent), &sent);
        let mut reject = row(2, 1, &sent);
        reject["reason"] = json!("unlocated-node");
        replay.reject(Collection::Guides, &reject, &sent);
        sent.get_mut(&id(1)).unwrap().1 = Some(Answered::Applied(1));
        assert_eq!(replay.meets(&sent), (2, 1));
        assert!(replay.documents().is_empty());
    }

    #[test]
    fn a_replay_notices_gaps_repeats_losses_and_wrong_rejects() {
        let sent = sent();
        let fold = |rows: &[(u64, u64)]| {
            let mut replay = Replay::default();
            rows.iter()
                .for_each(|(n, v)| replay.row(Collection::Guides, &row(*n, *v, &sent), &sent));
            replay
        };
        assert!(told(|| drop(fold(&[(1, 2)]))).contains("a version is missing"));
        assert!(told(|| drop(fold(&[(1, 1), (1, 2)]))).contains("applied behind"));
        assert!(told(|| drop(fold(&[(2, 1)]))).contains("applied, but no-document"));
        let mut lost = sent.clone();
        lost.get_mut(&id(2)).unwrap().1 = Some(Answered::Accepted);
        assert!(
            told(|| assert_eq!(fold(&[(1, 1)]).meets(&lost), (1, 0)))
                .contains("acknowledged and lost")
        );
        let mut reject = row(3, 1, &sent);
        reject["reason"] = json!("unlocated-node");
        let wrong = || fold(&[(1, 1)]).reject(Collection::Guides, &reject, &sent);
        assert!(told(wrong).contains("rejected at version 1"));
    }
}
