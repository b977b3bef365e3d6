//! The bodies of `db/write` and `db/read`.

use consort_client::SqlStatement;
use serde_json::Value;

use crate::conditions::split_conditions;
use crate::http::{JsonFields, Problem};
use crate::statements::Table;

/// A query with the columns of its answer.
#[derive(Debug)]
pub(crate) struct TableQuery {
    pub(crate) statement: SqlStatement,
    pub(crate) columns: Vec<&'static str>,
}

/// Reads the body of `db/write`: it inserts a row or deletes rows.
pub(crate) fn parse_write(body: &[u8]) -> Result<SqlStatement, Problem> {
    let fields = JsonFields::parse(body)?;
    let table = table(&fields)?;
    if fields.optional("isDelete", "true or false")?.unwrap_or(false) {
        let condition = fields.text("where")?;
        return split_conditions(&condition)
            .and_then(|conditions| table.delete(&conditions))
            .ok_or_else(bad_condition);
    }
    let columns = columns(&fields, table)?;
    let values: Vec<Value> = fields.required("insert", "a list of values")?;
    if values.len() != columns.len() {
        return Err(Problem::bad_request("'insert' must be as long as 'columns'"));
    }
    let plain = |value: &Value| value.is_string() || value.is_number() || value.is_null();
    if !values.iter().all(plain) {
        return Err(Problem::bad_request("'insert' must have texts, numbers and null alone"));
    }
    Ok(table.insert(&columns, values))
}

/// Reads the body of `db/read`.
pub(crate) fn parse_read(body: &[u8]) -> Result<TableQuery, Problem> {
    let fields = JsonFields::parse(body)?;
    let table = table(&fields)?;
    let columns = columns(&fields, table)?;
    let condition = fields.text("where")?;
    let statement = split_conditions(&condition)
        .and_then(|conditions| table.select(&columns, &conditions))
        .ok_or_else(bad_condition)?;
    Ok(TableQuery { statement, columns })
}

fn table(fields: &JsonFields) -> Result<&'static Table, Problem> {
    Table::named(&fields.text("table")?)
        .ok_or_else(|| Problem::bad_request("'table' must be users, rides or riders"))
}

fn columns(fields: &JsonFields, table: &Table) -> Result<Vec<&'static str>, Problem> {
    let names: Vec<String> = fields.required("columns", "a list of names")?;
    table
        .columns(&names)
        .ok_or_else(|| Problem::bad_request("'columns' must name columns of the table, each once"))
}

fn bad_condition() -> Problem {
    Problem::bad_request("'where' must be column=value, or several of them joined by ' and '")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_write_inserts_a_row_or_deletes_rows() {
        let insert = "INSERT INTO users (username, password) VALUES (?, ?)";
        let columns = json!(["username", "password"]);
        for (body, statement) in [
            (
                json!({"table": "users", "columns": columns, "insert": ["ann", null]}),
                Some(json!([insert, "ann", null])),
            ),
            (
                json!({"table": "users", "columns": columns, "insert": [7, 0.5], "isDelete": false}),
                Some(json!([insert, 7, 0.5])),
            ),
            (
                json!({"table": "rides", "isDelete": true, "where": "rideId=7", "columns": 1}),
                Some(json!(["DELETE FROM rides WHERE rideId = ?", "7"])),
            ),
            (json!({"table": "users", "columns": columns, "insert": ["ann"]}), None),
            (json!({"table": "users", "columns": columns, "insert": ["ann", true]}), None),
            (json!({"table": "users", "columns": columns, "insert": ["ann", ["x"]]}), None),
            (json!({"table": "users", "columns": columns, "insert": ["ann", {"blob": ""}]}), None),
            (json!({"table": "users", "columns": columns, "insert": "ann"}), None),
            (json!({"table": "users", "columns": columns}), None),
            (json!({"table": "users", "columns": [], "insert": []}), None),
            (json!({"table": "users", "columns": "username", "insert": ["ann"]}), None),
            (json!({"table": "users", "columns": [1], "insert": ["ann"]}), None),
            (json!({"table": "users", "insert": ["ann"]}), None),
            (json!({"table": "cars", "columns": columns, "insert": ["ann", "x"]}), None),
            (json!({"columns": columns, "insert": ["ann", "x"]}), None),
            (json!({"table": "users", "isDelete": true}), None),
            (json!({"table": "users", "isDelete": true, "where": ""}), None),
            (json!({"table": "users", "isDelete": true, "where": null}), None),
            (json!({"table": "users", "isDelete": true, "where": "age=7"}), None),
            (json!({"table": "users", "isDelete": "true", "where": "username=ann"}), None),
            (json!([]), None),
        ] {
            let parsed = parse_write(body.to_string().as_bytes());
            let written = parsed.map(|parsed| serde_json::to_value(parsed).unwrap()).ok();
            assert_eq!(written, statement, "{body}");
        }
    }

    #[test]
    fn a_read_needs_a_table_columns_and_a_condition() {
        for (body, sql) in [
            (
                json!({"table": "riders", "columns": ["username"], "where": "rideId=7"}),
                Some("SELECT username FROM riders WHERE rideId = ? ORDER BY rowid"),
            ),
            (json!({"table": "riders", "columns": ["username"]}), None),
            (json!({"table": "riders", "columns": ["username"], "where": "rowid=7"}), None),
            (json!({"table": "riders", "columns": ["*"], "where": "rideId=7"}), None),
            (json!({"table": "riders", "columns": [], "where": "rideId=7"}), None),
            (json!({"table": "riders", "where": "rideId=7"}), None),
            (json!({"table": "riders", "columns": ["username"], "where": 7}), None),
        ] {
            let parsed = parse_read(body.to_string().as_bytes()).ok();
            let parsed = parsed.map(|query| serde_json::to_value(query.statement).unwrap());
            assert_eq!(parsed, sql.map(|sql| json!([sql, "7"])), "{body}");
        }
    }
}
