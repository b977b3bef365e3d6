//! Clients that ask at the same moment, each on a connection of its own that it keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use consort_client::{Client, Connection, Method, Reply};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::crew::PATIENCE;

/// The clients.
#[derive(Debug)]
pub struct Herd(Vec<Member>);

/// A client, and the node that it asks.
#[derive(Debug)]
struct Member {
    node: usize,
    connection: Connection,
}

/// What a client got.
#[derive(Clone, Debug)]
pub struct Said {
    /// Of which node.
    pub node: usize,
    /// The answer; the reason if there was none.
    pub reply: Result<Reply, String>,
}

impl Herd {
    /// So many clients, spread evenly over these nodes. Their connections are opened already.
    pub async fn gather(nodes: &[(usize, String)], size: usize) -> Herd {
        raise_open_files();
        let clients = (0..size).map(|at| {
            let (node, address) = &nodes[at % nodes.len()];
            let (node, client) = (*node, Client::new(address, None).expect("an address"));
            Member { node, connection: Connection::new(client, PATIENCE) }
        });
        let mut herd = Herd(clients.collect());
        for said in herd.ask("/readyz").await {
            assert_eq!(said.status(), 200, "{said:?}");
        }
        herd
    }

    /// All ask at the same moment; waits until each has an answer, or knows that it gets none.
    pub async fn ask(&mut self, path: &str) -> Vec<Said> {
        let starting = Arc::new(Barrier::new(self.0.len()));
        let mut asking = JoinSet::new();
        for mut client in self.0.drain(..) {
            let (starting, path) = (starting.clone(), path.to_owned());
            asking.spawn(async move {
                starting.wait().await;
                let sent = client.connection.send(Method::GET, &path, &[], "").await;
                let node = client.node;
                (client, Said { node, reply: sent.map_err(|error| error.to_string()) })
            });
        }
        let (clients, said): (Vec<_>, Vec<_>) = asking.join_all().await.into_iter().unzip();
        self.0 = clients;
        said
    }
}

impl Said {
    /// Its status; 0 if there was no answer.
    pub fn status(&self) -> u16 {
        self.reply.as_ref().map_or(0, |reply| reply.status.as_u16())
    }

    /// Which computation it is from; empty if it does not say.
    pub fn generation(&self) -> &str {
        self.header("consort-generation")
    }

    /// A header; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.reply.as_ref().ok().and_then(|reply| reply.header(name)).unwrap_or_default()
    }

    /// Its body.
    pub fn body(&self) -> Bytes {
        self.reply.as_ref().map(|reply| reply.body.clone()).unwrap_or_default()
    }

    /// The number of the upstream's call that made the list.
    pub fn call(&self) -> Option<u64> {
        serde_json::from_slice::<Value>(&self.body()).ok()?[0]["call"].as_u64()
    }

    /// What kind of problem it is; empty if it is none.
    pub fn problem(&self) -> String {
        if self.header("content-type") != "application/problem+json" {
            return String::new();
        }
        let problem = serde_json::from_slice::<Value>(&self.body()).unwrap_or_default();
        let kind = problem["type"].as_str().and_then(|kind| kind.rsplit(':').next());
        kind.unwrap_or_default().to_owned()
    }

    /// Checks that it says clearly that there is no answer now, and when to come again.
    ///
    /// # Panics
    ///
    /// If it does not.
    #[track_caller]
    pub fn is_told(&self) {
        assert!([503, 504].contains(&self.status()), "{self:?}");
        assert!(["store-failed", "deadline"].contains(&&*self.problem()), "{self:?}");
        assert!(!self.header("retry-after").is_empty(), "{self:?}");
    }
}

/// Checks that all answers are good, of one generation and the same byte for byte; tells which generation.
///
/// # Panics
///
/// If they are not.
#[track_caller]
pub fn one_answer<'a>(answers: impl IntoIterator<Item = &'a Said>) -> String {
    let answers: Vec<&Said> = answers.into_iter().collect();
    let (first, statuses) =
        (answers.first().expect("an answer"), statuses(answers.iter().copied()));
    assert_eq!(statuses.keys().copied().collect::<Vec<_>>(), [200], "{statuses:?}: {answers:?}");
    let generations: BTreeSet<&str> = answers.iter().map(|said| said.generation()).collect();
    assert_eq!(generations.len(), 1, "{generations:?}");
    assert_eq!(first.generation().len(), 32, "{first:?}");
    assert!(answers.iter().all(|said| said.body() == first.body()), "{answers:?}");
    first.generation().to_owned()
}

/// How many answers had which status.
pub fn statuses<'a>(answers: impl IntoIterator<Item = &'a Said>) -> BTreeMap<u16, usize> {
    let mut statuses = BTreeMap::new();
    for said in answers {
        *statuses.entry(said.status()).or_default() += 1;
    }
    statuses
}

/// Each client is an open file, and the usual soft limit is just about a herd. The hard limit stays.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    raised.expect("the soft limit of open files can be raised to the hard one");
}
