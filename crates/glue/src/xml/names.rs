//! Names, namespaces and the prefixes in scope.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The namespace that the prefix `xml` is bound to.
pub(super) const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace of namespace declarations, which no prefix may be bound to.
pub(super) const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// A namespace name. A document holds each one once, so two of them are compared as pointers.
pub(super) type Uri = Arc<str>;

/// The namespace that a prefix is bound to; `None` is no namespace.
pub(super) type Binding = Option<Uri>;

/// Whether two bindings of one [`Uris`] are the same namespace.
pub(super) fn is_same(one: &Binding, other: &Binding) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// The namespace names of a document, each held once.
///
/// A name of a megabyte on 100,000 elements costs a megabyte, and comparing two costs as much as two pointers.
#[derive(Clone, Debug)]
pub(super) struct Uris {
    known: HashSet<Uri>,
    /// Names that no node uses any more are dropped when this many are known.
    purge_at: usize,
    xml: Uri,
}

impl Uris {
    pub(super) fn new() -> Self {
        let xml: Uri = XML_NAMESPACE.into();
        Uris { known: HashSet::from([xml.clone()]), purge_at: 64, xml }
    }

    /// The one copy of this name.
    pub(super) fn intern(&mut self, uri: &str) -> Uri {
        if let Some(known) = self.known.get(uri) {
            return known.clone();
        }
        if self.known.len() >= self.purge_at {
            self.known.retain(|uri| Arc::strong_count(uri) > 1);
            self.purge_at = (self.known.len() * 2).max(64);
        }
        let uri: Uri = uri.into();
        self.known.insert(uri.clone());
        uri
    }

    /// The namespace of a declaration's value: an empty one is no namespace.
    pub(super) fn binding(&mut self, uri: &str) -> Binding {
        (!uri.is_empty()).then(|| self.intern(uri))
    }
}

/// The name of an element or attribute with its namespace.
#[derive(Clone, Debug)]
pub(super) struct QualifiedName {
    text: Box<str>,
    /// The length of the prefix; 0 without one.
    prefix: usize,
    pub(super) uri: Binding,
}

impl QualifiedName {
    pub(super) fn new(prefix: &str, local: &str, uri: Binding) -> Self {
        let text =
            if prefix.is_empty() { local.into() } else { format!("{prefix}:{local}").into() };
        QualifiedName { text, prefix: prefix.len(), uri }
    }

    /// As it is written.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Its prefix, empty if it has none.
    pub(super) fn prefix(&self) -> &str {
        &self.text[..self.prefix]
    }

    pub(super) fn local(&self) -> &str {
        if self.prefix == 0 { &self.text } else { &self.text[self.prefix + 1..] }
    }

    /// The same name under another prefix.
    pub(super) fn with_prefix(&self, prefix: &str) -> Self {
        QualifiedName::new(prefix, self.local(), self.uri.clone())
    }

    /// Whether both are the same name, whatever their prefixes.
    pub(super) fn is_same(&self, other: &QualifiedName) -> bool {
        is_same(&self.uri, &other.uri) && self.local() == other.local()
    }
}

/// Splits a name into prefix and local part, or refuses a name that namespaces forbid.
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    let (prefix, local) = match name.split_once(':') {
        Some((prefix, local)) => (Some(prefix), local),
        None => (None, name),
    };
    let is_valid = is_ncname(local) && prefix.is_none_or(is_ncname);
    is_valid.then_some((prefix.unwrap_or_default(), local))
}

/// Whether a name is a name without colon.
pub(super) fn is_ncname(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(is_name_start) && chars.all(is_name_char)
}

/// Whether a name without colon can begin with this character.
pub(super) fn is_name_start(c: char) -> bool {
    matches!(c, 'A'..='Z' | '_' | 'a'..='z'
        | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}'
        | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

/// Whether a name without colon can go on with this character.
pub(super) fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// The prefixes that are bound at one place.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Each prefix with its bindings, the innermost last. The default namespace has the empty prefix.
    bindings: HashMap<Box<str>, Vec<Binding>>,
}

