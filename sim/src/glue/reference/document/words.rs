//! Words about a document of the reference: gaps that end, and decisions of operators.

use consort_glue::{OnGap, PieceForm, PiecePlace, TenantCounter};

use super::{End, Halt, Origin, Piece, RANGES, Reject, Work, pass_over};
use crate::glue::FoldRule;

impl Work<'_> {
    /// The timer says that a number did not come.
    pub(in crate::glue) fn gap_is_over(&mut self, name: &str, number: u64, place: PiecePlace) {
        if !self.rules.keeps(FoldRule::LogEndsGaps) {
            return;
        }
        let of_source = |piece: &Piece| piece.number.as_ref().is_some_and(|(one, _)| one == name);
        let waits = self.state.held.iter().any(of_source);
        if self.state.halt.is_some() || self.source(name).last + 1 != number || !waits {
            return;
        }
        match self.rules.collection.on_gap {
            OnGap::Skip => self.skip_gap(name, place),
            OnGap::Reject => self.reject_behind_gap(name),
            OnGap::Halt => self.halt_at_gap(name),
        }
        self.release();
    }

    /// The lowest number behind the gap.
    fn behind_gap(&mut self, name: &str) -> Option<u64> {
        let source = self.source(name).clone();
        let held = self.state.held.iter().filter_map(|piece| piece.number.clone());
        let halting = match &self.state.halt {
            Some(Halt::Gap(piece, _)) => piece.number.clone(),
            _ => None,
        };
        let held = held.chain(halting).filter(|(one, seq)| one == name && *seq > source.last);
        held.map(|(_, seq)| seq).chain(source.ahead.iter().copied()).min()
    }

    fn skip_gap(&mut self, name: &str, place: PiecePlace) {
        let Some(next) = self.behind_gap(name) else { return };
        if self.source(name).last + 1 < next {
            self.note_missing(name, next - 1, place);
            self.skip_to(name, next);
        }
        self.make_ready(name);
    }

    fn skip_to(&mut self, name: &str, next: u64) {
        let source = self.source(name);
        source.skipped.push((source.last + 1, next - 1));
        if source.skipped.len() > RANGES {
            let (first, _) = source.skipped.remove(0);
            source.skipped[0].0 = first;
        }
        (source.last, source.outcome) = (next - 1, None);
        pass_over(source);
    }

    fn note_missing(&mut self, name: &str, last: u64, place: PiecePlace) {
        let first = self.source(name).last + 1;
        self.books.rejects.push(Reject {
            document: self.name.clone(),
            place,
            version: self.state.version,
            reason: "gap".to_owned(),
            number: Some((name.to_owned(), first)),
            missing_to: Some(last),
        });
    }

    fn reject_behind_gap(&mut self, name: &str) {
        let Some(next) = self.behind_gap(name) else { return };
        if self.source(name).last + 1 < next {
            self.skip_to(name, next);
        }
        while let Some(piece) = self.take_held(name) {
            let piece = Piece { waiter: None, ..piece };
            self.count(TenantCounter::Held, -1);
            let end = self.list(&piece, "gap");
            self.count(TenantCounter::Rejected, 1);
            self.settle(&piece, &end);
        }
    }

    fn halt_at_gap(&mut self, name: &str) {
        let of_source = |piece: &&Piece| piece.number.as_ref().is_some_and(|(one, _)| one == name);
        let held = self.state.held.iter().filter(of_source);
        let first = held.min_by_key(|piece| piece.number.as_ref().map(|(_, seq)| *seq)).cloned();
        let (Some(first), Some(next)) = (first, self.behind_gap(name)) else { return };
        self.note_missing(name, next - 1, first.place);
        self.state.held.retain(|piece| piece.place != first.place);
        self.count(TenantCounter::Held, -1);
        self.count(TenantCounter::Queued, 1);
        self.state.halt = Some(Halt::Gap(first, name.to_owned()));
    }

    /// The piece that waits for a number is held again.
    pub(super) fn resume_gap(&mut self) {
        if let Some(Halt::Gap(piece, _)) = self.state.halt.take() {
            self.count(TenantCounter::Queued, -1);
            self.count(TenantCounter::Held, 1);
            self.state.held.push(Piece { waiter: None, ..piece });
        }
    }

    /// An operator has the halting piece applied again, or another in its place.
    pub(in crate::glue) fn retry(
        &mut self,
        place: PiecePlace,
        replacement: Option<(PieceForm, Vec<u8>)>,
    ) -> End {
        match self.halting_at(place) {
            None => End::Rejected("not-halted".into()),
            Some(Halt::Gap(..)) => End::Rejected("gap".into()),
            Some(Halt::Piece(original, _)) => {
                self.state.halt = None;
                let original = Piece { waiter: None, ..original };
                let mut tried = original.clone();
                if let Some((form, content)) = replacement {
                    (tried.form, tried.content) = (form, content);
                }
                let end = self.conclude(tried, Origin::Queue);
                self.correct_key(&original);
                if let Some(Halt::Piece(halting, _)) = &mut self.state.halt
                    && halting.place == original.place
                {
                    *halting = original;
                }
                self.release();
                end
            }
        }
    }

    /// The key goes on standing for the piece that came with it.
    fn correct_key(&mut self, original: &Piece) {
        let Some(key) = &original.key else { return };
        let all = self.books.keys.entry(self.key(key)).or_default();
        for known in all.iter_mut().filter(|known| known.piece.place == original.place) {
            known.piece = original.clone();
        }
    }

    /// An operator gives the halting piece up, or the numbers that it waits for.
    pub(in crate::glue) fn discard(&mut self, place: PiecePlace, at: PiecePlace) -> End {
        match self.halting_at(place) {
            None => return End::Rejected("not-halted".into()),
            Some(Halt::Gap(_, source)) => {
                self.resume_gap();
                self.skip_gap(&source, at);
            }
            Some(Halt::Piece(..)) => {
                self.state.halt = None;
                self.count(TenantCounter::Queued, -1);
                self.count(TenantCounter::Rejected, 1);
            }
        }
        self.release();
        End::Discarded
    }

    fn halting_at(&self, place: PiecePlace) -> Option<Halt> {
        let halt = self.state.halt.clone()?;
        let (Halt::Piece(piece, _) | Halt::Gap(piece, _)) = &halt;
        let anywhere = !self.rules.keeps(FoldRule::WordsNameThePlace);
        (piece.place == place || anywhere).then_some(halt)
    }
}
