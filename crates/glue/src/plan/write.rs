//! Writes what records do: rows, rejects and outcomes at once, documents at the end of a step.

use bytes::Bytes;
use consort_cluster::worker::Sheet;
use consort_kernel::{Cell, Key, Kind, Name, Note, Shard};
use serde_json::value::{RawValue, to_raw_value};

use super::GluePlan;
use super::memory::{CachedDocument, StoredParts};
use crate::PieceForm;
use crate::bounds::HISTORY_STRIDE;
use crate::cells::TenantCounter;
use crate::collection::{DocumentFormat, FeedContent};
use crate::fold::{self, Effects, NewVersion};
use crate::stored::reject::MAX_INLINE;
use crate::stored::row::moment_of;
use crate::stored::word::due_cell;
use crate::stored::{DocumentBody, DocumentHead, GlueRow, RingContent, RingVersion, RowForm};

impl GluePlan {
    /// Writes what a record does besides changing its document.
    pub(super) fn write_effects(
        &self,
        shard: Shard,
        (tenant, id): (&str, &str),
        effects: Effects,
        sheet: &mut Sheet,
    ) {
        for version in effects.versions {
            let row = self.row((tenant, id), &version, sheet.epoch());
            append(sheet, shard, self.cells.feed(), row.to_change().encode());
            if self.collection.history > 0 {
                let slot = version.tag.version % self.collection.ring_slots();
                let key = self.cells.version(tenant, id, slot);
                sheet.put(shard, key, self.ring_version(version).encode());
            }
        }
        for entry in effects.rejects {
            append(sheet, shard, self.cells.rejects(), entry.encode().into());
        }
        for entry in effects.outcomes {
            append(sheet, shard, self.cells.outcomes(), entry.encode().into());
        }
        for (key, first) in effects.keys {
            let bucket = self.collection.id_bucket(first.time);
            let cell = self.key_cell(first.place.partition, bucket, (tenant, id), &key);
            sheet.put(shard, cell, first.encode());
        }
        for (counter, by) in TenantCounter::ALL.into_iter().zip(effects.counts) {
            if by != 0 {
                sheet.add(shard, self.cells.count(tenant, counter), by, None);
            }
        }
        if let Some(version) = effects.forgotten_at {
            self.forget_history(shard, (tenant, id), version, sheet);
        }
    }

    /// Writes a document that records changed.
    pub(super) fn write_document(&self, document: &mut CachedDocument, sheet: &mut Sheet) {
        if !std::mem::take(&mut document.state.changed) {
            return;
        }
        let (tenant, id) = (document.tenant.as_str(), document.id.as_str());
        let state = &document.state;
        let head = (state.head != DocumentHead::default()).then(|| state.head.encode());
        let pending = (!state.pending.is_empty()).then(|| state.pending.encode());
        let body = state.tree.as_ref().zip(state.head.tag());
        let body = body.map(|(tree, tag)| DocumentBody { tag, document: tree.to_bytes() }.encode());
        let before = document.stored;
        document.stored = StoredParts {
            head: head.is_some(),
            body: body.is_some(),
            pending: pending.is_some(),
            deadline: state.head.deadline,
        };
        let shard = document.shard;
        put(sheet, shard, self.cells.head(tenant, id), head, before.head);
        put(sheet, shard, self.cells.pending(tenant, id), pending, before.pending);
        put(sheet, shard, self.cells.body(tenant, id), body, before.body);
        self.write_deadline(document, before, sheet);
    }

    fn write_deadline(&self, document: &CachedDocument, before: StoredParts, sheet: &mut Sheet) {
        let (shard, tenant, id) = (document.shard, &*document.tenant, &*document.id);
        let due = fold::word(&self.collection, (tenant, id), &document.state);
        let deadline = due.as_ref().map(|(deadline, _)| *deadline);
        if let Some(old) = before.deadline.filter(|old| Some(*old) != deadline) {
            sheet.delete(shard, Cell::new(Kind::Bytes, self.cells.due(old, tenant, id)));
        }
        if let Some((deadline, word)) = due {
            sheet.put(shard, self.cells.due(deadline, tenant, id), due_cell(&word));
        }
    }

    fn row(&self, (tenant, id): (&str, &str), version: &NewVersion, epoch: u64) -> GlueRow {
        let in_row = self.collection.feed == FeedContent::Document;
        let document = version.document.as_ref().filter(|_| in_row);
        let piece = (version.form != PieceForm::Delete).then_some(&version.content);
        let source = version.source.clone();
        GlueRow {
            collection: self.collection.name.clone(),
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            life: version.tag.life,
            version: version.tag.version,
            was: version.was,
            form: RowForm::Piece(version.form),
            piece: piece.map(|piece| raw(self.collection.format, piece)),
            seq: source.as_ref().map(|(_, seq)| *seq),
            source: source.map(|(source, _)| source),
            time: moment_of(version.time),
            document: document.map(|document| raw(self.collection.format, document)),
            epoch: Some(epoch),
        }
    }

    /// The slot of the history: the document where the way back would be long, the piece elsewhere.
    fn ring_version(&self, version: NewVersion) -> RingVersion {
        let stride = version.tag.version.is_multiple_of(HISTORY_STRIDE);
        let begins = version.tag.life == version.place && version.form != PieceForm::Whole;
        let whole = stride || begins || version.content.len() > MAX_INLINE;
        let content = match version.document.filter(|_| whole) {
            _ if version.form == PieceForm::Delete => RingContent::Deleted,
            Some(document) => RingContent::Document(document),
            None => RingContent::Piece(version.content),
        };
        RingVersion {
            tag: version.tag,
            form: version.form,
            place: version.place,
            source: version.source,
            time: version.time,
            content,
        }
    }

    /// Deletes the history of a document that is forgotten at this version.
    fn forget_history(
        &self,
        shard: Shard,
        (tenant, id): (&str, &str),
        version: u64,
        sheet: &mut Sheet,
    ) {
        let slots = self.collection.ring_slots();
        for version in (version + 1).saturating_sub(slots).max(1)..=version {
            let key = self.cells.version(tenant, id, version % slots);
            sheet.delete(shard, Cell::new(Kind::Bytes, key));
        }
    }
}

/// Makes the cell hold this, or removes it if it is there.
fn put(sheet: &mut Sheet, shard: Shard, key: Key, value: Option<Bytes>, is_there: bool) {
    match value {
        Some(value) => sheet.put(shard, key, value),
        None if is_there => sheet.delete(shard, Cell::new(Kind::Bytes, key)),
        None => {}
    }
}

fn append(sheet: &mut Sheet, shard: Shard, feed: &Name, entry: Bytes) {
    sheet.append(shard, Note { feed: feed.clone(), entry });
}

/// A piece or document as a member of a row: JSON as it is, XML as a text.
fn raw(format: DocumentFormat, content: &[u8]) -> Box<RawValue> {
    let text = String::from_utf8_lossy(content);
    let value = match format {
        DocumentFormat::Json => RawValue::from_string(text.into_owned()),
        DocumentFormat::Xml => to_raw_value(&text),
    };
    match value {
        Ok(value) => value,
        // It was read as JSON just now; and a text can always be written.
        Err(error) => panic!("an applied piece cannot be written into a row: {error}"),
    }
}
