//! Reads a tree from text, by the events of the parser.
//!
//! The parser runs without namespaces: it would copy a namespace name with a reference in it to every element, which
//! makes gigabytes of a megabyte. Namespaces are resolved here.

use super::names::{self, Binding, QualifiedName, Scope, Uris};
use super::scan;
use super::tree::{Attribute, Declaration, Element, Instruction, NodeId, NodeKind, Tree};
use crate::{Reason, Rejection};
use std::borrow::Cow;
use uppsala::{PullEvent, PullParser, XmlDeclaration};

type RawDeclarations<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Reads a document of at most this depth. Its namespace names go to `uris`.
pub(super) fn read(bytes: &[u8], max_depth: usize, uris: &mut Uris) -> Result<Tree, Rejection> {
    let text = scan::scan(bytes, max_depth)?;
    let parser = PullParser::with_namespace_aware(&text, false)
        .with_max_depth(max_depth as u32)
        .with_forbid_dtd(true)
        .with_forbid_entities(true);
    let mut reader = Reader { tree: Tree::new(), scope: Scope::new(uris), uris, open: Vec::new() };
    for event in parser {
        reader.event(event.map_err(|error| malformed(shorten(error.to_string())))?)?;
    }
    reader.tree.count_size();
    Ok(reader.tree)
}

/// A tree that grows by events.
struct Reader<'u> {
    tree: Tree,
    uris: &'u mut Uris,
    scope: Scope,
    /// The elements that have not ended yet.
    open: Vec<NodeId>,
}

impl Reader<'_> {
    fn event(&mut self, event: PullEvent<'_>) -> Result<(), Rejection> {
        match event {
            PullEvent::XmlDeclaration(declaration) => {
                self.tree.xml_declaration = xml_declaration(&declaration)?.into();
            }
            PullEvent::StartElement { name, attributes, namespace_declarations, .. } => {
                let declarations = self.declare(namespace_declarations)?;
                let name = self.resolve(&name.local_name, false)?;
                let mut resolved: Vec<Attribute> = Vec::with_capacity(attributes.len());
                for attribute in attributes {
                    let name = self.resolve(&attribute.name.local_name, true)?;
                    // The parser has compared the names as they are written.
                    if !name.prefix().is_empty()
                        && resolved.iter().any(|other| other.name.is_same(&name))
                    {
                        let name = super::quote(name.local());
                        return Err(malformed(format!("two attributes have the name {name}")));
                    }
                    resolved.push(Attribute { name, value: attribute.value.into() });
                }
                let element = Element { name, declarations, attributes: resolved };
                let id = self.append(NodeKind::Element(Box::new(element)));
                self.open.push(id);
            }
            PullEvent::EndElement { .. } => self.end(),
            PullEvent::Text { content, .. } => {
                self.append(NodeKind::Text(content.into()));
            }
            PullEvent::CData { content, .. } => {
                self.append(NodeKind::CData(content.into()));
            }
            PullEvent::Comment { content, .. } => {
                self.append(NodeKind::Comment(content.into()));
            }
            PullEvent::ProcessingInstruction { pi, .. } => {
                let data = pi.data.unwrap_or_default().into();
                let instruction = Instruction { target: pi.target.into(), data };
                self.append(NodeKind::Instruction(Box::new(instruction)));
            }
            // The scan refuses a DOCTYPE, and a parser without namespaces reports none.
            PullEvent::Doctype(_) | PullEvent::StartNamespace { .. } | PullEvent::EndNamespace => {}
        }
        Ok(())
    }

    fn append(&mut self, kind: NodeKind) -> NodeId {
        let id = self.tree.add(kind);
        let parent = self.open.last().copied().unwrap_or(NodeId::DOCUMENT);
        self.tree.attach(id, parent, None);
        id
    }

    fn declare(&mut self, raw: RawDeclarations<'_>) -> Result<Vec<Declaration>, Rejection> {
        let mut declarations = Vec::with_capacity(raw.len());
        for (prefix, uri) in raw {
            let binding = self.uris.binding(&uri);
            if binding.is_none() && !prefix.is_empty() {
                let prefix = super::quote(&prefix);
                return Err(malformed(format!("the prefix {prefix} is bound to no namespace")));
            }
            self.scope.declare(&prefix, binding.clone());
            declarations.push(Declaration { prefix: prefix.into(), uri: binding });
        }
        Ok(declarations)
    }

    fn end(&mut self) {
        let Some(element) = self.open.pop().and_then(|id| self.tree.element(id)) else { return };
        for declaration in &element.declarations {
            self.scope.undeclare(&declaration.prefix);
        }
    }

    fn resolve(&self, name: &str, is_attribute: bool) -> Result<QualifiedName, Rejection> {
        let quoted = || super::quote(name);
        let (prefix, local) = names::split(name)
            .ok_or_else(|| malformed(format!("{} is no name with namespaces", quoted())))?;
        let binding: Option<Binding> = match prefix {
            "" if is_attribute => Some(None),
            // It can never be declared.
            "xmlns" => None,
            prefix => self.scope.resolve(prefix),
        };
        let uri = binding
            .ok_or_else(|| malformed(format!("the prefix of {} is not declared", quoted())))?;
        Ok(QualifiedName::new(prefix, local, uri))
    }
}

/// The XML declaration as it is written back, if it says UTF-8.
fn xml_declaration(declaration: &XmlDeclaration<'_>) -> Result<String, Rejection> {
    let mut text = format!("<?xml version=\"{}\"", declaration.version);
    if let Some(encoding) = &declaration.encoding {
        if !encoding.eq_ignore_ascii_case("utf-8") {
            let detail =
                format!("its declaration says {}; only UTF-8 is read", super::quote(encoding));
            return Err(Rejection::new(Reason::INVALID_CHARACTER_SET, detail));
        }
        text.push_str(&format!(" encoding=\"{encoding}\""));
    }
    if let Some(standalone) = declaration.standalone {
        text.push_str(if standalone { " standalone=\"yes\"" } else { " standalone=\"no\"" });
    }
    text.push_str("?>");
    Ok(text)
}

fn malformed(detail: impl Into<String>) -> Rejection {
    Rejection::new(Reason::MALFORMED, detail)
}

/// The parser's message, which may quote a name of any length.
fn shorten(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(3 * super::MAX_QUOTE) {
        message.truncate(end);
        message.push('…');
    }
    message
}
