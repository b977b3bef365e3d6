//! Serialises a document, and counts how many bytes that takes.

use super::tree::{Attribute, Declaration, Element, NodeId, NodeKind, Tree};

/// Where a text stands, which decides on the characters that are escaped.
#[derive(Clone, Copy)]
enum Place {
    Content,
    Value,
}

/// The document as text.
pub(super) fn document(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::with_capacity(tree.size());
    out.extend_from_slice(tree.xml_declaration.as_bytes());
    let mut next = tree.first(NodeId::DOCUMENT);
    while let Some(id) = next {
        open(tree, id, &mut out);
        next = tree.first(id).or_else(|| close(tree, id, &mut out));
    }
    debug_assert_eq!(out.len(), tree.size(), "the size is counted as it is written");
    out
}

/// Writes the end of a node and of all nodes that end with it, and finds the node behind.
fn close(tree: &Tree, mut id: NodeId, out: &mut Vec<u8>) -> Option<NodeId> {
    loop {
        if let (Some(element), Some(_)) = (tree.element(id), tree.first(id)) {
            out.extend_from_slice(b"</");
            out.extend_from_slice(element.name.as_str().as_bytes());
            out.push(b'>');
        }
        if let Some(next) = tree.next(id) {
            return Some(next);
        }
        id = tree.parent(id)?;
    }
}

/// Writes a node up to its first child.
fn open(tree: &Tree, id: NodeId, out: &mut Vec<u8>) {
    match tree.kind(id) {
        NodeKind::Free | NodeKind::Document => {}
        NodeKind::Element(element) => {
            tag(element, out);
            out.extend_from_slice(if tree.first(id).is_some() { b">" } else { b"/>" });
        }
        NodeKind::Text(text) => escape(text, Place::Content, out),
        NodeKind::CData(text) => enclose(b"<![CDATA[", text, b"]]>", out),
        NodeKind::Comment(text) => enclose(b"<!--", text, b"-->", out),
        NodeKind::Instruction(instruction) => {
            enclose(b"<?", &instruction.target, b"", out);
            if !instruction.data.is_empty() {
                enclose(b" ", &instruction.data, b"", out);
            }
            out.extend_from_slice(b"?>");
        }
    }
}

fn tag(element: &Element, out: &mut Vec<u8>) {
    out.push(b'<');
    out.extend_from_slice(element.name.as_str().as_bytes());
    for Declaration { prefix, uri } in &element.declarations {
        out.extend_from_slice(if prefix.is_empty() { b" xmlns" } else { b" xmlns:" });
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(b"=\"");
        escape(uri.as_deref().unwrap_or_default(), Place::Value, out);
        out.push(b'"');
    }
    for Attribute { name, value } in &element.attributes {
        enclose(b" ", name.as_str(), b"=\"", out);
        escape(value, Place::Value, out);
        out.push(b'"');
    }
}

fn enclose(before: &[u8], text: &str, after: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(before);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(after);
}

fn escape(text: &str, place: Place, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(escaped) = escaped(*byte, place) {
            out.extend_from_slice(&bytes[written..at]);
            out.extend_from_slice(escaped);
            written = at + 1;
        }
    }
    out.extend_from_slice(&bytes[written..]);
}

/// The escapes of canonical XML: a parser would read the characters themselves as others, or as markup.
fn escaped(byte: u8, place: Place) -> Option<&'static [u8]> {
    match (byte, place) {
        (b'&', _) => Some(b"&amp;"),
        (b'<', _) => Some(b"&lt;"),
        (b'>', Place::Content) => Some(b"&gt;"),
        (b'\r', _) => Some(b"&#xD;"),
        (b'"', Place::Value) => Some(b"&quot;"),
        (b'\t', Place::Value) => Some(b"&#x9;"),
        (b'\n', Place::Value) => Some(b"&#xA;"),
        _ => None,
    }
}

fn escaped_size(text: &str, place: Place) -> usize {
    let escapes = text.bytes().filter_map(|byte| escaped(byte, place));
    text.len() + escapes.map(|escape| escape.len() - 1).sum::<usize>()
}

/// The size of a node without its children.
pub(super) fn own_size(kind: &NodeKind, has_children: bool) -> usize {
    match kind {
        NodeKind::Free | NodeKind::Document => 0,
        // `<a/>` or `<a></a>`.
        NodeKind::Element(element) => {
            tag_size(element) + if has_children { 4 + element.name.as_str().len() } else { 2 }
        }
        NodeKind::Text(text) => escaped_size(text, Place::Content),
        NodeKind::CData(text) => text.len() + "<![CDATA[]]>".len(),
        NodeKind::Comment(text) => text.len() + "<!---->".len(),
        NodeKind::Instruction(instruction) => {
            let space = usize::from(!instruction.data.is_empty());
            instruction.target.len() + space + instruction.data.len() + "<??>".len()
        }
    }
}

/// The size of an element's tag, without its end.
fn tag_size(element: &Element) -> usize {
    let declarations = element.declarations.iter().map(declaration_size);
    let attributes = element.attributes.iter().map(attribute_size);
    1 + element.name.as_str().len() + declarations.sum::<usize>() + attributes.sum::<usize>()
}

pub(super) fn declaration_size(declaration: &Declaration) -> usize {
    let colon = usize::from(!declaration.prefix.is_empty());
    let uri = escaped_size(declaration.uri.as_deref().unwrap_or_default(), Place::Value);
    " xmlns=\"\"".len() + colon + declaration.prefix.len() + uri
}

pub(super) fn attribute_size(attribute: &Attribute) -> usize {
    " =\"\"".len() + attribute.name.as_str().len() + escaped_size(&attribute.value, Place::Value)
}
