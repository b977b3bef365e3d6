//! Takes content out of a patch and adapts it to the namespaces in scope at its new place (RFC 5261 §4.2.3).
//!
//! A name keeps its namespace; its prefix may change. A name keeps its prefix if that means the same namespace there.
//! Otherwise it takes a prefix that is bound to its namespace there: the default namespace first (elements only), then
//! the first in alphabetical order. Otherwise its element declares the prefix. Declarations of the content itself stay.

use super::locate::Visits;
use super::names::{self, Binding, QualifiedName, Scope};
use super::scan::MAX_ATTRIBUTES;
use super::tree::{Declaration, Element, NodeId, NodeKind, Tree};
use super::write;
use crate::bounds::MAX_DEPTH;
use crate::{Reason, Rejection};

/// The content of one operation on its way from the patch into the tree.
pub(super) struct Import<'a> {
    pub(super) tree: &'a mut Tree,
    pub(super) patch: &'a mut Tree,
    /// The prefixes in scope at the new place.
    pub(super) scope: Scope,
    pub(super) visits: &'a mut Visits,
    /// How many bytes the content may take.
    pub(super) room: usize,
}

impl Import<'_> {
    /// The nodes as nodes of the tree that have no place yet, or nothing is left of them. An element among them will
    /// be at this depth.
    pub(super) fn nodes(
        mut self,
        nodes: &[NodeId],
        depth: usize,
    ) -> Result<Vec<NodeId>, Rejection> {
        let mut roots = Vec::with_capacity(nodes.len());
        for id in nodes {
            if let Err(rejection) = self.node(*id, None, depth, &mut roots) {
                for root in roots {
                    self.tree.free(root);
                }
                return Err(rejection);
            }
        }
        Ok(roots)
    }

    /// Takes a node and all below it. The depth of a patch bounds the recursion.
    fn node(
        &mut self,
        source: NodeId,
        parent: Option<NodeId>,
        depth: usize,
        roots: &mut Vec<NodeId>,
    ) -> Result<(), Rejection> {
        self.visits.spend(1)?;
        let mut kind = self.patch.take(source);
        let mut declared = Vec::new();
        if let NodeKind::Element(element) = &mut kind {
            if depth > MAX_DEPTH {
                let detail = format!("the document would be nested deeper than {MAX_DEPTH}");
                return Err(Rejection::new(Reason::TOO_DEEP, detail));
            }
            self.adapt(element)?;
            declared = element.declarations.iter().map(|it| it.prefix.clone()).collect();
        }
        let size = write::own_size(&kind, self.patch.first(source).is_some());
        let Some(room) = self.room.checked_sub(size) else {
            let detail = "the content would make the document larger than the collection allows";
            return Err(Rejection::new(Reason::TOO_LARGE, detail));
        };
        self.room = room;
        let id = self.tree.add(kind);
        match parent {
            Some(parent) => self.tree.attach(id, parent, None),
            None => roots.push(id),
        }
        let mut child = self.patch.first(source);
        while let Some(source) = child {
            self.node(source, Some(id), depth + 1, roots)?;
            child = self.patch.next(source);
        }
        for prefix in declared {
            self.scope.undeclare(&prefix);
        }
        Ok(())
    }

    /// Adapts the names of an element, and adds its declarations to the scope.
    fn adapt(&mut self, element: &mut Element) -> Result<(), Rejection> {
        for declaration in &element.declarations {
            self.scope.declare(&declaration.prefix, declaration.uri.clone());
        }
        // The element cannot declare these prefixes any more: one of its names has them from around it.
        let mut taken: Vec<Box<str>> = Vec::new();
        let Element { name, declarations, attributes } = element;
        self.adapt_name(name, true, declarations, &mut taken)?;
        for attribute in
            attributes.iter_mut().filter(|attribute| !attribute.name.prefix().is_empty())
        {
            self.adapt_name(&mut attribute.name, false, declarations, &mut taken)?;
        }
        expect_few(element)
    }

    fn adapt_name(
        &mut self,
        name: &mut QualifiedName,
        is_element: bool,
        declarations: &mut Vec<Declaration>,
        taken: &mut Vec<Box<str>>,
    ) -> Result<(), Rejection> {
        if !self.is_bound(name.prefix(), &name.uri) {
            match self.prefix_for(name, is_element)? {
                Some(prefix) => *name = name.with_prefix(&prefix),
                None => self.declare(name, declarations, taken)?,
            }
        }
        if !taken.iter().any(|prefix| **prefix == *name.prefix()) {
            taken.push(name.prefix().into());
        }
        Ok(())
    }

    fn is_bound(&self, prefix: &str, uri: &Binding) -> bool {
        self.scope.resolve(prefix).is_some_and(|bound| names::is_same(&bound, uri))
    }

    /// A prefix that is bound to the namespace of the name.
    fn prefix_for(
        &mut self,
        name: &QualifiedName,
        is_element: bool,
    ) -> Result<Option<String>, Rejection> {
        let Some(uri) = &name.uri else { return Ok(None) };
        self.visits.spend(self.scope.len())?;
        Ok(self.scope.prefix_of(uri, is_element).map(String::from))
    }

    /// Declares the prefix of a name, or another one if the element uses that already.
    fn declare(
        &mut self,
        name: &mut QualifiedName,
        declarations: &mut Vec<Declaration>,
        taken: &[Box<str>],
    ) -> Result<(), Rejection> {
        let is_taken = taken.iter().chain(declarations.iter().map(|it| &it.prefix));
        if is_taken.into_iter().any(|prefix| **prefix == *name.prefix()) {
            self.visits.spend(self.scope.len())?;
            *name = name.with_prefix(&self.scope.unbound_prefix());
        }
        self.scope.declare(name.prefix(), name.uri.clone());
        declarations.push(Declaration { prefix: name.prefix().into(), uri: name.uri.clone() });
        Ok(())
    }
}

/// Refuses an element that could not be read again.
pub(super) fn expect_few(element: &Element) -> Result<(), Rejection> {
    let count = element.declarations.len() + element.attributes.len();
    if count <= MAX_ATTRIBUTES {
        return Ok(());
    }
    let detail = format!("an element would have {count} attributes, of {MAX_ATTRIBUTES}");
    Err(Rejection::new(Reason::TOO_LARGE, detail))
}
