//! The bytes that glue has its store write for each piece, without the log, beside the budget of the design: the sum of
//! what its commits carry, as a decorator of the engine sees them in a node of this process.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use consort::config::{ConfigFile, Sources};
use consort::{Config, Extension, Node};
use consort_client::{Client, Connection, Method};
use consort_engines::Engine;
use consort_kernel::{
    Cell, Commit, CommitError, Committed, Cursor, Fault, FeedEntry, Key, Kind, Most, Name,
    Operation, QueryError, ReadError, Shard, Store, Timestamp, Value, Wake,
};
use serde_json::Value as Json;

use super::documents::{DOCUMENTS, id, patch, whole};
use crate::report::Report;

/// What all keys and feeds of glue begin with.
const CELLS: &str = "glue";
const FEEDS: &str = "glue.";

const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// Documents of the first row: each then has some six pieces in each batch of 14,000 pieces over all partitions.
const SPREAD: usize = DOCUMENTS / 4;

const KIB: f64 = 1024.0;

/// One row of the budget.
struct Row {
    name: &'static str,
    /// In KiB.
    budget: f64,
    measured: f64,
}

#[derive(Debug)]
struct CountingStore {
    store: Arc<dyn Store>,
    written: Arc<AtomicU64>,
}

/// A node in this process, whose commits are counted.
struct CountedNode {
    _node: Node,
    client: Client,
    written: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

/// Counts so many pieces of each kind.
pub(super) async fn run(pieces: u64, report: &mut Report) -> Result<()> {
    let node = CountedNode::start().await?;
    let mut rows = Vec::new();
    let spread = |text: &mut String| {
        let (id, piece) = (id(rand::random_range(1..=SPREAD)), patch());
        let _ = writeln!(text, "{{\"id\":\"{id}\",\"form\":\"merge-patch\",\"piece\":{piece}}}");
    };
    for number in 1..=SPREAD {
        node.put("bench", &id(number), whole()).await?;
    }
    let many = pieces * 5;
    let name = "bulk over many documents of 2 KiB";
    rows.push(Row { name, budget: 0.7, measured: node.bulk("bench", many, spread).await? });
    for (collection, name, budget) in [
        ("bench", "bulk to one document of 2 KiB", 0.3),
        ("documents", "the same with feed = \"document\"", 2.3),
    ] {
        node.put(collection, "hot", whole()).await?;
        let hot = |text: &mut String| {
            let piece = patch();
            let _ = writeln!(text, "{{\"id\":\"hot\",\"form\":\"merge-patch\",\"piece\":{piece}}}");
        };
        rows.push(Row { name, budget, measured: node.bulk(collection, pieces, hot).await? });
    }
    let singles = (pieces / 20).max(20);
    let name = "single pieces of a document of 2 KiB";
    rows.push(Row { name, budget: 2.6, measured: node.singles("hot", singles).await? });
    let mebibyte = format!("{{\"text\":\"{}\"}}", "x".repeat((1 << 20) - 4_096));
    node.put("bench", "large", mebibyte).await?;
    let name = "single pieces of a document of 1 MiB";
    rows.push(Row { name, budget: KIB, measured: node.singles("large", 20).await? });
    let line = |row: &Row| {
        format!("{}: {:.2} KiB, budget {:.1} KiB", row.name, row.measured / KIB, row.budget)
    };
    let lines: Vec<String> = rows.iter().map(line).collect();
    eprintln!("  {}", lines.join("\n  "));
    report.note(format!(
        "Bytes that commits carry for each piece, the log not counted: {}.",
        lines.join("; ")
    ));
    Ok(())
}

impl CountedNode {
    async fn start() -> Result<CountedNode> {
        let folder = tempfile::Builder::new().prefix("consort-glue-").tempdir()?;
        let quota = "tenant_pieces = 1000000\ntenant_bytes = \"16MiB\"\ngate = \"off\"";
        let text = format!(
            "[log]\nlevel = \"warn\"\n[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"embedded:{}\"\n\
             [glue.bench]\nformat = \"json\"\n{quota}\n\
             [glue.documents]\nformat = \"json\"\nfeed = \"document\"\nmax_document = \"256KiB\"\n{quota}\n",
            folder.path().join("data").display()
        );
        let file = Some(ConfigFile { name: "bench".into(), text });
        let config = Config::resolve(&Sources { file, ..Sources::default() });
        let config = config.map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let written = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&written);
        let extension = Extension::default().with_engine(move |engine| {
            let store =
                CountingStore { store: Arc::clone(&engine.store), written: Arc::clone(&counter) };
            Engine { store: Arc::new(store), ..engine }
        });
        let node = Node::start_extended(config, &extension).await?;
        let client = Client::new(&format!("http://{}", node.address()), None)?;
        Ok(CountedNode { _node: node, client, written, _folder: folder })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: String,
    ) -> Result<Json> {
        let headers = [("content-type", content_type)];
        let mut connection = Connection::new(self.client.clone(), ANSWER_WITHIN);
        let reply = connection.send(method, path, &headers, body).await?;
        let told = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status.is_success(), "{path}: {}: {told}", reply.status);
        Ok(serde_json::from_slice(&reply.body)?)
    }

    async fn put(&self, collection: &str, id: &str, document: String) -> Result<()> {
        let path = format!("/glue/{collection}/{id}?wait=applied");
        self.send(Method::PUT, &path, "application/json", document).await.map(drop)
    }

    /// Bytes a piece of one bulk request.
    async fn bulk(&self, collection: &str, pieces: u64, push: impl Fn(&mut String)) -> Result<f64> {
        let mut body = String::new();
        (0..pieces).for_each(|_| push(&mut body));
        let (before, applied) =
            (self.written.load(Ordering::Relaxed), self.applied(collection).await?);
        let path = format!("/glue/{collection}");
        self.send(Method::POST, &path, "application/x-ndjson", body).await?;
        let began = Instant::now();
        while self.applied(collection).await? < applied + pieces {
            ensure!(began.elapsed() < ANSWER_WITHIN, "the pieces are not applied");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok((self.written.load(Ordering::Relaxed) - before) as f64 / pieces as f64)
    }

    /// Bytes a piece of pieces that are sent one after another.
    async fn singles(&self, id: &str, pieces: u64) -> Result<f64> {
        let before = self.written.load(Ordering::Relaxed);
        let path = format!("/glue/bench/{id}?wait=applied");
        for _ in 0..pieces {
            self.send(Method::PATCH, &path, "application/merge-patch+json", patch()).await?;
        }
        Ok((self.written.load(Ordering::Relaxed) - before) as f64 / pieces as f64)
    }

    /// Pieces that are applied.
    async fn applied(&self, collection: &str) -> Result<u64> {
        let shown = self.send(Method::GET, "/glue", "application/json", String::new()).await?;
        let all = shown["collections"].as_array().context("collections")?;
        let found = all.iter().find(|one| one["collection"] == collection);
        let counters = &found.context("the collection")?["counters"];
        Ok(counters["applied"].as_u64().unwrap_or_default())
    }
}

