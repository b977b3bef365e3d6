//! Reads a patch: its operations, their attributes and selectors.

use super::change::Change;
use super::content;
use super::names::{self, Binding, QualifiedName, Scope, Uris, XML_NAMESPACE};
use super::read;
use super::selector::{NodeTest, Selector};
use super::tree::{Element, NodeId, NodeKind, Tree};
use crate::bounds::{MAX_DEPTH, MAX_OPERATIONS};
use crate::{Reason, Rejection};

/// A patch whose operations are not looked at yet.
#[derive(Debug)]
struct Patch {
    tree: Tree,
    /// The prefixes that its root declares.
    scope: Scope,
    operations: Vec<NodeId>,
}

/// One operation of a patch.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) selector: Selector,
    pub(super) action: Action,
    /// The element in the patch that holds the content.
    pub(super) element: NodeId,
}

#[derive(Debug)]
pub(super) enum Action {
    Add(Place),
    AddAttribute(QualifiedName),
    AddNamespace(Box<str>),
    Replace,
    Remove(WhiteSpace),
}

/// Where `add` puts its content.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Append,
    Prepend,
    Before,
    After,
}

/// The white space that `remove` takes along.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WhiteSpace {
    pub(super) before: bool,
    pub(super) after: bool,
}

/// Applies a patch whole, or leaves the tree equal to what it was.
pub(super) fn apply(
    tree: &mut Tree,
    uris: &mut Uris,
    piece: &[u8],
    max_document: usize,
) -> Result<(), Rejection> {
    let mut patch = Patch::parse(piece, uris)?;
    let mut change = Change::new(tree, uris, max_document);
    for (at, element) in std::mem::take(&mut patch.operations).into_iter().enumerate() {
        let operation = patch.operation(element);
        let applied = operation.and_then(|operation| change.apply(&operation, &mut patch.tree));
        if let Err(rejection) = applied {
            change.undo();
            return Err(patch.locate(rejection, at, element));
        }
    }
    change.commit();
    Ok(())
}

