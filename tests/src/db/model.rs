//! A model of a database behind its HTTP API, for the tests of the trials themselves. Some answers say `not stored` or
//! `unknown`, as under faults. It keeps every promise, or breaks one on purpose, and then the trial must notice.

mod server;
mod tests;

use std::collections::{BTreeMap, HashMap};

use rand::Rng;
use rand::rngs::StdRng;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{Connection, Statement};
use serde_json::{Value, json};

use super::client::ERA;
use crate::lin::feed::{ChangedRow, FeedChange, FeedGroup};
use crate::lin::history::{Row, RowCell};

/// One in so many writes meets a fault.
const FAULT_ONE_IN: u32 = 12;

/// Every so many chances for a mistake, one is taken.
const MISTAKE_EVERY: u32 = 4;

/// A promise that the model breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// None.
    Nothing,
    /// An acknowledged write is lost.
    LoseWrites,
    /// A repeat with the same key takes effect again.
    ForgetKeys,
    /// A statement may change any number of rows.
    IgnoreExpectations,
    /// A strong read gets old rows, with their index.
    ReadStale,
    /// A strong read gets old rows, with the present index.
    NameWrongIndex,
    /// A write is refused, and takes effect.
    RefuseStored,
}

/// An answer: status and body.
type Answered = (u16, Value);

/// The database.
#[derive(Debug)]
pub(super) struct Model {
    connection: Connection,
    mistake: Mistake,
    chances: u32,
    random: StdRng,
    /// The rows of each table at the last index.
    tables: BTreeMap<String, BTreeMap<i64, Row>>,
    pub(super) groups: Vec<FeedGroup>,
    keys: HashMap<String, Answered>,
    /// Writes of unknown outcome that take effect later.
    late: Vec<(Value, Option<String>)>,
    /// The first answer to each read.
    old: HashMap<String, Value>,
}

impl Model {
    pub(super) fn new(schema: &str, mistake: Mistake, random: StdRng) -> Model {
        let connection = Connection::open_in_memory().expect("SQLite opens");
        connection.execute_batch(schema).expect("the schema is SQL");
        let tables = table_names(&connection).into_iter().map(|name| (name, BTreeMap::new()));
        let tables = tables.collect();
        let (groups, late) = (Vec::new(), Vec::new());
        let (keys, old) = (HashMap::new(), HashMap::new());
        Model { connection, mistake, chances: 0, random, tables, groups, keys, late, old }
    }

    /// Answers a write.
    pub(super) fn write(&mut self, body: &Value, key: Option<String>) -> Answered {
        if self.random.random() {
            for (statements, key) in std::mem::take(&mut self.late) {
                self.run(&statements, key);
            }
        }
        let statements = body["statements"].clone();
        if !self.random.random_ratio(1, FAULT_ONE_IN) {
            return self.run(&statements, key);
        }
        match self.random.random_range(0..3) {
            0 => problem(503, "db-no-worker", "not stored"),
            1 => {
                self.run(&statements, key);
                problem(503, "db-unknown-outcome", "unknown")
            }
            _ => {
                self.late.push((statements, key));
                problem(503, "db-unknown-outcome", "unknown")
            }
        }
    }

    /// Answers a read.
    pub(super) fn read(&mut self, body: &Value) -> Answered {
        let queries = body["queries"].as_array().expect("a list of queries");
        let results: Vec<Value> = queries.iter().map(|query| self.query(query)).collect();
        let mut answer = self.answer(self.index(), results);
        let old = self.old.entry(body.to_string()).or_insert_with(|| answer.clone()).clone();
        if body["consistency"] == "strong" && self.errs() {
            match self.mistake {
                Mistake::ReadStale => answer = old,
                Mistake::NameWrongIndex => answer["results"] = old["results"].clone(),
                _ => {}
            }
        }
        (200, answer)
    }

    /// Runs a write as one transaction.
    fn run(&mut self, statements: &Value, key: Option<String>) -> Answered {
        let known = key.as_ref().and_then(|key| self.keys.get(key));
        if let Some(answered) = known.filter(|_| self.mistake != Mistake::ForgetKeys) {
            return answered.clone();
        }
        self.connection.execute_batch("BEGIN").expect("a transaction begins");
        let mut results = Vec::new();
        for statement in statements.as_array().expect("a list of statements") {
            let Some(changes) = self.execute(statement) else {
                return self.undo("db-constraint");
            };
            let expected = statement.get("changes").and_then(Value::as_u64);
            if expected.is_some_and(|expected| expected != changes)
                && self.mistake != Mistake::IgnoreExpectations
            {
                return self.undo("db-expectation");
            }
            results.push(json!({"changes": changes, "last_id": null}));
        }
        if self.mistake == Mistake::LoseWrites && self.errs() {
            self.undo("");
            let answered = (200, self.answer(self.index() + 1, results));
            self.keys.extend(key.map(|key| (key, answered.clone())));
            return answered;
        }
        self.connection.execute_batch("COMMIT").expect("a transaction ends");
        let changes = self.changes();
        self.groups.push(FeedGroup { index: self.index() + 1, changes });
        if self.mistake == Mistake::RefuseStored && self.errs() {
            return problem(503, "db-no-worker", "not stored");
        }
        let answered = (200, self.answer(self.index(), results));
        self.keys.extend(key.map(|key| (key, answered.clone())));
        answered
    }

