//! Changes a tree by one operation after the other, within its bounds.
//!
//! Each operation first counts: the nodes that it visits, the depth and the size of the result. Then it changes the
//! tree, and writes into the log how to take that back.

use super::content;
use super::import::Import;
use super::locate::{self, Located, Visits};
use super::names::{Scope, Uris};
use super::patch::{Action, Operation, Place, WhiteSpace};
use super::tree::{NodeId, NodeKind, Tree};
use super::undo::{self, Undo};
use crate::{Reason, Rejection};

/// The changes of one patch.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) tree: &'a mut Tree,
    pub(super) uris: &'a mut Uris,
    pub(super) visits: Visits,
    pub(super) log: Vec<Undo>,
    max_document: usize,
}

impl<'a> Change<'a> {
    pub(super) fn new(tree: &'a mut Tree, uris: &'a mut Uris, max_document: usize) -> Self {
        Change { tree, uris, visits: Visits::new(), log: Vec::new(), max_document }
    }

    /// Takes everything back.
    pub(super) fn undo(self) {
        undo::undo(self.tree, self.log);
    }

    pub(super) fn commit(self) {
        undo::commit(self.tree, self.log);
    }

    /// Applies an operation, whose content is taken out of the patch.
    pub(super) fn apply(
        &mut self,
        operation: &Operation,
        patch: &mut Tree,
    ) -> Result<(), Rejection> {
        let located = locate::locate(self.tree, &operation.selector, &mut self.visits)?;
        let content = operation.element;
        match (&operation.action, located) {
            (Action::Add(place), Located::Node(id)) => self.add(*place, id, patch, content),
            (Action::AddAttribute(name), Located::Node(id)) => {
                self.add_attribute(id, name, content::text(patch, content)?)
            }
            (Action::AddNamespace(prefix), Located::Node(id)) => {
                self.add_namespace(id, prefix, &content::text(patch, content)?)
            }
            (Action::Replace, Located::Node(id)) if self.tree.is_text(id) => {
                self.replace_text(id, patch, content)
            }
            (Action::Replace, Located::Node(id)) => self.replace_node(id, patch, content),
            (Action::Replace, Located::Attribute(id, at)) => {
                self.replace_attribute(id, at, content::text(patch, content)?)
            }
            (Action::Replace, Located::Declaration(id, at)) => {
                self.replace_namespace(id, at, &content::text(patch, content)?)
            }
            (Action::Remove(white_space), Located::Node(id)) => self.remove(id, *white_space),
            (Action::Remove(_), Located::Attribute(id, at)) => self.remove_attribute(id, at),
            (Action::Remove(_), Located::Declaration(id, at)) => self.remove_namespace(id, at),
            // The patch refuses it by the selector alone.
            (_, Located::Attribute(..) | Located::Declaration(..)) => {
                Err(invalid_directive("nothing can be added to an attribute or a namespace"))
            }
        }
    }

    fn add(
        &mut self,
        place: Place,
        id: NodeId,
        patch: &mut Tree,
        content: NodeId,
    ) -> Result<(), Rejection> {
        let is_child = matches!(place, Place::Append | Place::Prepend);
        if is_child && self.tree.element(id).is_none() {
            return Err(invalid_directive("only an element can have content"));
        }
        let (parent, before) = match place {
            Place::Append => (id, None),
            Place::Prepend => (id, self.tree.first(id)),
            Place::Before => (self.parent(id), Some(id)),
            Place::After => {
                let end = self.run_end(id)?;
                (self.parent(id), self.tree.next(end))
            }
        };
        let nodes = match parent {
            NodeId::DOCUMENT => content::beside_root(patch, content)?,
            _ => patch.children(content).collect(),
        };
        self.insert(&nodes, patch, parent, before, 0)
    }

    fn replace_text(
        &mut self,
        id: NodeId,
        patch: &mut Tree,
        content: NodeId,
    ) -> Result<(), Rejection> {
        let nodes = content::text_nodes(patch, content)?;
        let run: Vec<NodeId> = self.tree.run(id).collect();
        self.visits.spend(run.len())?;
        let freed = run.iter().map(|id| self.tree.subtree_size(*id)).sum();
        self.insert(&nodes, patch, self.parent(id), Some(id), freed)?;
        for id in run {
            self.unlink(id);
        }
        Ok(())
    }

    fn replace_node(
        &mut self,
        id: NodeId,
        patch: &mut Tree,
        content: NodeId,
    ) -> Result<(), Rejection> {
        let node = content::single(patch, content, self.tree.kind(id))?;
        let freed = self.tree.subtree_size(id);
        self.insert(&[node], patch, self.parent(id), Some(id), freed)?;
        self.unlink(id);
        Ok(())
    }