/// Checks what depends on the patch alone and is answered with 400 or 413.
pub(super) fn check(piece: &[u8]) -> Result<(), Rejection> {
    let mut patch = Patch::parse(piece, &mut Uris::new())?;
    for (at, element) in std::mem::take(&mut patch.operations).into_iter().enumerate() {
        match patch.operation(element) {
            Err(rejection) if matches!(rejection.reason.status(), 400 | 413) => {
                return Err(patch.locate(rejection, at, element));
            }
            // The other faults are found again in the order of the log, where they are rejections.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

impl Patch {
    fn parse(piece: &[u8], uris: &mut Uris) -> Result<Patch, Rejection> {
        // Content of full depth still has the patch and the operation around it.
        let tree =
            read::read(piece, MAX_DEPTH + 2, uris).map_err(|rejection| match rejection.reason {
                Reason::MALFORMED => invalid_format(rejection.detail),
                _ => rejection,
            })?;
        let root = tree.children(NodeId::DOCUMENT).find(|id| tree.element(*id).is_some());
        let root = root.ok_or_else(|| invalid_format("it has no root element"))?;
        let mut operations = Vec::new();
        for child in tree.children(root) {
            match tree.kind(child) {
                NodeKind::Element(_) => operations.push(child),
                NodeKind::Comment(_) | NodeKind::Instruction(_) => {}
                _ if content::is_white(&tree, child) => {}
                _ => return Err(invalid_format("it has text between its operations")),
            }
        }
        if operations.len() > MAX_OPERATIONS {
            let detail = format!("it has {} operations, of {MAX_OPERATIONS}", operations.len());
            return Err(Rejection::new(Reason::TOO_MANY_OPERATIONS, detail));
        }
        let mut scope = Scope::new(uris);
        for declaration in tree.element(root).map_or(&[][..], |element| &element.declarations) {
            scope.declare(&declaration.prefix, declaration.uri.clone());
        }
        Ok(Patch { tree, scope, operations })
    }

    /// Reads the operation that an element is.
    fn operation(&mut self, id: NodeId) -> Result<Operation, Rejection> {
        let Some(element) = self.tree.element(id) else {
            return Err(invalid_format("it is no element"));
        };
        for declaration in &element.declarations {
            self.scope.declare(&declaration.prefix, declaration.uri.clone());
        }
        let operation = Attributes { element, scope: &self.scope }.operation(id, &self.tree);
        for declaration in &element.declarations {
            self.scope.undeclare(&declaration.prefix);
        }
        operation
    }

    /// Adds the number and the name of the operation to a rejection.
    fn locate(&self, rejection: Rejection, at: usize, element: NodeId) -> Rejection {
        let name = self.tree.element(element).map_or("", |element| element.name.local());
        let detail = format!("operation {} ({}): {}", at + 1, super::quote(name), rejection.detail);
        Rejection { detail, ..rejection }
    }
}

/// The attributes of an operation.
struct Attributes<'a> {
    element: &'a Element,
    scope: &'a Scope,
}

impl Attributes<'_> {
    fn operation(&self, id: NodeId, patch: &Tree) -> Result<Operation, Rejection> {
        let name = self.element.name.local();
        let action = match name {
            "add" => {
                self.allow(&["sel", "pos", "type"])?;
                self.add()?
            }
            "replace" => {
                self.allow(&["sel"])?;
                Action::Replace
            }
            "remove" => {
                self.allow(&["sel", "ws"])?;
                content::expect_none(patch, id)?;
                Action::Remove(self.white_space()?)
            }
            _ => return Err(invalid_format("an operation is add, replace or remove")),
        };
        let text = self.get("sel").ok_or_else(|| invalid_format("it has no attribute 'sel'"))?;
        let selector = Selector::parse(text, &|prefix| self.scope.resolve(prefix))?;
        let operation = Operation { selector, action, element: id };
        operation.check_target()?;
        Ok(operation)
    }

    fn add(&self) -> Result<Action, Rejection> {
        let place = match self.get("pos") {
            None => Place::Append,
            Some("prepend") => Place::Prepend,
            Some("before") => Place::Before,
            Some("after") => Place::After,
            Some(other) => return Err(invalid_value("pos", other)),
        };
        let Some(added) = self.get("type") else { return Ok(Action::Add(place)) };
        let action = if let Some(name) = added.strip_prefix('@') {
            self.added_attribute(name, added)?
        } else {
            match added.strip_prefix("namespace::") {
                Some(prefix) if names::is_ncname(prefix) => Action::AddNamespace(prefix.into()),
                _ => return Err(invalid_value("type", added)),
            }
        };
        if self.get("pos").is_some() {
            return Err(invalid_directive("'pos' has no meaning beside 'type'"));
        }
        Ok(action)
    }

    fn added_attribute(&self, name: &str, value: &str) -> Result<Action, Rejection> {
        let (prefix, local) = names::split(name).ok_or_else(|| invalid_value("type", value))?;
        let uri: Option<Binding> = match (prefix, local) {
            // Written out, it would declare a namespace.
            ("", "xmlns") => return Err(invalid_value("type", value)),
            ("", _) => Some(None),
            ("xmlns", _) => None,
            (prefix, _) => self.scope.resolve(prefix),
        };
        let Some(uri) = uri else {
            let detail = format!("the patch does not declare the prefix {}", super::quote(prefix));
            return Err(Rejection::new(Reason::INVALID_NAMESPACE_PREFIX, detail));
        };
        let name = QualifiedName::new(prefix, local, uri);
        if is_xml_id(&name) {
            return Err(no_xml_id());
        }
        Ok(Action::AddAttribute(name))
    }

    fn white_space(&self) -> Result<WhiteSpace, Rejection> {
        match self.get("ws") {
            None => Ok(WhiteSpace::default()),
            Some("before") => Ok(WhiteSpace { before: true, after: false }),
            Some("after") => Ok(WhiteSpace { before: false, after: true }),
            Some("both") => Ok(WhiteSpace { before: true, after: true }),
            Some(other) => Err(invalid_value("ws", other)),
        }
    }

    /// The value of an attribute without namespace.
    fn get(&self, name: &str) -> Option<&str> {
        let mut attributes = self.element.attributes.iter();
        attributes
            .find(|attribute| attribute.name.as_str() == name)
            .map(|attribute| &*attribute.value)
    }

    /// Refuses attributes that the operation does not have. Attributes of other namespaces are left alone.
    fn allow(&self, allowed: &[&str]) -> Result<(), Rejection> {
        let names = self.element.attributes.iter().map(|attribute| &attribute.name);
        let mut own = names.filter(|name| name.prefix().is_empty());
        match own.find(|name| !allowed.contains(&name.local())) {
            Some(name) => {
                let name = super::quote(name.local());
                Err(invalid_format(format!("it has an unknown attribute {name}")))
            }
            None => Ok(()),
        }
    }
}

impl Operation {
    /// Checks that the action can be done to nodes of the kind that the selector finds.
    fn check_target(&self) -> Result<(), Rejection> {
        match (&self.action, self.selector.target()) {
            (
                Action::Add(_) | Action::AddAttribute(_) | Action::AddNamespace(_),
                Some(NodeTest::Attribute(_) | NodeTest::Namespace(_)),
            ) => {
                let detail = "nothing can be added to an attribute or a namespace";
                Err(Rejection::new(Reason::INVALID_ATTRIBUTE_VALUE, detail))
            }
            (
                Action::Remove(WhiteSpace { before, after }),
                Some(NodeTest::Attribute(_) | NodeTest::Namespace(_) | NodeTest::Text),
            ) if *before || *after => {
                Err(invalid_directive("'ws' is for elements, comments and processing instructions"))
            }
            (Action::Replace, Some(NodeTest::Attribute(name))) if is_xml_id(name) => {
                Err(no_xml_id())
            }
            _ => Ok(()),
        }
    }
}

fn is_xml_id(name: &QualifiedName) -> bool {
    name.uri.as_deref() == Some(XML_NAMESPACE) && name.local() == "id"
}

fn no_xml_id() -> Rejection {
    Rejection::new(
        Reason::UNSUPPORTED_XML_ID,
        "xml:id is not set: its values would have to be unique",
    )
}

fn invalid_format(detail: impl Into<String>) -> Rejection {
    Rejection::new(Reason::INVALID_DIFF_FORMAT, detail)
}

fn invalid_value(attribute: &str, value: &str) -> Rejection {
    let detail = format!("'{attribute}' cannot be {}", super::quote(value));
    Rejection::new(Reason::INVALID_ATTRIBUTE_VALUE, detail)
}

fn invalid_directive(detail: impl Into<String>) -> Rejection {
    Rejection::new(Reason::INVALID_PATCH_DIRECTIVE, detail)
}