/// What the operations of glue in a commit carry: keys, values and entries.
fn carried(commit: &Commit) -> u64 {
    let glue = Key::from([CELLS]);
    let bytes = |operation: &Operation| match operation {
        Operation::Put { key, value } if key.starts_with(&glue) => {
            key.as_bytes().len() + value.len()
        }
        Operation::Add { key, .. } if key.starts_with(&glue) => key.as_bytes().len() + 8,
        Operation::Delete(cell) if cell.key.starts_with(&glue) => cell.key.as_bytes().len(),
        Operation::Append(note) if note.feed.as_str().starts_with(FEEDS) => note.entry.len(),
        _ => 0,
    };
    commit.operations.iter().map(bytes).sum::<usize>() as u64
}

#[async_trait]
impl Store for CountingStore {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    async fn commit(&self, shard: Shard, commit: Commit) -> Result<Committed, CommitError> {
        let bytes = carried(&commit);
        let committed = self.store.commit(shard, commit).await?;
        self.written.fetch_add(bytes, Ordering::Relaxed);
        Ok(committed)
    }

    async fn get(&self, shard: Shard, cells: &[Cell]) -> Result<Vec<Option<Value>>, QueryError> {
        self.store.get(shard, cells).await
    }

    async fn scan(
        &self,
        shard: Shard,
        kind: Kind,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, QueryError> {
        self.store.scan(shard, kind, prefix, after, limit).await
    }

    async fn members(
        &self,
        shard: Shard,
        key: &Key,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Bytes>, QueryError> {
        self.store.members(shard, key, after, limit).await
    }

    async fn cardinality(&self, shard: Shard, key: &Key) -> Result<u64, QueryError> {
        self.store.cardinality(shard, key).await
    }

    async fn feed(
        &self,
        shard: Shard,
        feed: &Name,
        after: &Cursor,
        most: Most,
        wait: Duration,
    ) -> Result<Vec<FeedEntry>, ReadError> {
        self.store.feed(shard, feed, after, most, wait).await
    }

    async fn trim_feed(&self, shard: Shard, feed: &Name, before: u64) -> Result<(), QueryError> {
        self.store.trim_feed(shard, feed, before).await
    }

    async fn now(&self) -> Result<Timestamp, Fault> {
        self.store.now().await
    }

    fn watch(&self, shard: Shard, key: &Key) -> Wake {
        self.store.watch(shard, key)
    }

    async fn ping(&self) -> Result<(), Fault> {
        self.store.ping().await
    }
}
