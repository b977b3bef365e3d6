//! An event that is being planned: as it is stored, and in full once an expression wants it so.

use std::cell::OnceCell;

use bytes::Bytes;
use consort_cluster::worker::Record;
use consort_kernel::limits::MEMBER_BYTES;
use consort_kernel::{Key, Part};

use super::Untakable;
use super::memo::Members;
use crate::event::{Event, EventError, Field, Stored};
use crate::expression::{EvaluationError, Expression};
use crate::schema::Schema;
use crate::value::Value;

/// The event.
#[derive(Debug)]
pub(super) struct Planned<'a> {
    /// Where it stands.
    pub(super) record: Record<'a>,
    stored: Stored<'a>,
    event: OnceCell<Event>,
}

impl<'a> Planned<'a> {
    pub(super) fn read(schema: &Schema, record: Record<'a>) -> Result<Self, EventError> {
        let stored = Stored::read(schema, record.bytes)?;
        Ok(Planned { record, stored, event: OnceCell::new() })
    }

    /// The event in full.
    pub(super) fn event(&self) -> &Event {
        self.event.get_or_init(|| self.stored.to_event())
    }

    /// A field, if it is there.
    pub(super) fn field(&self, at: usize) -> Option<Field<'a>> {
        self.stored.values.get(at).copied().flatten()
    }

    /// Writes the values of these expressions behind the encoding of a key. False if one of them is absent.
    pub(super) fn push<'e>(
        &self,
        encoding: &mut Vec<u8>,
        expressions: impl IntoIterator<Item = &'e Expression>,
    ) -> Result<bool, EvaluationError> {
        for expression in expressions {
            // A plain field is not copied twice.
            if let Some(at) = expression.as_field() {
                let Some(field) = self.field(at) else { return Ok(false) };
                Key::push(encoding, field.part());
            } else {
                let Some(value) = expression.evaluate(self.event())? else { return Ok(false) };
                Key::push(encoding, Part::from(&value.element()));
            }
        }
        Ok(true)
    }

    /// The encoded values of these expressions; none if one of them is absent.
    pub(super) fn encoded(
        &self,
        expressions: &[Expression],
        most: usize,
    ) -> Result<Option<Bytes>, Untakable> {
        let mut encoding = Vec::with_capacity(32);
        if !self.push(&mut encoding, expressions)? {
            return Ok(None);
        }
        if encoding.len() > most {
            return Err(Untakable::Value(most));
        }
        Ok(Some(encoding.into()))
    }

    /// The same for a member of a set.
    pub(super) fn member(
        &self,
        expressions: &[Expression],
        members: &mut Members,
    ) -> Result<Option<Bytes>, Untakable> {
        members.encoding.clear();
        if !self.push(&mut members.encoding, expressions)? {
            return Ok(None);
        }
        if members.encoding.len() > MEMBER_BYTES {
            return Err(Untakable::Value(MEMBER_BYTES));
        }
        Ok(Some(members.keep()))
    }

    /// The number that an expression is, which was checked to be one.
    pub(super) fn number(&self, expression: &Expression) -> Result<Option<i64>, EvaluationError> {
        if let Some(at) = expression.as_field() {
            return Ok(match self.field(at) {
                Some(Field::Int(number) | Field::Decimal(number)) => Some(number),
                _ => None,
            });
        }
        Ok(match expression.evaluate(self.event())? {
            Some(Value::Int(number) | Value::Decimal(number)) => Some(number),
            _ => None,
        })
    }
}
