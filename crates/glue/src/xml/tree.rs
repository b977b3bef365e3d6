//! The tree of a document: nodes in one vector, linked by their numbers.
//!
//! Slots of removed nodes are used again, so a document that is patched for months stays as small as it is.
//! The tree knows the exact size of its text. Text is never merged: adjacent text and CDATA nodes form a *run*, and a
//! run is the text node of XPath. So removing an element between two large texts copies neither.

use super::names::{Binding, QualifiedName};
use super::write;
use std::num::NonZeroU32;

/// The number of a node in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(NonZeroU32);

impl NodeId {
    /// The document itself, the parent of the root element.
    pub(super) const DOCUMENT: NodeId = NodeId(NonZeroU32::MIN);

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    /// A slot that no node uses.
    Free,
    Document,
    Element(Box<Element>),
    Text(Box<str>),
    CData(Box<str>),
    Comment(Box<str>),
    Instruction(Box<Instruction>),
}

#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) name: QualifiedName,
    pub(super) declarations: Vec<Declaration>,
    pub(super) attributes: Vec<Attribute>,
}

/// A namespace declaration; the prefix of a default namespace is empty.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    pub(super) prefix: Box<str>,
    pub(super) uri: Binding,
}

#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) name: QualifiedName,
    pub(super) value: Box<str>,
}

/// A processing instruction.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) target: Box<str>,
    pub(super) data: Box<str>,
}

#[derive(Clone, Debug)]
struct Node {
    kind: NodeKind,
    parent: Option<NodeId>,
    previous: Option<NodeId>,
    next: Option<NodeId>,
    first: Option<NodeId>,
    last: Option<NodeId>,
}

impl Node {
    fn new(kind: NodeKind) -> Self {
        Node { kind, parent: None, previous: None, next: None, first: None, last: None }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    /// The XML declaration as it is written, or nothing.
    pub(super) xml_declaration: Box<str>,
    size: usize,
}

impl Tree {
    pub(super) fn new() -> Self {
        Tree {
            nodes: vec![Node::new(NodeKind::Document)],
            free: Vec::new(),
            xml_declaration: Box::default(),
            size: 0,
        }
    }

    /// The exact size of the document's text.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Counts the size anew, after the tree was built with [`Tree::attach`].
    pub(super) fn count_size(&mut self) {
        self.size = self.xml_declaration.len() + self.subtree_size(NodeId::DOCUMENT);
    }

    /// A new node without place.
    pub(super) fn add(&mut self, kind: NodeKind) -> NodeId {
        if let Some(id) = self.free.pop() {
            self.nodes[id.index()] = Node::new(kind);
            return id;
        }
        // Pieces are far below 2^32 bytes, and so are the nodes of a document and its patch.
        let id = NodeId(NonZeroU32::MIN.saturating_add(self.nodes.len() as u32));
        self.nodes.push(Node::new(kind));
        id
    }

    /// Gives the slots of a node without place, and of all below it, back.
    pub(super) fn free(&mut self, id: NodeId) {
        let mut next = Some(id);
        while let Some(at) = next {
            next = self.next_within(id, at);
            self.nodes[at.index()].kind = NodeKind::Free;
            self.free.push(at);
        }
    }

    /// Puts a node without place before a child of the parent, or behind the last. Does not count the size.
    pub(super) fn attach(&mut self, id: NodeId, parent: NodeId, before: Option<NodeId>) {
        let previous = match before {
            Some(before) => self.nodes[before.index()].previous.replace(id),
            None => self.nodes[parent.index()].last.replace(id),
        };
        match previous {
            Some(previous) => self.nodes[previous.index()].next = Some(id),
            None => self.nodes[parent.index()].first = Some(id),
        }
        let node = &mut self.nodes[id.index()];
        (node.parent, node.previous, node.next) = (Some(parent), previous, before);
    }

    /// Puts a node without place into the document.
    pub(super) fn link(&mut self, id: NodeId, parent: NodeId, before: Option<NodeId>) {
        self.size += self.subtree_size(id);
        if self.first(parent).is_none() {
            self.size += self.size_of_content(parent);
        }
        self.attach(id, parent, before);
    }

    /// Takes a node out of the document. It stays in the tree, without place.
    pub(super) fn unlink(&mut self, id: NodeId) {
        self.size -= self.subtree_size(id);
        let node = &mut self.nodes[id.index()];
        let (parent, previous, next) = (node.parent.take(), node.previous.take(), node.next.take());
        if let Some(previous) = previous {
            self.nodes[previous.index()].next = next;
        }
        if let Some(next) = next {
            self.nodes[next.index()].previous = previous;
        }
        let Some(parent) = parent else { return };
        let node = &mut self.nodes[parent.index()];
        if previous.is_none() {
            node.first = next;
        }
        if next.is_none() {
            node.last = previous;
        }
        if node.first.is_none() {
            self.size -= self.size_of_content(parent);
        }
    }

