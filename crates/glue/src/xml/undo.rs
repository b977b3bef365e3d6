//! The inverse log of a patch.
//!
//! An entry is as small as its change, so a patch on a large document costs as much as on a small one; a copy of the
//! document, or its text to parse again, would cost the document for each patch.

use super::names::Binding;
use super::tree::{Attribute, Declaration, NodeId, Tree};

/// One change, as it is taken back.
#[derive(Debug)]
pub(super) enum Undo {
    Linked(NodeId),
    Unlinked {
        id: NodeId,
        parent: NodeId,
        next: Option<NodeId>,
    },
    AttributeInserted(NodeId, usize),
    AttributeRemoved(NodeId, usize, Attribute),
    DeclarationInserted(NodeId, usize),
    DeclarationRemoved(NodeId, usize, Declaration),
    /// The names of these elements and their attributes that have the prefix had another namespace.
    Rebound {
        elements: Vec<NodeId>,
        prefix: Box<str>,
        uri: Binding,
    },
}

/// Takes all changes back, the last one first.
pub(super) fn undo(tree: &mut Tree, log: Vec<Undo>) {
    for entry in log.into_iter().rev() {
        match entry {
            Undo::Linked(id) => {
                tree.unlink(id);
                tree.free(id);
            }
            Undo::Unlinked { id, parent, next } => tree.link(id, parent, next),
            Undo::AttributeInserted(id, at) => drop(tree.remove_attribute(id, at)),
            Undo::AttributeRemoved(id, at, attribute) => tree.insert_attribute(id, at, attribute),
            Undo::DeclarationInserted(id, at) => drop(tree.remove_declaration(id, at)),
            Undo::DeclarationRemoved(id, at, declaration) => {
                tree.insert_declaration(id, at, declaration)
            }
            Undo::Rebound { elements, prefix, uri } => rebind(tree, &elements, &prefix, &uri),
        }
    }
}

/// Keeps all changes: the slots of removed nodes are free again.
pub(super) fn commit(tree: &mut Tree, log: Vec<Undo>) {
    for entry in log {
        if let Undo::Unlinked { id, .. } = entry {
            tree.free(id);
        }
    }
}

/// Gives the names with a prefix another namespace.
pub(super) fn rebind(tree: &mut Tree, elements: &[NodeId], prefix: &str, uri: &Binding) {
    for id in elements {
        let Some(element) = tree.element_mut(*id) else { continue };
        let attributes = element.attributes.iter_mut().map(|attribute| &mut attribute.name);
        for name in attributes.chain([&mut element.name]) {
            if name.prefix() == prefix {
                name.uri = uri.clone();
            }
        }
    }
}
