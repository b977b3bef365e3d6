//! The content of operations: which kinds of nodes they bring.

use super::tree::{NodeId, NodeKind, Tree};
use crate::{Reason, Rejection};

/// Whether a node is text of nothing but white space.
pub(super) fn is_white(tree: &Tree, id: NodeId) -> bool {
    match tree.kind(id) {
        NodeKind::Text(text) | NodeKind::CData(text) => {
            text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        }
        _ => false,
    }
}

/// Refuses content where there must be none. White space and comments are no content.
pub(super) fn expect_none(patch: &Tree, operation: NodeId) -> Result<(), Rejection> {
    let is_empty = patch
        .children(operation)
        .all(|id| is_white(patch, id) || matches!(patch.kind(id), NodeKind::Comment(_)));
    if is_empty {
        return Ok(());
    }
    Err(Rejection::new(Reason::INVALID_DIFF_FORMAT, "it removes a node and cannot have content"))
}

/// The content of an operation that brings a text.
pub(super) fn text(patch: &Tree, operation: NodeId) -> Result<String, Rejection> {
    let mut text = String::new();
    for id in patch.children(operation) {
        match patch.kind(id) {
            NodeKind::Text(part) | NodeKind::CData(part) => text.push_str(part),
            other => return Err(wrong_kind("text", other)),
        }
    }
    Ok(text)
}

/// The nodes of an operation that brings nothing but text.
pub(super) fn text_nodes(patch: &Tree, operation: NodeId) -> Result<Vec<NodeId>, Rejection> {
    let nodes: Vec<NodeId> = patch.children(operation).collect();
    match nodes.iter().find(|id| !patch.is_text(**id)) {
        Some(id) => Err(wrong_kind("text", patch.kind(*id))),
        None => Ok(nodes),
    }
}

/// The one node of an operation, which has to be of the same kind as another. White space around it is layout.
pub(super) fn single(
    patch: &Tree,
    operation: NodeId,
    like: &NodeKind,
) -> Result<NodeId, Rejection> {
    let nodes: Vec<NodeId> = patch.children(operation).filter(|id| !is_white(patch, *id)).collect();
    let expected = kind_name(like);
    let [node] = nodes[..] else {
        let detail =
            format!("the content has to be one {expected}, and it is {} nodes", nodes.len());
        return Err(Rejection::new(Reason::INVALID_NODE_TYPES, detail));
    };
    if std::mem::discriminant(patch.kind(node)) == std::mem::discriminant(like) {
        return Ok(node);
    }
    Err(wrong_kind(expected, patch.kind(node)))
}

/// The nodes of an operation that can stand beside the root element. White space there is not kept.
pub(super) fn beside_root(patch: &Tree, operation: NodeId) -> Result<Vec<NodeId>, Rejection> {
    let mut nodes = Vec::new();
    for id in patch.children(operation) {
        match patch.kind(id) {
            NodeKind::Element(_) => {
                let detail = "a document has one root element, and no element beside it";
                return Err(Rejection::new(Reason::INVALID_ROOT_ELEMENT_OPERATION, detail));
            }
            NodeKind::Comment(_) | NodeKind::Instruction(_) => nodes.push(id),
            _ if is_white(patch, id) => {}
            _ => {
                let detail = "a document has no text beside its root element";
                return Err(Rejection::new(Reason::INVALID_XML_PROLOG_OPERATION, detail));
            }
        }
    }
    Ok(nodes)
}

fn wrong_kind(expected: &str, found: &NodeKind) -> Rejection {
    let detail = format!("the content has to be {expected}, and it is {}", kind_name(found));
    Rejection::new(Reason::INVALID_NODE_TYPES, detail)
}

fn kind_name(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Free => "nothing",
        NodeKind::Document => "document",
        NodeKind::Element(_) => "element",
        NodeKind::Text(_) | NodeKind::CData(_) => "text",
        NodeKind::Comment(_) => "comment",
        NodeKind::Instruction(_) => "processing instruction",
    }
}
