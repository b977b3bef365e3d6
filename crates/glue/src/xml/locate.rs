//! Walks a tree along a selector, to exactly one node.

use super::names::QualifiedName;
use super::selector::{Condition, NodeTest, Selector, Step};
use super::tree::{NodeId, NodeKind, Tree};
use crate::bounds::MAX_VISITS;
use crate::{Reason, Rejection};
use std::collections::HashSet;

/// The nodes that a piece may still visit.
#[derive(Debug)]
pub(super) struct Visits {
    left: usize,
}

impl Visits {
    pub(super) fn new() -> Self {
        Visits { left: MAX_VISITS }
    }

    pub(super) fn spend(&mut self, visits: usize) -> Result<(), Rejection> {
        match self.left.checked_sub(visits) {
            Some(left) => self.left = left,
            None => {
                let detail = format!("the piece visits more than {MAX_VISITS} nodes");
                return Err(Rejection::new(Reason::TOO_COSTLY, detail));
            }
        }
        Ok(())
    }
}

/// The place that a selector finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Located {
    /// An element, comment or instruction, or the first node of a run.
    Node(NodeId),
    /// An attribute of an element, by its number.
    Attribute(NodeId, usize),
    /// A namespace declaration of an element, by its number.
    Declaration(NodeId, usize),
}

/// The one place that the selector finds.
pub(super) fn locate(
    tree: &Tree,
    selector: &Selector,
    visits: &mut Visits,
) -> Result<Located, Rejection> {
    let (step, found) = find(tree, selector, visits)?;
    if let [found] = found[..] {
        return Ok(found);
    }
    let detail = format!("{} finds {} nodes, not one", selector.describe(step), found.len());
    Err(Rejection::new(Reason::UNLOCATED_NODE, detail))
}

/// All places that the last step finds, with its number; or none, with the number of the first step that finds none.
pub(super) fn find(
    tree: &Tree,
    selector: &Selector,
    visits: &mut Visits,
) -> Result<(usize, Vec<Located>), Rejection> {
    let mut found = vec![Located::Node(NodeId::DOCUMENT)];
    let mut last = 0;
    for (number, step) in selector.steps.iter().enumerate() {
        let contexts: Vec<NodeId> = found
            .iter()
            .filter_map(|located| match located {
                Located::Node(id) => Some(*id),
                // Only the last step finds anything but nodes.
                Located::Attribute(..) | Located::Declaration(..) => None,
            })
            .collect();
        found = Walk { tree, step, visits }.step(&contexts)?;
        last = number;
        if found.is_empty() {
            break;
        }
    }
    Ok((last, found))
}

/// One step from all nodes that the steps before it found.
struct Walk<'a> {
    tree: &'a Tree,
    step: &'a Step,
    visits: &'a mut Visits,
}