    fn remove(&mut self, id: NodeId, white_space: WhiteSpace) -> Result<(), Rejection> {
        let is_element = matches!(self.tree.kind(id), NodeKind::Element(_));
        if is_element && self.parent(id) == NodeId::DOCUMENT {
            let detail = "a document cannot be without its root element";
            return Err(Rejection::new(Reason::INVALID_ROOT_ELEMENT_OPERATION, detail));
        }
        let mut removed = Vec::new();
        if white_space.before {
            let previous = self.tree.previous(id).filter(|id| self.tree.is_text(*id));
            let run = self.run_towards(previous, Tree::previous)?;
            removed.extend(self.expect_white(run, "before")?);
        }
        if white_space.after {
            let next = self.tree.next(id).filter(|id| self.tree.is_text(*id));
            let run = self.run_towards(next, Tree::next)?;
            removed.extend(self.expect_white(run, "after")?);
        }
        match self.tree.is_text(id) {
            true => removed.extend(self.run_towards(Some(id), Tree::next)?),
            false => removed.push(id),
        }
        for id in removed {
            self.unlink(id);
        }
        Ok(())
    }

    fn expect_white(&self, run: Vec<NodeId>, side: &str) -> Result<Vec<NodeId>, Rejection> {
        if !run.is_empty() && run.iter().all(|id| content::is_white(self.tree, *id)) {
            return Ok(run);
        }
        let detail = format!("there is no text of white space right {side} the node");
        Err(Rejection::new(Reason::INVALID_WHITESPACE_DIRECTIVE, detail))
    }

    /// The text nodes from one on, in the direction of `step`.
    fn run_towards(
        &mut self,
        from: Option<NodeId>,
        step: fn(&Tree, NodeId) -> Option<NodeId>,
    ) -> Result<Vec<NodeId>, Rejection> {
        let nodes = std::iter::successors(from, |id| step(self.tree, *id));
        let run: Vec<NodeId> = nodes.take_while(|id| self.tree.is_text(*id)).collect();
        self.visits.spend(run.len())?;
        Ok(run)
    }

    /// The last node of the run that a node begins, or the node itself.
    fn run_end(&mut self, id: NodeId) -> Result<NodeId, Rejection> {
        let run = self.run_towards(Some(id), Tree::next)?;
        Ok(run.last().copied().unwrap_or(id))
    }

    /// Puts nodes of the patch before a child of the parent, or behind the last. Other changes of the operation will
    /// free some bytes.
    fn insert(
        &mut self,
        nodes: &[NodeId],
        patch: &mut Tree,
        parent: NodeId,
        before: Option<NodeId>,
        freed: usize,
    ) -> Result<(), Rejection> {
        if nodes.is_empty() {
            return Ok(());
        }
        let around =
            if self.tree.first(parent).is_none() { self.tree.size_of_content(parent) } else { 0 };
        self.expect_room(around, freed)?;
        let room = self.room(freed) - around;
        let scope = self.scope(parent)?;
        let depth = self.tree.depth(parent) + 1;
        let import = Import { tree: self.tree, patch, scope, visits: &mut self.visits, room };
        for id in import.nodes(nodes, depth)? {
            self.tree.link(id, parent, before);
            self.log.push(Undo::Linked(id));
        }
        Ok(())
    }

    fn unlink(&mut self, id: NodeId) {
        self.log.push(Undo::Unlinked { id, parent: self.parent(id), next: self.tree.next(id) });
        self.tree.unlink(id);
    }

    /// How many bytes an operation may add that frees some. A document that is already too large may still shrink.
    fn room(&self, freed: usize) -> usize {
        (self.max_document + freed).saturating_sub(self.tree.size()).max(freed)
    }

    pub(super) fn expect_room(&self, added: usize, freed: usize) -> Result<(), Rejection> {
        if added <= self.room(freed) {
            return Ok(());
        }
        Err(super::too_large(self.tree.size() + added - freed, self.max_document))
    }

    /// The prefixes that are bound within an element.
    pub(super) fn scope(&mut self, id: NodeId) -> Result<Scope, Rejection> {
        let mut path: Vec<NodeId> =
            std::iter::successors(Some(id), |id| self.tree.parent(*id)).collect();
        path.reverse();
        let mut scope = Scope::new(self.uris);
        for element in path.into_iter().filter_map(|id| self.tree.element(id)) {
            self.visits.spend(1 + element.declarations.len())?;
            for declaration in &element.declarations {
                scope.declare(&declaration.prefix, declaration.uri.clone());
            }
        }
        Ok(scope)
    }

    /// Located nodes are never the document itself, so they have a parent.
    fn parent(&self, id: NodeId) -> NodeId {
        self.tree.parent(id).unwrap_or(NodeId::DOCUMENT)
    }
}

pub(super) fn invalid_directive(detail: impl Into<String>) -> Rejection {
    Rejection::new(Reason::INVALID_PATCH_DIRECTIVE, detail)
}
