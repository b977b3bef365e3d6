//! The documents and the pieces, the same on both sides: 24 members of 64 characters, of which a piece replaces one. XML
//! documents have 24 such elements.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::json;

use super::bulk;
use super::node::Node;

/// Documents that the pieces are spread over.
pub(super) const DOCUMENTS: usize = 10_000;

/// Members of a document. With names and quotes they make 2 KiB.
pub(super) const MEMBERS: usize = 24;

/// The collection.
pub(super) const COLLECTION: &str = "bench";

/// The collection of XML documents.
pub(super) const XML: &str = "xml";

/// The id of a document.
pub(super) fn id(number: usize) -> String {
    format!("doc-{number}")
}

/// 64 characters.
fn value() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}

/// A merge patch of one member.
pub(super) fn patch() -> String {
    let member = rand::random_range(1..=MEMBERS);
    format!("{{\"field{member}\":\"{}\"}}", value())
}

/// A piece as a line of a bulk request, for a document picked at random.
pub(super) fn push_line(text: &mut String) {
    let id = id(rand::random_range(1..=DOCUMENTS));
    let _ = writeln!(text, "{{\"id\":\"{id}\",\"form\":\"merge-patch\",\"piece\":{}}}", patch());
}

/// Stores all documents.
pub(super) async fn put_all(node: &Node) -> Result<()> {
    let mut text = String::new();
    for number in 1..=DOCUMENTS {
        let (id, document) = (id(number), whole());
        let _ = writeln!(text, "{{\"id\":\"{id}\",\"form\":\"whole\",\"piece\":{document}}}");
    }
    bulk::post(node, vec![text]).await?;
    node.until_applied(DOCUMENTS as u64).await
}

/// An XML patch of one element, for a document picked at random.
pub(super) fn push_xml_line(text: &mut String) {
    let (id, member) = (id(rand::random_range(1..=DOCUMENTS)), rand::random_range(1..=MEMBERS));
    let patch =
        format!("<diff><replace sel=\"doc/field{member}/text()\">{}</replace></diff>", value());
    let _ = writeln!(text, "{}", json!({"id": id, "form": "xml-patch", "piece": patch}));
}

/// Stores all XML documents.
pub(super) async fn put_all_xml(node: &Node) -> Result<()> {
    let mut text = String::new();
    for number in 1..=DOCUMENTS {
        let element = |member| format!("<field{member}>{}</field{member}>", value());
        let members: String = (1..=MEMBERS).map(element).collect();
        let (id, document) = (id(number), format!("<doc>{members}</doc>"));
        let _ = writeln!(text, "{}", json!({"id": id, "form": "whole", "piece": document}));
    }
    bulk::post_to(XML, node, vec![text]).await?;
    node.until_applied(DOCUMENTS as u64).await
}

/// A whole document as JSON.
pub(super) fn whole() -> String {
    let members: Vec<String> =
        (1..=MEMBERS).map(|member| format!("\"field{member}\":\"{}\"", value())).collect();
    format!("{{{}}}", members.join(","))
}
