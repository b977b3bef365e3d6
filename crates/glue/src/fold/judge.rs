//! The checks of a piece whose turn it is: gap, tombstone, condition, apply.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use super::effects::NewVersion;
use super::gap::AtFullCell;
use super::tree::{DocumentTree, check_row_size};
use super::{Fold, FoldRule, IncomingPiece};
use crate::bounds::{HISTORY_STRIDE, MAX_SOURCES};
use crate::cells::TenantCounter;
use crate::collection::{DocumentFormat, FeedContent, OnReject};
use crate::stored::reject::MAX_INLINE;
use crate::stored::{
    Condition, DocumentFlow, DocumentTag, Existence, HaltCause, Halting, PendingState, PieceOutcome,
};
use crate::{PieceForm, Reason, Rejection};

/// How a piece passed the checks behind the gap.
enum Judgement {
    Applied(Option<DocumentTree>),
    Unchanged,
    /// Rejected before it was tried: this never halts a document.
    Refused(Rejection),
    /// Tried, and rejected.
    Failed(Rejection),
}

impl Fold<'_> {
    /// Judges a piece whose turn it is.
    pub(super) fn judge(&mut self, incoming: &IncomingPiece<'_>) {
        let Some(number) = incoming.piece.source else {
            self.conclude(incoming);
            return;
        };
        // Each round ends one gap; only pieces of the pending cell can stand between them.
        loop {
            let Some(index) = self.source_index(number.source) else {
                let detail = format!("the document has pieces of {MAX_SOURCES} sources already");
                return self.reject(incoming, &Rejection::new(Reason::TOO_MANY_SOURCES, detail));
            };
            let source = &self.state.head.sources[index];
            if number.seq <= source.last {
                // Its turn was skipped while it waited for its record's release.
                return self.reject_late(incoming, number);
            }
            if number.seq == source.last + 1 {
                self.conclude(incoming);
                return;
            }
            if self.hold(incoming, number) {
                return;
            }
            match self.end_gap_at_full_cell(incoming, number) {
                AtFullCell::Next => {}
                AtFullCell::Reject(rejection) => {
                    self.reject(incoming, &rejection);
                    return self.make_ready(number.source);
                }
                AtFullCell::Again => {
                    self.release();
                    if self.state.head.flow != DocumentFlow::Open {
                        return self.queue(incoming);
                    }
                }
            }
        }
    }

    /// Tombstone, condition, apply; then the piece behind it is ready.
    pub(super) fn conclude(&mut self, incoming: &IncomingPiece<'_>) -> PieceOutcome {
        let (counter, outcome) = match self.decide(incoming) {
            Judgement::Applied(tree) => {
                let tag = self.change(incoming, tree);
                (TenantCounter::Applied, PieceOutcome::Applied(tag))
            }
            Judgement::Unchanged => (TenantCounter::Repeats, PieceOutcome::Unchanged),
            Judgement::Failed(rejection) if self.collection.on_reject == OnReject::Halt => {
                (TenantCounter::Queued, self.halt(incoming, &rejection))
            }
            Judgement::Failed(rejection) | Judgement::Refused(rejection) => {
                (TenantCounter::Rejected, self.list(incoming, &rejection))
            }
        };
        self.settle(incoming, counter, &outcome);
        if let Some(number) = incoming.piece.source {
            self.make_ready(number.source);
        }
        outcome
    }

    /// Halts the document at a piece that was rejected. Its number is used up: no other piece may take its turn.
    fn halt(&mut self, incoming: &IncomingPiece<'_>, rejection: &Rejection) -> PieceOutcome {
        let outcome = self.list(incoming, rejection);
        let mut waiting = incoming.waiting(PendingState::Halting);
        if !self.has_room(&waiting) {
            let mut stub = *incoming;
            stub.piece.content = &[];
            waiting = stub.waiting(PendingState::HaltingWithoutContent);
        }
        let cause = HaltCause::Rejected(rejection.reason);
        self.state.pending.pieces.push_front(waiting);
        self.state.head.flow = DocumentFlow::Halted;
        self.state.head.halting = Some(Halting { place: incoming.place, cause });
        outcome
    }

    fn decide(&mut self, incoming: &IncomingPiece<'_>) -> Judgement {
        let head = &self.state.head;
        let live = head.existence == Existence::Live;
        let form = incoming.piece.form;
        let begins = match form {
            PieceForm::Whole | PieceForm::Delete => true,
            PieceForm::MergePatch => self.collection.revive,
            PieceForm::JsonPatch | PieceForm::XmlPatch => false,
        };
        if head.existence == Existence::Deleted && !begins {
            let detail = format!("the document was deleted by version {}", head.version);
            return Judgement::Refused(Rejection::new(Reason::DELETED, detail));
        }
        if let Some(rejection) = incoming.piece.condition.and_then(|one| self.unmet(one)) {
            return Judgement::Refused(rejection);
        }
        if form == PieceForm::Delete {
            return if live { Judgement::Applied(None) } else { Judgement::Unchanged };
        }
        match self.try_piece(form, incoming.piece.content) {
            Ok(tree) => Judgement::Applied(Some(tree)),
            Err(rejection) => Judgement::Failed(rejection),
        }
    }

    /// Why a condition does not hold.
    pub(super) fn unmet(&self, condition: Condition) -> Option<Rejection> {
        let head = &self.state.head;
        let present = head.tag().filter(|_| head.existence == Existence::Live);
        let holds = match condition {
            Condition::Exists => present.is_some(),
            Condition::Is(tag) => present == Some(tag),
            Condition::Absent => present.is_none(),
        };
        if holds {
            return None;
        }
        let detail = match present {
            Some(tag) => format!("the document is at \"{tag}\""),
            None => "there is no document".to_owned(),
        };
        Some(Rejection::new(Reason::CONDITION_FAILED, detail))
    }

    /// The document after a piece; the state has the same document as before if the piece fails.
    fn try_piece(&mut self, form: PieceForm, content: &[u8]) -> Result<DocumentTree, Rejection> {
        if self.collection.format == DocumentFormat::Xml {
            check_row_size(content)?;
        }
        if self.careful {
            let tree = self.state.tree.clone();
            let attempt = AssertUnwindSafe(|| self.attempt_in_full(tree, form, content));
            return catch_unwind(attempt).unwrap_or_else(|_| {
                Err(Rejection::new(
                    Reason::DEFECT,
                    "the piece could not be tried: see the node's log",
                ))
            });
        }
        // The tree is changed where it stands; a failed piece leaves it equal.
        match (self.state.tree.take(), form) {
            (
                Some(mut tree),
                PieceForm::MergePatch | PieceForm::JsonPatch | PieceForm::XmlPatch,
            ) => match tree.apply(form, content, self.collection.max_document) {
                Ok(()) => Ok(tree),
                Err(rejection) => {
                    self.state.tree = Some(tree);
                    Err(rejection)
                }
            },
            (before, _) => {
                let created = self.created(form, content);
                self.state.tree = before;
                created
            }
        }
    }

    fn created(&self, form: PieceForm, content: &[u8]) -> Result<DocumentTree, Rejection> {
        let revives = self.state.head.existence == Existence::Deleted;
        DocumentTree::create(self.collection, form, content, revives)
    }

    /// Tries a piece on a copy of the document, and reads the result again.
    fn attempt_in_full(
        &self,
        tree: Option<DocumentTree>,
        form: PieceForm,
        content: &[u8],
    ) -> Result<DocumentTree, Rejection> {
        let tree = match tree {
            Some(mut tree) if form != PieceForm::Whole => {
                tree.apply(form, content, self.collection.max_document)?;
                tree
            }
            _ => self.created(form, content)?,
        };
        DocumentTree::parse(self.collection.format, &tree.to_bytes())
    }

    /// Makes the next version of the document.
    fn change(&mut self, incoming: &IncomingPiece<'_>, tree: Option<DocumentTree>) -> DocumentTag {
        let piece = &incoming.piece;
        let number = piece.source.and_then(|number| {
            self.source_index(number.source).map(|index| (index as u8, number.seq))
        });
        let rules = self.rules;
        let head = &mut self.state.head;
        let (was, size_before) = (head.version, head.size);
        let creates = head.existence != Existence::Live;
        if creates {
            head.life = Some(incoming.place);
            if !rules.keep(FoldRule::VersionsContinue) {
                head.version = 0;
            }
        }
        head.version += 1;
        head.existence = if tree.is_some() { Existence::Live } else { Existence::Deleted };
        head.time = incoming.time;
        head.size = tree.as_ref().map_or(0, |tree| tree.size() as u64);
        head.current = number;
        if tree.is_none() && !rules.keep(FoldRule::TombstoneKeepsNumbers) {
            head.sources.clear();
            head.current = None;
        }
        let tag = DocumentTag { life: head.life.unwrap_or(incoming.place), version: head.version };
        let grown = head.size as i64 - size_before as i64;
        self.state.tree = tree;
        self.count(TenantCounter::Bytes, grown);
        let version = NewVersion {
            tag,
            was,
            form: piece.form,
            content: Bytes::copy_from_slice(piece.content),
            place: incoming.place,
            time: incoming.time,
            source: piece.source.map(|number| (number.source.to_owned(), number.seq)),
            document: self.stored_document(tag, piece.form, piece.content.len(), creates),
        };
        self.effects.push_version(version, self.collection.format == DocumentFormat::Xml);
        tag
    }

    /// The document as the row or the history of a version stores it. The history can go back to a whole piece, and
    /// to a document that begins a life.
    fn stored_document(
        &self,
        tag: DocumentTag,
        form: PieceForm,
        size: usize,
        creates: bool,
    ) -> Option<Bytes> {
        let tree = self.state.tree.as_ref()?;
        let stride = tag.version.is_multiple_of(HISTORY_STRIDE);
        let begins = creates && form != PieceForm::Whole;
        let in_history = self.collection.history > 0 && (stride || begins || size > MAX_INLINE);
        let in_row = self.collection.feed == FeedContent::Document;
        (in_row || in_history).then(|| tree.to_bytes())
    }
}
