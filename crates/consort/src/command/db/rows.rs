//! Rows of a query as a table for people, or as JSON for programs.

use serde_json::Value;

/// The widest cell of a table: longer texts are cut.
const CELL_MOST: usize = 80;

/// The rows of an answer as a table with a head.
pub(super) fn table(answer: &Value) -> String {
    let names = list(&answer["columns"]).map(|name| name.as_str().unwrap_or_default().to_owned());
    let head: Vec<String> = names.collect();
    let cells = |row: &Value| list(row).map(cell).collect::<Vec<String>>();
    let rows: Vec<Vec<String>> = list(&answer["rows"]).map(cells).collect();
    let all = || std::iter::once(&head).chain(&rows);
    let width = |at: usize| {
        all().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<String>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    all().map(line).collect()
}

/// The rows of an answer, each as a JSON list on a line of its own.
pub(super) fn lines(answer: &Value) -> String {
    list(&answer["rows"]).map(|row| format!("{row}\n")).collect()
}

/// How many rows an answer has.
pub(super) fn count(answer: &Value) -> usize {
    list(&answer["rows"]).count()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A value in a cell. Line ends and other characters that would move the cursor are shown, not sent to the terminal.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let shown: String = text
        .chars()
        .flat_map(|c| match c.is_control() {
            true => c.escape_default().collect::<Vec<char>>(),
            false => vec![c],
        })
        .collect();
    match shown.chars().count() > CELL_MOST {
        true => shown.chars().take(CELL_MOST - 1).chain(['…']).collect(),
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_stand_below_the_names_of_their_columns() {
        let answer = json!({
            "columns": ["id", "title", "data"],
            "rows": [[1, "größe", null], [22, "two\nlines", { "blob": "AA==" }]],
        });
        let expected = "\
id  title       data
1   größe       NULL
22  two\\nlines  {\"blob\":\"AA==\"}
";
        assert_eq!((table(&answer).as_str(), count(&answer)), (expected, 2));
        assert_eq!(
            lines(&answer),
            "[1,\"größe\",null]\n[22,\"two\\nlines\",{\"blob\":\"AA==\"}]\n"
        );
        assert_eq!(table(&json!({ "columns": ["a"], "rows": [] })), "a\n");
    }

    #[test]
    fn a_terminal_is_sent_no_control_characters_and_no_endless_cells() {
        let answer = json!({ "columns": ["a"], "rows": [["\u{1b}[2J"], ["x".repeat(200)]] });
        let shown = table(&answer);
        assert!(shown.contains("\\u{1b}[2J") && !shown.contains('\u{1b}'), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= CELL_MOST), "{shown}");
    }
}
