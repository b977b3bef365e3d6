//! A subscriber of each collection, which goes from node to node with its cursor while the trial goes on: it sees each
//! version of each document once and in order, and so does the file that a sink fills, but for repeats.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use consort_client::{Client, Connection, Method};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::pieces::Collection;

/// Rows of a page: few, so that a page is often another node's.
const PAGE: usize = 40;

/// How long an answer may take: a node may be paused.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The pause after a page that did not come.
const PAUSE: Duration = Duration::from_millis(50);

/// What the rows of one document begin with, in a line of a file.
const ROW: &str = "{\"collection\"";

/// The rows of each document, in the order in which they came.
pub(super) type RowsById = BTreeMap<String, Vec<Value>>;

/// Follows the feeds until it is stopped.
#[derive(Debug)]
pub(super) struct Subscribers {
    stop: watch::Sender<bool>,
    following: Vec<(Collection, JoinHandle<Vec<Value>>)>,
}

impl Subscribers {
    /// Begins with the first row.
    pub(super) fn start(balancer: SocketAddr) -> Subscribers {
        let (stop, stopped) = watch::channel(false);
        let follow = |collection| {
            let following = tokio::spawn(follow(balancer, collection, stopped.clone()));
            (collection, following)
        };
        Subscribers { stop, following: Collection::ALL.map(follow).into() }
    }

    /// Reads to the end of the feeds, and gives the rows by collection.
    pub(super) async fn stop(self) -> BTreeMap<Collection, RowsById> {
        self.stop.send_replace(true);
        let mut rows = BTreeMap::new();
        for (collection, following) in self.following {
            rows.insert(collection, by_id(following.await.expect("a subscriber does not panic")));
        }
        rows
    }
}

async fn follow(
    balancer: SocketAddr,
    collection: Collection,
    stopped: watch::Receiver<bool>,
) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    let client = Client::new(&format!("http://{balancer}"), None).expect("an address");
    loop {
        let was_stopped = *stopped.borrow();
        let path = format!("/feeds/glue/{}?limit={PAGE}&wait=1{cursor}", collection.name());
        let headers = [("consort-tenant", "*")];
        // A connection of its own for each page: the balancer gives another node.
        let mut connection = Connection::new(client.clone(), ANSWER_WITHIN);
        let reply = match connection.send(Method::GET, &path, &headers, "").await {
            Ok(reply) if reply.status == 200 => reply,
            Ok(reply) => {
                let said = String::from_utf8_lossy(&reply.body).into_owned();
                assert_eq!(reply.status, 503, "{path}: {said}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let next = format!("&after={}", reply.header("consort-cursor").expect("a cursor"));
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        let page = text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON"));
        let before = rows.len();
        rows.extend(page);
        if was_stopped && rows.len() == before && next == cursor {
            return rows;
        }
        cursor = next;
    }
}

/// Rows by document.
pub(super) fn by_id(rows: Vec<Value>) -> RowsById {
    let mut by_id = RowsById::new();
    for row in rows {
        let id = row["id"].as_str().expect("a row has an id").to_owned();
        by_id.entry(id).or_default().push(row);
    }
    by_id
}

/// The rows in the file of a sink, without repeats. A node that was killed may have left a line without its end.
pub(super) fn delivered(file: &Path) -> RowsById {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let row = |line: &str| serde_json::from_str::<Value>(&line[line.rfind(ROW)?..]).ok();
    let mut rows = by_id(text.lines().filter_map(row).collect());
    for rows in rows.values_mut() {
        rows.sort_by_key(|row| row["version"].as_u64());
        rows.dedup();
    }
    rows
}
