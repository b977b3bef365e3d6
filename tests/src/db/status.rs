//! Status calls of an operator: the workers of a database, its supervisor, and the crash drill.

use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use serde_json::Value;

use crate::cluster::operator;

/// How long a status may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The workers of a database, as one node lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerList {
    /// The live ones, sorted by id.
    pub workers: Vec<WorkerEntry>,
    /// How many there should be.
    pub wanted: u64,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerEntry {
    /// Its id.
    pub id: u64,
    /// Whether it leads; if not, it is a reader.
    pub leads: bool,
    /// Its node.
    pub node: String,
    /// The index that it has applied.
    pub index: u64,
    /// How many entries it is behind.
    pub lag: u64,
}

impl WorkerList {
    /// The leader, if one is listed.
    pub fn leader(&self) -> Option<&WorkerEntry> {
        self.workers.iter().find(|worker| worker.leads)
    }

    /// The readers.
    pub fn readers(&self) -> impl Iterator<Item = &WorkerEntry> {
        self.workers.iter().filter(|worker| !worker.leads)
    }

    /// Reads the answer of `GET /db/{name}/workers`.
    fn parse(body: &Value) -> Option<WorkerList> {
        let worker = |entry: &Value| {
            let role = entry["role"].as_str().filter(|role| ["leader", "reader"].contains(role))?;
            Some(WorkerEntry {
                id: entry["id"].as_u64()?,
                leads: role == "leader",
                node: entry["node"].as_str()?.to_owned(),
                index: entry["index"].as_u64()?,
                lag: entry["lag"].as_u64()?,
            })
        };
        let workers: Option<Vec<WorkerEntry>> =
            body["workers"].as_array()?.iter().map(worker).collect();
        Some(WorkerList { workers: workers?, wanted: body["wanted"].as_u64()? })
    }
}

/// The workers of a database, as the node at `address` lists them; nothing if it does not answer.
///
/// # Panics
///
/// If its answer is no list of workers.
pub async fn workers(address: &str, database: &str) -> Option<WorkerList> {
    let path = format!("/db/{database}/workers");
    let reply = send(address, Method::GET, &path, "").await.filter(|reply| reply.status == 200)?;
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let list = WorkerList::parse(&body);
    Some(list.unwrap_or_else(|| panic!("{path}: no list of workers: {body}")))
}

/// Ends a worker as a crash would. Whether it was there.
///
/// # Panics
///
/// If the answer names another worker.
pub async fn crash(address: &str, database: &str, id: u64) -> bool {
    let path = format!("/db/{database}/workers/{id}/crash");
    let Some(reply) = send(address, Method::POST, &path, "{}").await else { return false };
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let ended = reply.status == 200;
    assert!(!ended || body["id"].as_u64() == Some(id), "{path}: {body}");
    ended
}

/// The node that has the supervisor of a database.
pub async fn supervisor(address: &str, database: &str) -> Option<String> {
    let status = operator::cluster(address).await.ok()?.status;
    let role = format!("db-supervisor:{database}");
    status.roles.into_iter().find(|found| found.role.to_string() == role)?.owner
}

async fn send(address: &str, method: Method, path: &str, body: &str) -> Option<Reply> {
    let client = Client::new(address, None).expect("an address");
    Connection::new(client, ANSWER_WITHIN).send(method, path, &[], body.to_owned()).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_of_workers_is_read_as_nodes_write_it() {
        let leader = json!({"id": 1, "role": "leader", "node": "a", "index": 17, "lag": 0});
        let reader = json!({"id": 4, "role": "reader", "node": "b", "index": 15, "lag": 2});
        let list = WorkerList::parse(&json!({"workers": [leader, reader], "wanted": 2})).unwrap();
        assert_eq!(list.leader().map(|worker| (worker.id, worker.index)), Some((1, 17)));
        assert_eq!(
            list.readers().map(|worker| (worker.id, worker.lag)).collect::<Vec<_>>(),
            [(4, 2)]
        );
        assert_eq!(list.wanted, 2);
        assert_eq!(WorkerList::parse(&json!({"workers": [{"id": 1}], "wanted": 2})), None);
    }
}