impl Walk<'_> {
    fn step(&mut self, contexts: &[NodeId]) -> Result<Vec<Located>, Rejection> {
        let mut found = Vec::new();
        // Contexts below each other share their descendants, which count once.
        let mut seen = HashSet::new();
        for context in contexts {
            if !self.step.is_deep {
                self.beneath(*context, &mut found)?;
                continue;
            }
            let mut next = Some(*context);
            while let Some(at) = next {
                if contexts.len() > 1 && !seen.insert(at) {
                    next = self.tree.next_beside(*context, at);
                    continue;
                }
                self.beneath(at, &mut found)?;
                next = self.tree.next_within(*context, at);
            }
        }
        Ok(found)
    }

    /// The nodes right below one node that the step finds.
    fn beneath(&mut self, parent: NodeId, found: &mut Vec<Located>) -> Result<(), Rejection> {
        self.visits.spend(1)?;
        match &self.step.test {
            NodeTest::Attribute(name) => {
                let attribute = self.attribute(parent, name)?;
                found.extend(attribute.map(|at| Located::Attribute(parent, at)));
                return Ok(());
            }
            NodeTest::Namespace(prefix) => {
                let Some(element) = self.tree.element(parent) else { return Ok(()) };
                self.visits.spend(element.declarations.len())?;
                let declared = element.declarations.iter().position(|it| it.prefix == *prefix);
                found.extend(declared.map(|at| Located::Declaration(parent, at)));
                return Ok(());
            }
            _ => {}
        }
        let mut nodes = Vec::new();
        for child in self.tree.children(parent) {
            self.visits.spend(1)?;
            if self.fits(child) {
                nodes.push(child);
            }
        }
        for condition in &self.step.conditions {
            nodes = self.filter(nodes, condition)?;
        }
        found.extend(nodes.into_iter().map(Located::Node));
        Ok(())
    }

    fn fits(&self, id: NodeId) -> bool {
        match (&self.step.test, self.tree.kind(id)) {
            (NodeTest::AnyElement, NodeKind::Element(_)) => true,
            (NodeTest::Element(name), NodeKind::Element(element)) => element.name.is_same(name),
            (NodeTest::Text, NodeKind::Text(_) | NodeKind::CData(_)) => {
                !self.tree.previous(id).is_some_and(|previous| self.tree.is_text(previous))
            }
            (NodeTest::Comment, NodeKind::Comment(_)) => true,
            (NodeTest::Instruction(target), NodeKind::Instruction(instruction)) => {
                target.as_ref().is_none_or(|target| instruction.target == *target)
            }
            _ => false,
        }
    }

    fn filter(
        &mut self,
        nodes: Vec<NodeId>,
        condition: &Condition,
    ) -> Result<Vec<NodeId>, Rejection> {
        if let Condition::Position(position) = condition {
            let nth = position.checked_sub(1).and_then(|at| nodes.get(at));
            return Ok(nth.copied().into_iter().collect());
        }
        let mut kept = Vec::new();
        for node in nodes {
            self.visits.spend(1)?;
            if self.holds(node, condition)? {
                kept.push(node);
            }
        }
        Ok(kept)
    }

    fn holds(&mut self, id: NodeId, condition: &Condition) -> Result<bool, Rejection> {
        match condition {
            Condition::Position(_) => Ok(false),
            Condition::Own(value) => self.has_value(id, value),
            Condition::Attribute(name, value) => {
                let at = self.attribute(id, name)?;
                let attributes = self.tree.element(id).map(|element| &element.attributes);
                Ok(at
                    .zip(attributes)
                    .is_some_and(|(at, attributes)| attributes[at].value == *value))
            }
            Condition::Child(name, value) => {
                for child in self.tree.children(id) {
                    self.visits.spend(1)?;
                    let is_named = self.tree.element(child).is_some_and(|it| it.name.is_same(name));
                    if is_named && self.has_value(child, value)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn attribute(&mut self, id: NodeId, name: &QualifiedName) -> Result<Option<usize>, Rejection> {
        let Some(element) = self.tree.element(id) else { return Ok(None) };
        self.visits.spend(element.attributes.len())?;
        Ok(element.attributes.iter().position(|attribute| attribute.name.is_same(name)))
    }

    /// Whether the text of a node is this: of an element, the text of all nodes below it.
    fn has_value(&mut self, id: NodeId, value: &str) -> Result<bool, Rejection> {
        let mut rest = value;
        match self.tree.kind(id) {
            NodeKind::Comment(text) => return Ok(**text == *value),
            NodeKind::Instruction(instruction) => return Ok(*instruction.data == *value),
            NodeKind::Text(_) | NodeKind::CData(_) => {
                for part in self.tree.run(id) {
                    self.visits.spend(1)?;
                    match self.after(part, rest) {
                        Some(after) => rest = after,
                        None => return Ok(false),
                    }
                }
            }
            NodeKind::Free | NodeKind::Document | NodeKind::Element(_) => {
                let mut next = self.tree.first(id);
                while let Some(at) = next {
                    self.visits.spend(1)?;
                    match self.after(at, rest) {
                        Some(after) => rest = after,
                        None => return Ok(false),
                    }
                    next = self.tree.next_within(id, at);
                }
            }
        }
        Ok(rest.is_empty())
    }

    /// The rest of a value behind the text of a node, if it begins with that.
    fn after<'v>(&self, id: NodeId, value: &'v str) -> Option<&'v str> {
        match self.tree.kind(id) {
            NodeKind::Text(text) | NodeKind::CData(text) => value.strip_prefix(&**text),
            _ => Some(value),
        }
    }
}