    /// How many bytes an element gains with its first child: `<a/>` becomes `<a></a>`.
    pub(super) fn size_of_content(&self, parent: NodeId) -> usize {
        self.element(parent).map_or(0, |element| element.name.as_str().len() + 2)
    }

    /// The size of a node and all below it.
    pub(super) fn subtree_size(&self, id: NodeId) -> usize {
        let (mut size, mut next) = (0, Some(id));
        while let Some(at) = next {
            size += write::own_size(self.kind(at), self.first(at).is_some());
            next = self.next_within(id, at);
        }
        size
    }

    pub(super) fn insert_attribute(&mut self, id: NodeId, at: usize, attribute: Attribute) {
        let size = write::attribute_size(&attribute);
        if let Some(element) = self.element_mut(id) {
            element.attributes.insert(at, attribute);
            self.size += size;
        }
    }

    pub(super) fn remove_attribute(&mut self, id: NodeId, at: usize) -> Option<Attribute> {
        let attribute = self.element_mut(id).map(|element| element.attributes.remove(at))?;
        self.size -= write::attribute_size(&attribute);
        Some(attribute)
    }

    pub(super) fn insert_declaration(&mut self, id: NodeId, at: usize, declaration: Declaration) {
        let size = write::declaration_size(&declaration);
        if let Some(element) = self.element_mut(id) {
            element.declarations.insert(at, declaration);
            self.size += size;
        }
    }

    pub(super) fn remove_declaration(&mut self, id: NodeId, at: usize) -> Option<Declaration> {
        let declaration = self.element_mut(id).map(|element| element.declarations.remove(at))?;
        self.size -= write::declaration_size(&declaration);
        Some(declaration)
    }

    /// The element itself. A change of its lengths has to be counted: see the methods above.
    pub(super) fn element_mut(&mut self, id: NodeId) -> Option<&mut Element> {
        match &mut self.nodes[id.index()].kind {
            NodeKind::Element(element) => Some(element),
            _ => None,
        }
    }

    /// Takes the content of a node out of the tree.
    pub(super) fn take(&mut self, id: NodeId) -> NodeKind {
        std::mem::replace(&mut self.nodes[id.index()].kind, NodeKind::Free)
    }

    pub(super) fn kind(&self, id: NodeId) -> &NodeKind {
        &self.nodes[id.index()].kind
    }

    pub(super) fn element(&self, id: NodeId) -> Option<&Element> {
        match self.kind(id) {
            NodeKind::Element(element) => Some(element),
            _ => None,
        }
    }

    pub(super) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.nodes[id.index()].parent
    }

    pub(super) fn previous(&self, id: NodeId) -> Option<NodeId> {
        self.nodes[id.index()].previous
    }

    pub(super) fn next(&self, id: NodeId) -> Option<NodeId> {
        self.nodes[id.index()].next
    }

    pub(super) fn first(&self, id: NodeId) -> Option<NodeId> {
        self.nodes[id.index()].first
    }

    pub(super) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.first(id), |child| self.next(*child))
    }

    /// The node that follows in document order, within the subtree of `root`.
    pub(super) fn next_within(&self, root: NodeId, id: NodeId) -> Option<NodeId> {
        self.first(id).or_else(|| self.next_beside(root, id))
    }

    /// The same behind all nodes below `id`.
    pub(super) fn next_beside(&self, root: NodeId, mut id: NodeId) -> Option<NodeId> {
        while id != root {
            if let Some(next) = self.next(id) {
                return Some(next);
            }
            id = self.parent(id)?;
        }
        None
    }

    /// How deep a node is nested: the root element at 1.
    pub(super) fn depth(&self, id: NodeId) -> usize {
        std::iter::successors(self.parent(id), |id| self.parent(*id)).count()
    }

    /// Whether a node is text or CDATA.
    pub(super) fn is_text(&self, id: NodeId) -> bool {
        matches!(self.kind(id), NodeKind::Text(_) | NodeKind::CData(_))
    }

    /// The nodes of a run, from its first on.
    pub(super) fn run(&self, first: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(first), |id| self.next(*id)).take_while(|id| self.is_text(*id))
    }

    /// How many slots the tree holds, in use or not.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.nodes.len()
    }
}
