//! How two sets of definitions differ, in one line for each difference.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

type Definitions = BTreeMap<String, BTreeMap<String, Json>>;

/// The differences between this node's definitions and those of the cluster. Kinds come in the order of
/// their names; within a kind, names that this node has come first.
pub(super) fn list(here: &Definitions, cluster: &Definitions) -> Vec<String> {
    let mut lines = Vec::new();
    let none = BTreeMap::new();
    let kinds: BTreeSet<&String> = here.keys().chain(cluster.keys()).collect();
    for kind in kinds {
        let here = here.get(kind).unwrap_or(&none);
        let cluster = cluster.get(kind).unwrap_or(&none);
        for (name, definition) in here {
            let title = format!("{kind} '{name}'");
            match cluster.get(name) {
                Some(other) => compare(&title, "", Some(definition), Some(other), &mut lines),
                None => lines.push(format!("{title}: the cluster does not have it")),
            }
        }
        for name in cluster.keys().filter(|name| !here.contains_key(*name)) {
            lines.push(format!("{kind} '{name}': only the cluster has it"));
        }
    }
    lines
}

/// Compares two values, and the members of two objects one by one. `setting` is the path of members that
/// leads to the values, joined by dots.
fn compare(
    title: &str,
    setting: &str,
    here: Option<&Json>,
    cluster: Option<&Json>,
    lines: &mut Vec<String>,
) {
    if here == cluster {
        return;
    }
    if let (Some(Json::Object(here)), Some(Json::Object(cluster))) = (here, cluster) {
        let only_cluster = cluster.keys().filter(|member| !here.contains_key(*member));
        for member in here.keys().chain(only_cluster) {
            let path = match setting {
                "" => member.clone(),
                setting => format!("{setting}.{member}"),
            };
            compare(title, &path, here.get(member), cluster.get(member), lines);
        }
        return;
    }
    let setting = if setting.is_empty() { "it" } else { setting };
    let (here, cluster) = (shown(here), shown(cluster));
    lines.push(format!("{title}: {setting} is {here} here and {cluster} in the cluster"));
}

fn shown(value: Option<&Json>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(Json::String(text)) => format!("'{text}'"),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(kind: &str, name: &str, definition: Json) -> Definitions {
        BTreeMap::from([(kind.to_owned(), BTreeMap::from([(name.to_owned(), definition)]))])
    }

    #[test]
    fn every_difference_has_a_line_that_names_it() {
        let view = |definition| one("view", "x", definition);
        let cases: [(Definitions, Definitions, &[&str]); 11] = [
            (Definitions::new(), Definitions::new(), &[]),
            (view(json!({"a": "1", "b": "2"})), view(json!({"b": "2", "a": "1"})), &[]),
            (
                view(json!({"sum": "a"})),
                view(json!({"sum": "b"})),
                &["view 'x': sum is 'a' here and 'b' in the cluster"],
            ),
            (
                view(json!({"sum": "a"})),
                view(json!({})),
                &["view 'x': sum is 'a' here and not set in the cluster"],
            ),
            (
                view(json!({})),
                view(json!({"where": "a > 1"})),
                &["view 'x': where is not set here and 'a > 1' in the cluster"],
            ),
            (
                view(json!({"a": 1, "b": [1, 2], "c": true})),
                view(json!({"a": "1", "b": [2, 1], "c": null})),
                &[
                    "view 'x': a is 1 here and '1' in the cluster",
                    "view 'x': b is [1,2] here and [2,1] in the cluster",
                    "view 'x': c is true here and null in the cluster",
                ],
            ),
            (
                view(json!({"keep": {"age": "1d", "bytes": 7}})),
                view(json!({"keep": {"age": "2d", "bytes": 7}})),
                &["view 'x': keep.age is '1d' here and '2d' in the cluster"],
            ),
            (
                view(json!("a")),
                view(json!({})),
                &["view 'x': it is 'a' here and {} in the cluster"],
            ),
            (
                one("stream", "x", json!({})),
                Definitions::new(),
                &["stream 'x': the cluster does not have it"],
            ),
            (
                Definitions::new(),
                one("stream", "x", json!({})),
                &["stream 'x': only the cluster has it"],
            ),
            (
                // Of the same name, and yet another thing.
                one("stream", "x", json!({})),
                view(json!({})),
                &["stream 'x': the cluster does not have it", "view 'x': only the cluster has it"],
            ),
        ];
        for (here, cluster, expected) in cases {
            assert_eq!(list(&here, &cluster), expected, "{here:?}\n{cluster:?}");
        }
    }
}
