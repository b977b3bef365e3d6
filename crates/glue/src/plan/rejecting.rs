//! Records that cannot be planned like others: no commit holds them, or the plan panicked on them (H15).
//!
//! A panic of a format library rejects the one piece that it met, be it the record's own or one that the record
//! releases. Each is tried on a copy of the document. Where even that panics, because a cell cannot be read, the
//! record is rejected without its document.

use std::panic::{AssertUnwindSafe, catch_unwind};

use consort_cluster::worker::{Control, Memory, Record, RejectCause, Sheet};
use consort_kernel::{FrameKind, Shard};

use super::memory::{CachedDocument, GlueMemory};
use super::{GluePlan, decode, glue_word, incoming, waiter, word_place};
use crate::cells::TenantCounter;
use crate::fold::{Effects, IncomingPiece};
use crate::stored::{GlueWord, KeyOutcome, OutcomeEntry, PieceOutcome, RejectEntry};
use crate::{PieceRecord, Reason, Rejection};

/// A document and what the record does besides changing it.
type Tried = (CachedDocument, Effects);

impl GluePlan {
    pub(super) fn reject_record(
        &self,
        record: &Record<'_>,
        cause: &RejectCause,
        memory: &mut Memory,
        sheet: &mut Sheet,
    ) {
        tracing::error!(
            partition = %record.partition, offset = record.position.offset,
            record = record.position.record, ?cause, "a record cannot be applied like others"
        );
        let memory = memory.recall::<GlueMemory>();
        match record.kind {
            FrameKind::Events => {
                if let Some(piece) = decode(record) {
                    self.reject_piece(record, piece, cause, memory, sheet);
                }
            }
            FrameKind::Control => {
                if let Some(word) = control_word(record) {
                    self.try_word(record, &word, cause, memory, sheet);
                }
            }
        }
    }

    fn reject_piece(
        &self,
        record: &Record<'_>,
        piece: PieceRecord<'_>,
        cause: &RejectCause,
        memory: &mut GlueMemory,
        sheet: &mut Sheet,
    ) {
        let shard = self.shard(record.partition);
        let subject = (piece.tenant, piece.id);
        let incoming = incoming(record, piece);
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let keys = self.key_outcomes(record, &piece, sheet);
            self.try_piece(shard, &incoming, &keys, cause, sheet)
        }));
        match tried {
            Ok(tried) => self.keep(shard, subject, tried, memory, sheet),
            Err(_) => self.write_effects(shard, subject, without_document(&incoming), sheet),
        }
    }

    fn try_piece(
        &self,
        shard: Shard,
        incoming: &IncomingPiece<'_>,
        keys: &[KeyOutcome],
        cause: &RejectCause,
        sheet: &Sheet,
    ) -> Tried {
        let (tenant, id) = (incoming.piece.tenant, incoming.piece.id);
        let mut document = self.load(shard, tenant, id, sheet);
        let fold = self.fold((tenant, id), &mut document).carefully();
        let effects = match cause {
            RejectCause::Panicked => fold.piece(incoming, keys),
            RejectCause::Oversized(refusal) => {
                let rejection = Rejection::new(Reason::TOO_LARGE, refusal.to_string());
                fold.reject_untried(incoming, &rejection)
            }
        };
        (document, effects)
    }

    /// A word that no commit holds does nothing; the document goes on with its next record.
    fn try_word(
        &self,
        record: &Record<'_>,
        word: &GlueWord,
        cause: &RejectCause,
        memory: &mut GlueMemory,
        sheet: &mut Sheet,
    ) {
        let shard = self.shard(record.partition);
        let subject = (word.tenant.as_str(), word.id.as_str());
        let waiter = waiter(record, word.wanted);
        if *cause == RejectCause::Panicked {
            let tried = catch_unwind(AssertUnwindSafe(|| {
                let mut document = self.load(shard, subject.0, subject.1, sheet);
                let fold = self.fold(subject, &mut document).carefully();
                let effects = fold.word(&word.action, word_place(record), waiter);
                (document, effects)
            }));
            if let Ok(tried) = tried {
                return self.keep(shard, subject, tried, memory, sheet);
            }
        }
        let rejection = Rejection::new(Reason::DEFECT, "the word could not be applied");
        let place = word_place(record).place;
        let outcome = PieceOutcome::rejected(&rejection, place, 0);
        let told = waiter.map(|key| OutcomeEntry { key, place, repeat: false, outcome });
        let effects = Effects { outcomes: told.into_iter().collect(), ..Effects::default() };
        self.write_effects(shard, subject, effects, sheet);
    }

    fn keep(
        &self,
        shard: Shard,
        (tenant, id): (&str, &str),
        (document, effects): Tried,
        memory: &mut GlueMemory,
        sheet: &mut Sheet,
    ) {
        let key = self.cells.head(tenant, id);
        memory.insert(key.clone(), document);
        self.write_effects(shard, (tenant, id), effects, sheet);
        memory.touch(&key, shard, sheet);
    }
}

fn control_word(record: &Record<'_>) -> Option<GlueWord> {
    glue_word(record, &Control::decode(record.bytes).ok()?)
}

/// The rejection of a piece whose document cannot be read.
fn without_document(incoming: &IncomingPiece<'_>) -> Effects {
    let detail = "the document's cells cannot be read: see the node's log";
    let rejection = Rejection::new(Reason::DEFECT, detail);
    let mut effects = Effects::default();
    effects.counts[TenantCounter::Received as usize] = 1;
    effects.counts[TenantCounter::Rejected as usize] = 1;
    effects.rejects =
        vec![RejectEntry::new(&incoming.piece, incoming.place, incoming.time, 0, &rejection)];
    let outcome = PieceOutcome::rejected(&rejection, incoming.place, 0);
    let told = incoming.waiter.map(|key| OutcomeEntry {
        key,
        place: incoming.place,
        repeat: false,
        outcome,
    });
    effects.outcomes = told.into_iter().collect();
    effects
}
