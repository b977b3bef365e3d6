//! The documents, rows, rejects and counters that nodes serve.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_client::{Client, Connection, Method, Reply};
use serde_json::Value;

use super::editors::tenant_of;
use super::ledger::DocumentId;
use super::pieces::Collection;
use crate::lifts::compare::metrics;

/// Items in one page: several pages of everything.
const PAGE: usize = 150;

/// How long an answer may take; it bounds a hang.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The nodes, of which each page asks another.
#[derive(Debug)]
pub(super) struct Served<'a> {
    addresses: &'a [String],
}

impl Served<'_> {
    pub(super) fn new(addresses: &[String]) -> Served<'_> {
        Served { addresses }
    }

    /// All rows of a collection's feed, of all tenants; each page is another node's.
    pub(super) async fn rows(&self, collection: &str) -> Vec<Value> {
        let (mut rows, mut after) = (Vec::new(), String::new());
        for address in self.addresses.iter().cycle() {
            let path = format!("/feeds/glue/{collection}?limit={PAGE}{after}");
            let reply = get(address, &path, "*").await;
            let cursor = reply.header("consort-cursor").expect("a page has a cursor").to_owned();
            let text = String::from_utf8_lossy(&reply.body);
            let page = text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON"));
            let before = rows.len();
            rows.extend(page);
            let next = format!("&after={cursor}");
            if rows.len() == before && next == after {
                break;
            }
            after = next;
        }
        rows
    }

    /// A document of a tenant.
    pub(super) async fn document(&self, collection: &str, id: &str, tenant: &str) -> Value {
        let path = format!("/glue/{collection}/{id}");
        let body = get(&self.addresses[0], &path, tenant).await.body;
        serde_json::from_slice(&body).expect("a document")
    }

    /// The reject list of a collection.
    pub(super) async fn rejects(&self, collection: Collection) -> Vec<Value> {
        list(&self.addresses[0], &format!("/glue/{}/rejects?", collection.name()), "rejects").await
    }

    /// The documents of all collections as the node at `address` lists them, with their versions; each is asked for
    /// by its id, too.
    pub(super) async fn documents(address: &str) -> BTreeMap<DocumentId, (u64, Value)> {
        let mut documents = BTreeMap::new();
        for collection in Collection::ALL {
            let path = format!("/glue/{}?documents=true&", collection.name());
            for item in list(address, &path, "documents").await {
                let id = item["id"].as_str().expect("a document has an id").to_owned();
                let version = item["version"].as_u64().expect("a document has a version");
                let path = format!("/glue/{}/{}", collection.name(), id.replace('/', "%2F"));
                let body = get(address, &path, tenant_of(&id)).await.body;
                let text = String::from_utf8_lossy(&body).into_owned();
                let alone = match collection {
                    Collection::Films => serde_json::from_str(&text).expect("a film is JSON"),
                    Collection::Guides => Value::String(text),
                };
                assert_eq!(alone, item["document"], "{path} of {address}");
                assert_eq!(item["tenant"], tenant_of(&id), "{path} of {address}");
                documents.insert((collection, id), (version, alone));
            }
        }
        documents
    }
}

/// The counters of some collections, of all tenants together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accounts {
    pub(super) received: u64,
    pub(super) applied: u64,
    pub(super) repeats: u64,
    pub(super) rejected: u64,
    held: u64,
    queued: u64,
}

impl Accounts {
    /// As the node at `address` shows them, once no worker has anything left to read.
    pub(super) async fn read(address: &str, collections: &[&str]) -> Option<Accounts> {
        let figures = metrics(address).await;
        let sum = |outcome: &str| {
            let label = format!("outcome=\"{outcome}\"");
            let is_shown = |name: &str| {
                let begins = |one: &&&str| {
                    name.starts_with(&format!("consort_glue_pieces{{collection=\"{one}\""))
                };
                name.contains(&label) && collections.iter().any(|one| begins(&one))
            };
            let sum = figures.iter().filter(|(name, _)| is_shown(name));
            sum.map(|(_, value)| *value as u64).sum()
        };
        let cluster = crate::cluster::operator::cluster(address).await.ok()?;
        let lags =
            cluster.status.roles.iter().filter(|role| role.role.to_string().starts_with("worker:"));
        let still = lags.map(|role| role.lag).all(|lag| lag == Some(0));
        still.then(|| Accounts {
            received: sum("received"),
            applied: sum("applied"),
            repeats: sum("repeats"),
            rejected: sum("rejected"),
            held: sum("held"),
            queued: sum("queued"),
        })
    }

    /// Pieces that are neither applied nor rejected.
    pub(super) fn waiting(&self) -> u64 {
        self.held + self.queued
    }
}

/// All items of a list, page by page.
async fn list(address: &str, path: &str, name: &str) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let reply = get(address, &format!("{path}limit={PAGE}{after}"), "*").await;
        let mut page: Value = serde_json::from_slice(&reply.body).expect("a page is JSON");
        items.append(page[name].as_array_mut().expect("a page has a list"));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return items,
        }
    }
}

async fn get(address: &str, path: &str, tenant: &str) -> Reply {
    let client = Client::new(address, None).expect("an address");
    let headers = [("consort-tenant", tenant)];
    let reply = Connection::new(client, ANSWER_WITHIN).send(Method::GET, path, &headers, "").await;
    let reply = reply.unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
    reply
}
