//! The Redis engine under the contract suites, on one server and on a cluster of three masters.

use std::sync::Arc;

use async_trait::async_trait;
use consort_engines::redis::{self as engine, RedisLog, RedisStore};
use consort_kernel::contract::{LogHarness, StoreHarness};
use consort_kernel::{Log, Name, Partition, Shard, Store};
use consort_testbed::{RedisCluster, RedisOptions, RedisServer, shared_cluster};
use redis::Value;
use redis::cluster::ClusterClient;

const SHARDS: u16 = 2;

/// Keeps the servers for as long as the case runs.
enum Servers {
    One { _server: RedisServer },
    Many { _cluster: Option<RedisCluster> },
}

struct Redis {
    servers: Servers,
    url: String,
    namespace: String,
    log: RedisLog,
    store: RedisStore,
}

async fn open_one() -> Redis {
    let server = RedisServer::start(RedisOptions::new()).await;
    let url = server.url();
    open(url, Servers::One { _server: server }).await
}

async fn open_cluster() -> Redis {
    let (url, cluster) = shared_cluster().await;
    open(url, Servers::Many { _cluster: cluster }).await
}

async fn open(url: String, servers: Servers) -> Redis {
    let namespace = format!("suite-{:08x}", rand::random::<u32>());
    let opened = engine::open(&url, &namespace, SHARDS, false, None).await;
    let (log, store, _) = opened.expect("redis opens");
    Redis { servers, url, namespace, log, store }
}

impl Redis {
    async fn call(&self, parts: &[&[u8]]) -> Value {
        let mut command = redis::Cmd::new();
        for part in parts {
            command.arg(*part);
        }
        let answer = match &self.servers {
            Servers::One { .. } => {
                let client = redis::Client::open(self.url.as_str()).expect("a client");
                let mut connection =
                    client.get_multiplexed_async_connection().await.expect("a connection");
                command.query_async(&mut connection).await
            }
            Servers::Many { .. } => {
                let nodes = self.url.trim_start_matches("redis-cluster://").split(',');
                let nodes = nodes.map(|node| format!("redis://{node}"));
                let client = ClusterClient::new(nodes).expect("a client");
                let mut connection = client.get_async_connection().await.expect("a connection");
                command.query_async(&mut connection).await
            }
        };
        answer.expect("an answer")
    }

    fn partition_key(&self, at: &Partition) -> String {
        format!("consort:{{{}:log:{}:{}}}", self.namespace, at.stream, at.index)
    }

    /// Writes a stream anew with what `change` makes of each entry's sequence and contents.
    async fn rewrite(&self, key: &str, change: impl Fn(u64, Vec<u8>) -> Option<Vec<u8>>) {
        let Value::Array(entries) = self.call(&[b"XRANGE", key.as_bytes(), b"-", b"+"]).await
        else {
            panic!("{key} is no stream");
        };
        self.call(&[b"DEL", key.as_bytes()]).await;
        for entry in entries {
            let (id, fields): (String, Vec<Vec<u8>>) =
                redis::from_redis_value(entry).expect("an entry");
            let sequence: u64 = id.trim_start_matches("0-").parse().expect("a sequence");
            if let Some(contents) = change(sequence, fields[1].clone()) {
                let (id, key) = (id.as_bytes(), key.as_bytes());
                self.call(&[b"XADD", key, id, b"e", &contents, b"d", &fields[3]]).await;
            }
        }
    }
}

#[async_trait]
impl LogHarness for Redis {
    fn log(&self) -> Arc<dyn Log> {
        Arc::new(self.log.clone())
    }

    async fn lose_tail(&self, at: &Partition, from: u64) {
        let keep = |sequence: u64, contents| (sequence <= from).then_some(contents);
        self.rewrite(&self.partition_key(at), keep).await;
    }

    async fn corrupt(&self, at: &Partition, offset: u64) {
        let flip = |sequence: u64, mut contents: Vec<u8>| {
            if sequence == offset + 1 {
                let middle = contents.len() / 2;
                contents[middle] ^= 1;
            }
            Some(contents)
        };
        self.rewrite(&self.partition_key(at), flip).await;
    }
}

#[async_trait]
impl StoreHarness for Redis {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn elsewhere(&self) -> Arc<dyn Store> {
        let opened = engine::open(&self.url, &self.namespace, SHARDS, false, None).await;
        Arc::new(opened.expect("redis opens").1)
    }

    async fn lose_feed_tail(&self, shard: Shard, feed: &Name, from: u64) {
        let key = format!("consort:{{{}:shard:{}}}:f:{feed}", self.namespace, shard.0);
        self.rewrite(&key, |sequence, contents| (sequence <= from).then_some(contents)).await;
    }
}

mod redis_engine {
    use super::*;
    consort_kernel::log_suite!(open_one().await);
    consort_kernel::store_suite!(open_one().await);
}

mod redis_cluster_engine {
    use super::*;
    consort_kernel::log_suite!(open_cluster().await);
    consort_kernel::store_suite!(open_cluster().await);
}
