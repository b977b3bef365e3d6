//! Changes attributes and namespace declarations.

use super::change::{Change, invalid_directive};
use super::import;
use super::names::{self, Binding, QualifiedName, XML_NAMESPACE, XMLNS_NAMESPACE};
use super::tree::{Attribute, Declaration, NodeId};
use super::undo::{self, Undo};
use super::write;
use crate::{Reason, Rejection};

impl Change<'_> {
    pub(super) fn add_attribute(
        &mut self,
        id: NodeId,
        name: &QualifiedName,
        value: String,
    ) -> Result<(), Rejection> {
        let Some(element) = self.tree.element(id) else {
            return Err(invalid_directive("only an element can have attributes"));
        };
        if element.attributes.iter().any(|attribute| attribute.name.is_same(name)) {
            let name = super::quote(name.as_str());
            return Err(invalid_directive(format!("the element already has the attribute {name}")));
        }
        let name = self.attribute_name(id, name)?;
        let attribute = Attribute { name, value: value.into() };
        self.expect_room(write::attribute_size(&attribute), 0)?;
        let at = self.tree.element(id).map_or(0, |element| element.attributes.len());
        self.tree.insert_attribute(id, at, attribute);
        self.log.push(Undo::AttributeInserted(id, at));
        self.expect_few(id)
    }

    /// The name of an attribute with a prefix that means its namespace at an element, which declares it if need be.
    fn attribute_name(
        &mut self,
        id: NodeId,
        name: &QualifiedName,
    ) -> Result<QualifiedName, Rejection> {
        let Some(uri) = &name.uri else { return Ok(name.clone()) };
        let scope = self.scope(id)?;
        self.visits.spend(2 * scope.len())?;
        let bound = scope.resolve(name.prefix());
        if bound.as_ref().is_some_and(|bound| names::is_same(bound, &name.uri)) {
            return Ok(name.clone());
        }
        if let Some(prefix) = scope.prefix_of(uri, false) {
            return Ok(name.with_prefix(prefix));
        }
        // Nodes below may use a prefix that is bound from above: declared here, it would mean something else to them.
        let name = match bound {
            Some(_) => name.with_prefix(&scope.unbound_prefix()),
            None => name.clone(),
        };
        self.declare(id, name.prefix(), name.uri.clone())?;
        Ok(name)
    }

    pub(super) fn replace_attribute(
        &mut self,
        id: NodeId,
        at: usize,
        value: String,
    ) -> Result<(), Rejection> {
        let Some(element) = self.tree.element(id) else { return Ok(()) };
        let old = &element.attributes[at];
        let attribute = Attribute { name: old.name.clone(), value: value.into() };
        self.expect_room(write::attribute_size(&attribute), write::attribute_size(old))?;
        self.remove_attribute(id, at)?;
        self.tree.insert_attribute(id, at, attribute);
        self.log.push(Undo::AttributeInserted(id, at));
        Ok(())
    }

    pub(super) fn remove_attribute(&mut self, id: NodeId, at: usize) -> Result<(), Rejection> {
        if let Some(attribute) = self.tree.remove_attribute(id, at) {
            self.log.push(Undo::AttributeRemoved(id, at, attribute));
        }
        Ok(())
    }

    pub(super) fn add_namespace(
        &mut self,
        id: NodeId,
        prefix: &str,
        uri: &str,
    ) -> Result<(), Rejection> {
        let uri = self.namespace(prefix, uri)?;
        let Some(element) = self.tree.element(id) else {
            return Err(invalid_directive("only an element can declare a namespace"));
        };
        if element.declarations.iter().any(|declaration| *declaration.prefix == *prefix) {
            return Err(invalid_prefix(prefix, "the element already declares it"));
        }
        let is_other =
            self.scope(id)?.resolve(prefix).is_some_and(|bound| !names::is_same(&bound, &uri));
        if is_other && !self.users(id, prefix)?.is_empty() {
            return Err(invalid_prefix(prefix, "names below have it with another namespace"));
        }
        self.declare(id, prefix, uri)
    }

    /// Replaces the namespace of a prefix, and so of all names that have the prefix from this declaration.
    pub(super) fn replace_namespace(
        &mut self,
        id: NodeId,
        at: usize,
        uri: &str,
    ) -> Result<(), Rejection> {
        let Some(element) = self.tree.element(id) else { return Ok(()) };
        let old = element.declarations[at].clone();
        let uri = self.namespace(&old.prefix, uri)?;
        let declaration = Declaration { prefix: old.prefix.clone(), uri: uri.clone() };
        self.expect_room(write::declaration_size(&declaration), write::declaration_size(&old))?;
        let elements = self.users(id, &old.prefix)?;
        for element in &elements {
            self.expect_distinct(*element, &old.prefix, &uri)?;
        }
        self.tree.remove_declaration(id, at);
        self.log.push(Undo::DeclarationRemoved(id, at, old.clone()));
        self.tree.insert_declaration(id, at, declaration);
        self.log.push(Undo::DeclarationInserted(id, at));
        undo::rebind(self.tree, &elements, &old.prefix, &uri);
        self.log.push(Undo::Rebound { elements, prefix: old.prefix, uri: old.uri });
        Ok(())
    }

    pub(super) fn remove_namespace(&mut self, id: NodeId, at: usize) -> Result<(), Rejection> {
        let Some(element) = self.tree.element(id) else { return Ok(()) };
        let Declaration { prefix, uri } = element.declarations[at].clone();
        let parent = self.tree.parent(id).unwrap_or(NodeId::DOCUMENT);
        let around = self.scope(parent)?.resolve(&prefix);
        let is_same = around.is_some_and(|around| names::is_same(&around, &uri));
        if !is_same && !self.users(id, &prefix)?.is_empty() {
            return Err(invalid_prefix(&prefix, "names have it from this declaration"));
        }
        if let Some(declaration) = self.tree.remove_declaration(id, at) {
            self.log.push(Undo::DeclarationRemoved(id, at, declaration));
        }
        Ok(())
    }

    /// The namespace that a declaration may bind a prefix to.
    fn namespace(&mut self, prefix: &str, uri: &str) -> Result<Binding, Rejection> {
        if matches!(prefix, "xml" | "xmlns") {
            return Err(invalid_prefix(prefix, "XML reserves it"));
        }
        let is_blank = uri.is_empty() || uri.contains(char::is_whitespace);
        if is_blank || matches!(uri, XML_NAMESPACE | XMLNS_NAMESPACE) {
            let detail = format!("no prefix can be bound to {}", super::quote(uri));
            return Err(Rejection::new(Reason::INVALID_NAMESPACE_URI, detail));
        }
        Ok(self.uris.binding(uri))
    }

    fn declare(&mut self, id: NodeId, prefix: &str, uri: Binding) -> Result<(), Rejection> {
        let declaration = Declaration { prefix: prefix.into(), uri };
        self.expect_room(write::declaration_size(&declaration), 0)?;
        let at = self.tree.element(id).map_or(0, |element| element.declarations.len());
        self.tree.insert_declaration(id, at, declaration);
        self.log.push(Undo::DeclarationInserted(id, at));
        self.expect_few(id)
    }

    fn expect_few(&self, id: NodeId) -> Result<(), Rejection> {
        self.tree.element(id).map_or(Ok(()), import::expect_few)
    }

    /// The elements, from one on, that have the prefix in a name and no declaration of it in between.
    fn users(&mut self, id: NodeId, prefix: &str) -> Result<Vec<NodeId>, Rejection> {
        let mut users = Vec::new();
        let mut next = Some(id);
        while let Some(at) = next {
            self.visits.spend(1)?;
            next = self.tree.next_within(id, at);
            let Some(element) = self.tree.element(at) else { continue };
            self.visits.spend(element.declarations.len() + element.attributes.len())?;
            if at != id && element.declarations.iter().any(|it| *it.prefix == *prefix) {
                next = self.tree.next_beside(id, at);
                continue;
            }
            let attributes = element.attributes.iter().map(|attribute| &attribute.name);
            if attributes.chain([&element.name]).any(|name| name.prefix() == prefix) {
                users.push(at);
            }
        }
        Ok(users)
    }

    /// Refuses a namespace that would give two attributes of an element one name.
    fn expect_distinct(
        &mut self,
        id: NodeId,
        prefix: &str,
        uri: &Binding,
    ) -> Result<(), Rejection> {
        let Some(element) = self.tree.element(id) else { return Ok(()) };
        let names = || element.attributes.iter().map(|attribute| &attribute.name);
        for name in names().filter(|name| name.prefix() == prefix) {
            self.visits.spend(element.attributes.len())?;
            let is_equal = |other: &QualifiedName| {
                other.prefix() != prefix
                    && other.local() == name.local()
                    && names::is_same(&other.uri, uri)
            };
            if names().any(is_equal) {
                let name = super::quote(name.local());
                let detail =
                    format!("an element would have two attributes {name} in one namespace");
                return Err(Rejection::new(Reason::INVALID_NAMESPACE_URI, detail));
            }
        }
        Ok(())
    }
}

fn invalid_prefix(prefix: &str, fault: &str) -> Rejection {
    let detail = format!("the prefix {}: {fault}", super::quote(prefix));
    Rejection::new(Reason::INVALID_NAMESPACE_PREFIX, detail)
}