    /// The rows that the last transaction changed.
    fn changes(&mut self) -> Vec<FeedChange> {
        let mut changes = Vec::new();
        for (table, rows) in &mut self.tables {
            let mut statement = self.connection.prepare(&format!("SELECT * FROM {table}"));
            let now = all_rows(statement.as_mut().expect("a statement"));
            for (key, row) in &now {
                let after = match rows.get(key) {
                    None => ChangedRow::Added(row.clone()),
                    Some(before) if before == row => continue,
                    Some(_) => ChangedRow::Changed(row.iter().cloned().map(Some).collect()),
                };
                changes.push(FeedChange { table: table.clone(), key: *key, row: after });
            }
            *rows = now;
        }
        changes
    }

    fn undo(&self, kind: &str) -> Answered {
        self.connection.execute_batch("ROLLBACK").expect("a transaction is undone");
        problem(409, kind, "not stored")
    }

    /// The number of changed rows; `None` if a constraint fails.
    fn execute(&self, statement: &Value) -> Option<u64> {
        self.prepare(statement).raw_execute().ok().map(|changes| changes as u64)
    }

    fn query(&self, query: &Value) -> Value {
        let mut prepared = self.prepare(query);
        let columns = prepared.column_count();
        let mut rows = prepared.raw_query();
        let mut found = Vec::new();
        while let Some(row) = rows.next().expect("a query runs") {
            let cells = (0..columns).map(|column| match row.get(column).expect("a column") {
                SqlValue::Integer(integer) => json!(integer),
                SqlValue::Null => Value::Null,
                other => panic!("the workloads have no {other:?}"),
            });
            found.push(cells.collect::<Value>());
        }
        json!({"columns": columns, "rows": found})
    }

    /// A statement with its arguments: a list of SQL and values, or an object with `sql` and named values.
    fn prepare(&self, statement: &Value) -> Statement<'_> {
        let sql = statement.get("sql").unwrap_or(&statement[0]).as_str().expect("SQL");
        let mut prepared = self.connection.prepare(sql).expect("a statement");
        for (name, value) in statement["args"].as_object().into_iter().flatten() {
            let place = prepared.parameter_index(&format!(":{name}")).expect("a statement");
            bind(&mut prepared, place.expect("a parameter"), value);
        }
        let values = statement.as_array().into_iter().flatten().skip(1);
        for (at, value) in values.enumerate() {
            bind(&mut prepared, at + 1, value);
        }
        prepared
    }

    fn answer(&self, index: u64, results: Vec<Value>) -> Value {
        json!({"position": format!("{ERA}-{index}"), "index": index, "results": results})
    }

    fn index(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.index)
    }

    fn errs(&mut self) -> bool {
        self.chances += 1;
        self.chances.is_multiple_of(MISTAKE_EVERY)
    }
}

fn table_names(connection: &Connection) -> Vec<String> {
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table'";
    let mut names = connection.prepare(names).expect("a statement");
    let names = names.query_map([], |row| row.get(0)).expect("a query");
    names.map(|name| name.expect("a name")).collect()
}

fn bind(statement: &mut Statement<'_>, place: usize, value: &Value) {
    let integer = ValueRef::Integer(value.as_i64().expect("an integer"));
    let bound = statement.raw_bind_parameter(place, ToSqlOutput::Borrowed(integer));
    bound.expect("a parameter is bound");
}

fn all_rows(statement: &mut Statement<'_>) -> BTreeMap<i64, Row> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next().expect("a query runs") {
        let cells: Vec<i64> = (0..columns).map(|at| row.get(at).expect("an integer")).collect();
        found.insert(cells[0], cells.into_iter().map(RowCell::Integer).collect());
    }
    found
}

fn problem(status: u16, kind: &str, outcome: &str) -> Answered {
    (status, json!({"type": format!("urn:consort:problem:{kind}"), "outcome": outcome}))
}
