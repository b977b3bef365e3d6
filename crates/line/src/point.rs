//! What a line says: a [`Point`] with its tags, fields and time. It borrows from the line wherever the
//! line needs no unescaping.

use std::borrow::Cow;

/// One line, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point<'a> {
    /// Absent only in lines of the loose dialect that begin with their tags.
    pub measurement: Option<Cow<'a, str>>,
    /// In the order of the line; no key occurs twice.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// In the order of the line; at least one. A key may occur twice: see [`Point::field`].
    pub fields: Vec<(Cow<'a, str>, FieldValue<'a>)>,
    /// Nanoseconds since 1970, whatever the precision of the line was. `None`: the line has no timestamp.
    pub time: Option<i64>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// Always finite when read.
    Float(f64),
    Integer(i64),
    Unsigned(u64),
    Text(Cow<'a, str>),
    Boolean(bool),
}

impl<'a> Point<'a> {
    /// The value of a tag.
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_ref())
    }

    /// The value of a field; of one that is given twice the last, as InfluxDB stores it.
    pub fn field(&self, key: &str) -> Option<&FieldValue<'a>> {
        self.fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// An empty point with the room of this one's lists, for another line.
    pub fn emptied<'b>(mut self) -> Point<'b> {
        self.clear();
        // Nothing is in them; what is collected in place keeps its room.
        let tags = self.tags.into_iter().map(|_| (Cow::default(), Cow::default())).collect();
        let fields = self.fields.into_iter();
        let fields = fields.map(|_| (Cow::default(), FieldValue::Boolean(false))).collect();
        Point { tags, fields, ..Point::default() }
    }

    /// Makes the point empty and keeps the room of its lists.
    pub fn clear(&mut self) {
        self.measurement = None;
        self.tags.clear();
        self.fields.clear();
        self.time = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_point_keeps_its_room() {
        let mut point = Point { time: Some(1), ..Point::default() };
        for n in 0..9 {
            point.tags.push(("a".into(), n.to_string().into()));
            point.fields.push(("b".into(), FieldValue::Integer(n)));
        }
        let room = (point.tags.capacity(), point.fields.capacity());
        let empty: Point<'static> = point.emptied();
        assert_eq!(empty, Point::default());
        assert_eq!((empty.tags.capacity(), empty.fields.capacity()), room);
    }

    #[test]
    fn of_a_field_given_twice_the_last_counts() {
        let point = Point {
            fields: vec![
                ("a".into(), FieldValue::Integer(1)),
                ("b".into(), FieldValue::Integer(2)),
                ("a".into(), FieldValue::Integer(3)),
            ],
            ..Point::default()
        };
        assert_eq!(point.field("a"), Some(&FieldValue::Integer(3)));
        assert_eq!(point.field("b"), Some(&FieldValue::Integer(2)));
        assert_eq!(point.field("c"), None);
    }
}
