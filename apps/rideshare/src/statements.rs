//! The tables, and the SQL of requests that name tables and columns.
//!
//! Names come from this file alone: a request can only choose among them. Its values are bound.

use consort_client::SqlStatement;
use serde_json::Value;

use crate::conditions::Condition;

/// A table of `schema/01-tables.sql`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    name: &'static str,
    columns: &'static [&'static str],
    /// What identifies a row, and orders the rows of an answer.
    key: &'static str,
}

/// The rows that others refer to come last, so that emptying the tables in this order deletes few rows at a time.
pub(crate) const TABLES: [Table; 3] = [
    Table { name: "riders", columns: &["rideId", "username"], key: "rowid" },
    Table {
        name: "rides",
        columns: &["rideId", "created_by", "timestamp", "source", "destination"],
        key: "rideId",
    },
    Table { name: "users", columns: &["username", "password"], key: "username" },
];

impl Table {
    /// The table with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Table> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// The columns with these names. Gives nothing if there are none, or if one does not exist or comes twice.
    pub(crate) fn columns(&self, names: &[String]) -> Option<Vec<&'static str>> {
        let column = |name: &String| self.columns.iter().copied().find(|column| column == name);
        let columns: Vec<&str> = names.iter().map(column).collect::<Option<_>>()?;
        let twice = (1..columns.len()).any(|at| columns[..at].contains(&columns[at]));
        (!columns.is_empty() && !twice).then_some(columns)
    }

    /// Inserts a row.
    pub(crate) fn insert(&self, columns: &[&'static str], values: Vec<Value>) -> SqlStatement {
        let marks = vec!["?"; columns.len()].join(", ");
        let sql = format!("INSERT INTO {} ({}) VALUES ({marks})", self.name, columns.join(", "));
        values.into_iter().fold(SqlStatement::new(sql), SqlStatement::bind)
    }

    /// Reads these columns of the rows that fulfil all conditions. Gives nothing if a column does not exist.
    pub(crate) fn select(
        &self,
        columns: &[&'static str],
        conditions: &[Condition<'_>],
    ) -> Option<SqlStatement> {
        let (name, key, columns) = (self.name, self.key, columns.join(", "));
        let filter = self.filter(conditions)?;
        let sql = format!("SELECT {columns} FROM {name} WHERE {filter} ORDER BY {key}");
        Some(bind(sql, conditions))
    }

    /// Deletes the rows that fulfil all conditions. Gives nothing if a column does not exist.
    pub(crate) fn delete(&self, conditions: &[Condition<'_>]) -> Option<SqlStatement> {
        let sql = format!("DELETE FROM {} WHERE {}", self.name, self.filter(conditions)?);
        Some(bind(sql, conditions))
    }

    /// Deletes so many rows, whichever they are.
    pub(crate) fn delete_some(&self, most: u64) -> SqlStatement {
        let Table { name, key, .. } = self;
        let sql = format!("DELETE FROM {name} WHERE {key} IN (SELECT {key} FROM {name} LIMIT ?)");
        SqlStatement::new(sql).bind(most)
    }

    fn filter(&self, conditions: &[Condition<'_>]) -> Option<String> {
        let term = |(name, _): &Condition<'_>| {
            let column = self.columns.iter().find(|column| *column == name)?;
            Some(format!("{column} = ?"))
        };
        Some(conditions.iter().map(term).collect::<Option<Vec<_>>>()?.join(" AND "))
    }
}

/// Values of conditions are texts. SQLite compares a text with a column of numbers as a number if it is written like
/// one, and otherwise finds no row.
fn bind(sql: String, conditions: &[Condition<'_>]) -> SqlStatement {
    let statement = SqlStatement::new(sql);
    conditions.iter().fold(statement, |statement, (_, value)| statement.bind(*value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(name: &str) -> &'static Table {
        Table::named(name).unwrap()
    }

    fn written(statement: Option<SqlStatement>) -> Value {
        serde_json::to_value(statement).unwrap()
    }

    #[test]
    fn only_the_three_tables_exist() {
        for name in ["users", "rides", "riders"] {
            assert_eq!(table(name).name, name);
        }
        for name in ["", "Users", "sqlite_master", "users;", "_consort_keys", "users u"] {
            assert_eq!(Table::named(name), None, "{name}");
        }
    }

    #[test]
    fn columns_exist_and_come_once() {
        let rides = table("rides");
        for (names, found) in [
            (vec!["rideId"], true),
            (vec!["destination", "source", "timestamp", "created_by", "rideId"], true),
            (vec![], false),
            (vec!["rideId", "rideId"], false),
            (vec!["rideid"], false),
            (vec!["rowid"], false),
            (vec!["*"], false),
            (vec!["rideId", "1; DROP TABLE users"], false),
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(rides.columns(&names).is_some(), found, "{names:?}");
        }
    }

    #[test]
    fn statements_name_columns_and_bind_values() {
        let insert = table("users").insert(&["password", "username"], vec![json!(1), json!(null)]);
        let sql = "INSERT INTO users (password, username) VALUES (?, ?)";
        assert_eq!(written(Some(insert)), json!([sql, 1, null]));

        let conditions = [("source", "1' OR 1=1"), ("rideId", "2")];
        let select = table("rides").select(&["timestamp", "rideId"], &conditions);
        let sql =
            "SELECT timestamp, rideId FROM rides WHERE source = ? AND rideId = ? ORDER BY rideId";
        assert_eq!(written(select), json!([sql, "1' OR 1=1", "2"]));

        let delete = table("riders").delete(&[("username", "ann")]);
        assert_eq!(written(delete), json!(["DELETE FROM riders WHERE username = ?", "ann"]));
        assert_eq!(table("riders").delete(&[("1=1 --", "")]), None);
        assert_eq!(table("users").select(&["username"], &[("source", "1")]), None);

        let some = table("riders").delete_some(9);
        let sql = "DELETE FROM riders WHERE rowid IN (SELECT rowid FROM riders LIMIT ?)";
        assert_eq!(written(Some(some)), json!([sql, 9]));
    }

    #[test]
    fn the_tables_are_those_of_the_schema() {
        let schema = include_str!("../schema/01-tables.sql");
        for table in &TABLES {
            let begin = format!("CREATE TABLE {} (", table.name);
            let (_, rest) = schema.split_once(&begin).unwrap();
            let (body, _) = rest.split_once("\n);").unwrap();
            let names = body.lines().filter_map(|line| line.split_whitespace().next());
            let names: Vec<&str> = names.filter(|name| *name != "UNIQUE").collect();
            assert_eq!(names, table.columns);
        }
    }
}
