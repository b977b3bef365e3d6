//! Pieces that do not commute, and documents as plain code changes them, which shares nothing with the product.

use std::collections::BTreeMap;

use rand::Rng;
use serde_json::{Value, json};

/// The collections of the trials, by their format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collection {
    /// Of JSON documents.
    Films,
    /// Of XML documents.
    Guides,
}

/// Words for titles and elements: few, so that a `test` sometimes holds.
const WORDS: [&str; 4] = ["dune", "heat", "alien", "brazil"];

/// Elements of a new document at most.
const ELEMENTS: usize = 3;

impl Collection {
    /// Both.
    pub const ALL: [Collection; 2] = [Collection::Films, Collection::Guides];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Collection::Films => "films",
            Collection::Guides => "guides",
        }
    }
}

/// One change of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// A whole document.
    Whole(Document),
    /// The merge patch that sets one tag, or removes it.
    Tag(String, Option<String>),
    /// An element joins at this place of the list; at its end, if there is no place.
    Insert(Option<usize>, String),
    /// The first element goes.
    RemoveFirst,
    /// The last but one element of a list changes places with its neighbour. JSON alone.
    MoveSecondToFront,
    /// The title changes, if it is this one. In XML it changes in any case.
    Retitle(String, String),
    /// The document goes.
    Delete,
}

/// A document, in either format.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// JSON.
    Json {
        /// Its title.
        title: String,
        /// An ordered list.
        items: Vec<String>,
        /// Members by name, if there were ever any.
        tags: Option<BTreeMap<String, String>>,
    },
    /// XML.
    Xml {
        /// Its title.
        title: String,
        /// An ordered list.
        items: Vec<String>,
    },
}

impl Piece {
    /// Any piece for a document of `collection`; `stamp` makes its text unique.
    pub fn random(dice: &mut impl Rng, collection: Collection, stamp: &str) -> Piece {
        let word =
            |dice: &mut dyn rand::RngCore| WORDS[dice.random_range(0..WORDS.len())].to_owned();
        match dice.random_range(0..100) {
            0..6 => Piece::Whole(Document::random(dice, collection, stamp)),
            6..8 => Piece::Delete,
            8..25 if collection == Collection::Films => {
                let name = word(dice);
                Piece::Tag(name, dice.random_bool(0.7).then(|| stamp.to_owned()))
            }
            8..45 => {
                let place = [None, Some(0), Some(1)][dice.random_range(0..3)];
                // XML has no selector for a place that is not there.
                let place = if collection == Collection::Guides { place.map(|_| 0) } else { place };
                Piece::Insert(place, stamp.to_owned())
            }
            45..70 => Piece::RemoveFirst,
            70..85 if collection == Collection::Films => Piece::MoveSecondToFront,
            _ => Piece::Retitle(word(dice), word(dice)),
        }
    }

    /// How it is sent: method, content type and body.
    pub fn request(&self, collection: Collection) -> (&'static str, &'static str, String) {
        match (self, collection) {
            (Piece::Whole(document), Collection::Films) => {
                ("PUT", "application/json", document.text())
            }
            (Piece::Whole(document), Collection::Guides) => {
                ("PUT", "application/xml", document.text())
            }
            (Piece::Delete, _) => ("DELETE", "application/json", String::new()),
            (Piece::Tag(..), _) => ("PATCH", "application/merge-patch+json", self.sent(collection)),
            (_, Collection::Films) => {
                ("PATCH", "application/json-patch+json", self.sent(collection))
            }
            (_, Collection::Guides) => {
                ("PATCH", "application/xml-patch+xml", self.sent(collection))
            }
        }
    }

    /// The name of its form in rows and lists.
    pub fn form(&self, collection: Collection) -> &'static str {
        match (self, collection) {
            (Piece::Whole(_), _) => "whole",
            (Piece::Delete, _) => "delete",
            (Piece::Tag(..), _) => "merge-patch",
            (_, Collection::Films) => "json-patch",
            (_, Collection::Guides) => "xml-patch",
        }
    }

    /// The piece as rows show it: JSON, a text, or nothing.
    pub fn shown(&self, collection: Collection) -> Option<Value> {
        let sent = self.sent(collection);
        match (self, collection) {
            (Piece::Delete, _) => None,
            (_, Collection::Films) => Some(serde_json::from_str(&sent).expect("a piece is JSON")),
            (_, Collection::Guides) => Some(Value::String(sent)),
        }
    }

    fn sent(&self, collection: Collection) -> String {
        match collection {
            Collection::Films => self.json(),
            Collection::Guides => self.xml(),
        }
    }

    fn json(&self) -> String {
        let operations = match self {
            Piece::Whole(document) => return document.text(),
            Piece::Delete => return String::new(),
            Piece::Tag(name, value) => return json!({ "tags": { name: value } }).to_string(),
            Piece::Insert(place, item) => {
                let place = place.map_or("-".to_owned(), |place| place.to_string());
                json!([{ "op": "add", "path": format!("/items/{place}"), "value": item }])
            }
            Piece::RemoveFirst => json!([{ "op": "remove", "path": "/items/0" }]),
            Piece::MoveSecondToFront => {
                json!([{ "op": "move", "from": "/items/1", "path": "/items/0" }])
            }
            Piece::Retitle(from, to) => json!([
                { "op": "test", "path": "/title", "value": from },
                { "op": "replace", "path": "/title", "value": to },
            ]),
        };
        operations.to_string()
    }

    fn xml(&self) -> String {
        let operation = match self {
            Piece::Whole(document) => return document.text(),
            Piece::Insert(Some(_), item) => {
                format!("<add sel=\"/guide/items\" pos=\"prepend\"><i>{item}</i></add>")
            }
            Piece::Insert(None, item) => format!("<add sel=\"/guide/items\"><i>{item}</i></add>"),
            Piece::RemoveFirst => "<remove sel=\"/guide/items/i[1]\"/>".to_owned(),
            Piece::Retitle(_, to) => {
                format!("<replace sel=\"/guide/title/text()\">{to}</replace>")
            }
            Piece::Delete | Piece::Tag(..) | Piece::MoveSecondToFront => String::new(),
        };
        format!("<diff>{operation}</diff>")
    }

    /// What the piece makes of a document: the next state, or the reason why it is rejected. `deleted` tells a document
    /// that was deleted from one that never was.
    pub fn apply(
        &self,
        document: Option<&Document>,
        deleted: bool,
    ) -> Result<Option<Document>, &'static str> {
        if let Piece::Whole(whole) = self {
            return Ok(Some(whole.clone()));
        }
        if deleted {
            return if *self == Piece::Delete { Ok(None) } else { Err("deleted") };
        }
        let Some(document) = document else {
            return match self {
                Piece::Delete => Ok(None),
                Piece::Tag(name, value) => Ok(Some(Document::tagged(name, value.as_deref()))),
                _ => Err("no-document"),
            };
        };
        if *self == Piece::Delete {
            return Ok(None);
        }
        let mut next = document.clone();
        next.change(self)?;
        Ok(Some(next))
    }
}

