//! A private Redis Cluster of three masters.

use std::io;
use std::time::Duration;

use crate::eventually::eventually;
use crate::redis::RedisServer;
use crate::redis_options::RedisOptions;
use crate::resp::Reply;

/// Three is the least that Redis takes for a majority.
const MASTERS: usize = 3;

/// Redis keeps a fresh or restarted master from serving for two seconds; the rest is for a machine
/// that compiles meanwhile.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// Keys moved by one MIGRATE call.
const KEYS_PER_MOVE: &str = "100";

/// The environment variable that names the URL of a cluster for all tests of a run.
pub const SHARED_CLUSTER: &str = "CONSORT_TESTBED_REDIS_CLUSTER";

/// The URL of the cluster that [`SHARED_CLUSTER`] names, or else of a private one, to be kept as long as
/// it is used. For tests that leave the cluster as it is and take a namespace of their own: Redis keeps
/// a fresh cluster from serving for two seconds.
pub async fn shared_cluster() -> (String, Option<RedisCluster>) {
    match std::env::var(SHARED_CLUSTER) {
        Ok(url) if !url.is_empty() => (url, None),
        _ => {
            let cluster = RedisCluster::start(RedisOptions::new()).await;
            (cluster.url(), Some(cluster))
        }
    }
}

/// Three masters that share all 16384 slots, without replicas. Gone when dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
    password: Option<String>,
}

impl RedisCluster {
    /// The number of hash slots of every Redis Cluster.
    pub const SLOTS: u16 = 16_384;

    /// Starts three masters with these options (cluster mode is added) and waits until each of them
    /// serves.
    ///
    /// # Panics
    ///
    /// If redis-server is not installed or does not start, or if the options ask for TLS: the nodes
    /// would point clients to their plain ports.
    pub async fn start(options: RedisOptions) -> RedisCluster {
        assert!(options.tls.is_none(), "a cluster of the test bed has no TLS");
        // A node that is silent for two seconds counts as failed, so that tests need not wait for
        // Redis's fifteen.
        let options = options.cluster_enabled().line("cluster-node-timeout 2000");
        let mut cluster =
            RedisCluster { nodes: Vec::new(), ids: Vec::new(), password: options.password.clone() };
        for _ in 0..MASTERS {
            let node = RedisServer::start(options.clone()).await;
            let id = must(&node, &["CLUSTER", "MYID"]).await;
            cluster.ids.push(id.text().expect("a node has an id").to_owned());
            cluster.nodes.push(node);
        }
        cluster.introduce().await;
        cluster.settled().await;
        cluster
    }

    /// `redis-cluster://127.0.0.1:p1,127.0.0.1:p2,127.0.0.1:p3`; a password stands before the first
    /// host.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let password =
            self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis-cluster://{password}{}", hosts.join(","))
    }

    /// All masters, in the order of the URL.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// One master, to be killed, paused, resumed or restarted; [`settled`](Self::settled) then
    /// waits until the cluster serves again.
    pub fn node(&mut self, index: usize) -> &mut RedisServer {
        &mut self.nodes[index]
    }

    /// Waits until every node sees every other one and says that the cluster serves.
    ///
    /// # Panics
    ///
    /// If that takes more than a minute, as it does while a node is down.
    pub async fn settled(&self) {
        for node in &self.nodes {
            let what = format!("the cluster serves, as its node on port {} sees it", node.port());
            eventually(&what, SETTLED_WITHIN, async || serves(node).await.unwrap_or(false)).await;
        }
    }

    /// The index of the master that serves a slot.
    pub async fn owner(&self, slot: u16) -> usize {
        let ranges = must(&self.nodes[0], &["CLUSTER", "SLOTS"]).await;
        let id = ranges.items().iter().find_map(|range| match range.items() {
            [Reply::Integer(first), Reply::Integer(last), master, ..]
                if (*first..=*last).contains(&i64::from(slot)) =>
            {
                master.items().get(2).and_then(Reply::text)
            }
            _ => None,
        });
        let id = id.unwrap_or_else(|| panic!("slot {slot} is served by nobody"));
        self.ids.iter().position(|known| known == id).expect("only these masters serve slots")
    }

    /// Moves a slot with its keys to another master: clients that ask the old one then get MOVED.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        if self.owner(slot).await != to {
            self.begin_move(slot, to).await;
            self.finish_move(slot, to).await;
        }
    }

    /// Opens the move of a slot to another master and moves no key: for keys that it does not have,
    /// the old master answers ASK.
    pub async fn begin_move(&self, slot: u16, to: usize) {
        let (from, name) = (self.owner(slot).await, slot.to_string());
        must(&self.nodes[to], &["CLUSTER", "SETSLOT", &name, "IMPORTING", &self.ids[from]]).await;
        must(&self.nodes[from], &["CLUSTER", "SETSLOT", &name, "MIGRATING", &self.ids[to]]).await;
    }

    /// Ends what [`begin_move`](Self::begin_move) began: moves the keys, and tells every node of
    /// the slot's new master.
    pub async fn finish_move(&self, slot: u16, to: usize) {
        let (from, name) = (self.owner(slot).await, slot.to_string());
        let (source, port) = (&self.nodes[from], self.nodes[to].port().to_string());
        loop {
            let keys = must(source, &["CLUSTER", "GETKEYSINSLOT", &name, KEYS_PER_MOVE]).await;
            let keys: Vec<&str> = keys.items().iter().filter_map(Reply::text).collect();
            if keys.is_empty() {
                break;
            }
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            command.extend(self.password.iter().flat_map(|password| ["AUTH", password]));
            command.push("KEYS");
            command.extend(keys);
            must(source, &command).await;
        }
        // The new master first: if the old one were told first, both would refuse the slot for a
        // moment.
        let order = std::iter::once(to).chain((0..MASTERS).filter(|node| *node != to));
        for node in order {
            must(&self.nodes[node], &["CLUSTER", "SETSLOT", &name, "NODE", &self.ids[to]]).await;
        }
    }

    /// Shares out the slots, and lets the first node meet the others.
    async fn introduce(&self) {
        let share = usize::from(Self::SLOTS).div_ceil(MASTERS);
        for (index, node) in self.nodes.iter().enumerate() {
            let first = (index * share).to_string();
            let last = ((index + 1) * share).min(usize::from(Self::SLOTS)) - 1;
            must(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last.to_string()]).await;
            // Epochs that differ from the start spare the nodes the settling of who is newer.
            must(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await;
        }
        for node in &self.nodes[1..] {
            let bus = node.bus_port().expect("a cluster node has a bus").to_string();
            must(&self.nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus])
                .await;
        }
    }
}

async fn serves(node: &RedisServer) -> io::Result<bool> {
    let state = node.call(&["CLUSTER", "INFO"]).await?;
    let state = state.text().unwrap_or_default();
    Ok(state.contains("cluster_state:ok") && state.contains(&format!("cluster_size:{MASTERS}")))
}

async fn must(node: &RedisServer, command: &[&str]) -> Reply {
    match node.call(command).await {
        Ok(Reply::Error(refusal)) => {
            panic!("the node on port {} refused {command:?}: {refusal}", node.port())
        }
        Ok(reply) => reply,
        Err(error) => {
            panic!("the node on port {} did not answer {command:?}: {error}", node.port())
        }
    }
}
