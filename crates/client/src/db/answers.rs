//! What nodes answer about a database.

use serde::Deserialize;
use serde_json::Value;

/// A write that is stored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WriteOutcome {
    /// Where it stands in the database's history, `ERA-INDEX`.
    pub position: String,
    /// The index of the position.
    pub index: u64,
    /// One for each statement; absent if this is a repeat whose first answer was too large to keep.
    pub results: Option<Vec<StatementOutcome>>,
}

/// What one statement of a write did.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct StatementOutcome {
    /// The number of rows that it changed, without those changed by foreign keys.
    pub changes: u64,
    /// The rowid of the last row that it inserted, where all workers have the same.
    #[serde(default)]
    pub last_id: Option<i64>,
    /// The columns of `RETURNING`.
    #[serde(default)]
    pub columns: Vec<String>,
    /// The rows of `RETURNING`.
    #[serde(default)]
    pub rows: Vec<Vec<Value>>,
}

/// The answer to one query.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ReadOutcome {
    /// Columns and rows.
    #[serde(flatten)]
    pub rows: RowSet,
    /// The position of the snapshot that it was read from, `ERA-INDEX`.
    pub position: String,
    /// The index of the position.
    pub index: u64,
    /// The worker that answered.
    pub worker: u64,
}

/// The answers to several queries on one snapshot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ReadManyOutcome {
    /// One for each query.
    pub results: Vec<RowSet>,
    /// The position of the snapshot that they were read from, `ERA-INDEX`.
    pub position: String,
    /// The index of the position.
    pub index: u64,
    /// The worker that answered.
    pub worker: u64,
}

/// The rows of one query.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RowSet {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Value>>,
}

/// The workers of a database.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WorkerList {
    /// The live ones, sorted by id.
    pub workers: Vec<WorkerEntry>,
    /// How many there should be.
    pub wanted: u64,
}

/// One live worker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WorkerEntry {
    /// Its id, which no other worker ever has.
    pub id: u64,
    /// `leader`, or another word for a reader.
    pub role: String,
    /// The node that it runs on.
    pub node: String,
    /// The last index that it has applied.
    pub index: u64,
    /// How many entries it is behind.
    pub lag: u64,
}

impl WorkerEntry {
    /// Whether it takes the writes.
    pub fn is_leader(&self) -> bool {
        self.role == "leader"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_as_nodes_write_them() {
        let text = r#"{"position": "1-17", "index": 17, "results": [{"changes": 1, "last_id": null},
            {"changes": 2, "last_id": 9, "columns": ["id"], "rows": [[8], [9]]}]}"#;
        let written: WriteOutcome = serde_json::from_str(text).unwrap();
        let results = written.results.unwrap();
        assert_eq!((results[0].changes, results[0].last_id), (1, None));
        assert_eq!(
            (results[1].last_id, &results[1].rows),
            (Some(9), &vec![vec![json!(8)], vec![json!(9)]])
        );
        let text = r#"{"position": "1-17", "index": 17, "results": null}"#;
        assert_eq!(serde_json::from_str::<WriteOutcome>(text).unwrap().results, None);

        let text = r#"{"columns": ["a"], "rows": [["x"]], "position": "1-17", "index": 17, "worker": 3, "later": 1}"#;
        let read: ReadOutcome = serde_json::from_str(text).unwrap();
        assert_eq!((read.rows.rows[0][0].as_str(), read.worker), (Some("x"), 3));

        let text = r#"{"workers": [{"id": 1, "role": "leader", "node": "a", "index": 17, "lag": 0},
            {"id": 2, "role": "reader", "node": "b", "index": 16, "lag": 1}], "wanted": 2}"#;
        let list: WorkerList = serde_json::from_str(text).unwrap();
        assert_eq!(list.wanted, 2);
        assert!(list.workers[0].is_leader() && !list.workers[1].is_leader());
    }
}