impl Document {
    fn random(dice: &mut impl Rng, collection: Collection, stamp: &str) -> Document {
        let title = WORDS[dice.random_range(0..WORDS.len())].to_owned();
        let items = (0..dice.random_range(0..=ELEMENTS)).map(|n| format!("{stamp}-{n}")).collect();
        match collection {
            Collection::Films => Document::Json { title, items, tags: None },
            Collection::Guides => Document::Xml { title, items },
        }
    }

    /// The document that a merge patch creates: it has neither title nor items.
    fn tagged(name: &str, value: Option<&str>) -> Document {
        let tags = value.map(|value| (name.to_owned(), value.to_owned())).into_iter().collect();
        Document::Json { title: String::new(), items: Vec::new(), tags: Some(tags) }
    }

    fn change(&mut self, piece: &Piece) -> Result<(), &'static str> {
        match self {
            Document::Json { title, items, tags } => {
                // A document that a merge patch created has no list and no title.
                let bare = title.is_empty();
                match piece {
                    Piece::Tag(name, value) => {
                        let tags = tags.get_or_insert_default();
                        tags.remove(name);
                        tags.extend(value.clone().map(|value| (name.clone(), value)));
                    }
                    _ if bare => return Err("missing-path"),
                    Piece::Insert(None, item) => items.push(item.clone()),
                    Piece::Insert(Some(place), item) if *place <= items.len() => {
                        items.insert(*place, item.clone());
                    }
                    Piece::RemoveFirst if !items.is_empty() => drop(items.remove(0)),
                    Piece::MoveSecondToFront if items.len() > 1 => items.swap(0, 1),
                    Piece::Retitle(from, to) if title == from => to.clone_into(title),
                    Piece::Retitle(..) => return Err("test-failed"),
                    _ => return Err("missing-path"),
                }
            }
            Document::Xml { title, items } => match piece {
                Piece::Insert(None, item) => items.push(item.clone()),
                Piece::Insert(Some(_), item) => items.insert(0, item.clone()),
                Piece::RemoveFirst if !items.is_empty() => drop(items.remove(0)),
                Piece::Retitle(_, to) => to.clone_into(title),
                _ => return Err("unlocated-node"),
            },
        }
        Ok(())
    }

    /// As it is sent, and as it is served.
    pub fn text(&self) -> String {
        match self {
            Document::Json { .. } => self.value().to_string(),
            Document::Xml { title, items } => {
                let items: String = items.iter().map(|item| format!("<i>{item}</i>")).collect();
                let items = if items.is_empty() {
                    "<items/>".to_owned()
                } else {
                    format!("<items>{items}</items>")
                };
                format!("<guide><title>{title}</title>{items}</guide>")
            }
        }
    }

    /// As lists and rows show it.
    pub fn value(&self) -> Value {
        let Document::Json { title, items, tags } = self else {
            return Value::String(self.text());
        };
        match tags {
            Some(tags) if title.is_empty() => json!({ "tags": tags }),
            Some(tags) => json!({ "title": title, "items": items, "tags": tags }),
            None => json!({ "title": title, "items": items }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film(items: &[&str]) -> Document {
        let items = items.iter().map(|&item| item.to_owned()).collect();
        Document::Json { title: "dune".into(), items, tags: None }
    }

    #[test]
    fn pieces_change_a_document_in_order() {
        let insert = |place, item: &str| Piece::Insert(place, item.to_owned());
        let document = film(&["a"]);
        let one = insert(Some(0), "b").apply(Some(&document), false).unwrap();
        assert_eq!(one, Some(film(&["b", "a"])));
        let two = Piece::MoveSecondToFront.apply(one.as_ref(), false).unwrap();
        assert_eq!(two, Some(film(&["a", "b"])));
        assert_eq!(insert(Some(1), "x").apply(Some(&film(&[])), false), Err("missing-path"));
        assert_eq!(Piece::RemoveFirst.apply(None, false), Err("no-document"));
        assert_eq!(Piece::RemoveFirst.apply(None, true), Err("deleted"));
        let retitle = Piece::Retitle("heat".into(), "alien".into());
        assert_eq!(retitle.apply(Some(&document), false), Err("test-failed"));
    }
}