impl Scope {
    pub(super) fn new(uris: &Uris) -> Self {
        Scope { bindings: HashMap::from([("xml".into(), vec![Some(uris.xml.clone())])]) }
    }

    pub(super) fn declare(&mut self, prefix: &str, binding: Binding) {
        match self.bindings.get_mut(prefix) {
            Some(bindings) => bindings.push(binding),
            None => drop(self.bindings.insert(prefix.into(), vec![binding])),
        }
    }

    /// Takes the innermost declaration of a prefix back.
    pub(super) fn undeclare(&mut self, prefix: &str) {
        if let Some(bindings) = self.bindings.get_mut(prefix) {
            bindings.pop();
            if bindings.is_empty() {
                self.bindings.remove(prefix);
            }
        }
    }

    /// The namespace of a prefix. Without prefix there always is one, if only none.
    pub(super) fn resolve(&self, prefix: &str) -> Option<Binding> {
        match self.bindings.get(prefix).and_then(|bindings| bindings.last()) {
            Some(binding) => Some(binding.clone()),
            None => prefix.is_empty().then_some(None),
        }
    }

    /// How many prefixes are bound.
    pub(super) fn len(&self) -> usize {
        self.bindings.len()
    }

    /// The first prefix in alphabetical order that is bound to a namespace; for elements the empty one comes first.
    pub(super) fn prefix_of(&self, uri: &Uri, with_default: bool) -> Option<&str> {
        let bound = self.bindings.iter().filter(|(prefix, bindings)| {
            let innermost = bindings.last().and_then(Option::as_ref);
            (with_default || !prefix.is_empty()) && innermost.is_some_and(|it| Arc::ptr_eq(it, uri))
        });
        bound.map(|(prefix, _)| &**prefix).min()
    }

    /// A prefix that is not bound.
    pub(super) fn unbound_prefix(&self) -> String {
        let mut number = 1;
        while self.bindings.contains_key(format!("ns{number}").as_str()) {
            number += 1;
        }
        format!("ns{number}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_at_most_one_colon_and_two_proper_parts() {
        assert_eq!(split("a"), Some(("", "a")));
        assert_eq!(split("p:a"), Some(("p", "a")));
        for name in ["", ":", ":a", "a:", "a:b:c", "a:1", "1", "-a", "a b"] {
            assert_eq!(split(name), None, "{name}");
        }
    }

    #[test]
    fn a_namespace_is_held_once_and_dropped_when_no_name_uses_it() {
        let mut uris = Uris::new();
        let kept = uris.intern("urn:kept");
        for number in 0..1_000 {
            uris.intern(&format!("urn:{number}"));
        }
        assert!(uris.known.len() <= 64, "{} names are known", uris.known.len());
        assert!(Arc::ptr_eq(&kept, &uris.intern("urn:kept")));
        assert!(Arc::ptr_eq(&uris.xml.clone(), &uris.intern(XML_NAMESPACE)));
    }

    #[test]
    fn the_innermost_declaration_of_a_prefix_counts() {
        let mut uris = Uris::new();
        let (one, two) = (uris.intern("urn:1"), uris.intern("urn:2"));
        let mut scope = Scope::new(&uris);
        assert!(scope.resolve("p").is_none());
        assert!(scope.resolve("").is_some_and(|binding| binding.is_none()));
        scope.declare("p", Some(one.clone()));
        scope.declare("b", Some(one.clone()));
        scope.declare("", Some(one.clone()));
        assert_eq!(scope.prefix_of(&one, true), Some(""));
        assert_eq!(scope.prefix_of(&one, false), Some("b"));
        scope.declare("b", Some(two.clone()));
        assert_eq!(scope.prefix_of(&one, false), Some("p"));
        scope.undeclare("b");
        assert_eq!(scope.prefix_of(&one, false), Some("b"));
        assert_eq!(scope.prefix_of(&two, false), None);
    }
}
