//! `consort drain`: retires a node, and waits until it has left.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use consort_client::{Client, ClientError, Cluster};
use tokio::time::Instant;

use super::remote::{RemoteArgs, explain};

pub(super) const EXAMPLES: &str = "\
Examples:
  consort drain a                                  retire node 'a' and wait until it has left
  consort drain a --url http://10.0.0.7:7400       ask any node of the cluster, 'a' or another
  consort drain a --no-wait                        only ask

The node finishes what it has in hand, hands each role over to another node, leaves, and its process
ends with exit code 0. Nothing is lost and nothing is done twice. The last node is not retired: stop
it with SIGTERM. `consort status` shows the ids.

Exit codes:
  0  it has left; with --no-wait, it was asked to
  1  it was not retired; standard error says why";

/// How often a waiting command looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long it waits. A node drops work that does not end within ten seconds, so one that is still there
/// after so long has no store to say goodbye to.
const LEAVES_WITHIN: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// The id of the node
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    remote: RemoteArgs,
    /// Wait until the node has left; this is the default
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,
    /// Return as soon as the node is asked
    #[arg(long)]
    no_wait: bool,
}

pub(super) fn run(arguments: &DrainArgs) -> ExitCode {
    let id = &arguments.node;
    let waits = arguments.wait || !arguments.no_wait;
    arguments.remote.run(async |client| {
        // Before it is asked: a node without roles may be gone before the next look.
        let before = client.cluster().await.map_err(|error| explain(&error))?;
        client.drain(id).await.map_err(|error| explain(&error))?;
        eprintln!("'{id}' was asked to hand its roles over and leave");
        if waits {
            Waiting::new(id, client, &before).until_left().await?;
            eprintln!("'{id}' has left");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A command that waits for a node to leave.
struct Waiting<'a> {
    id: &'a str,
    /// When the node joined that was asked: one that has its id later is another.
    since: Option<u64>,
    client: Client,
    /// Where else to ask, should the node asked be the one that leaves.
    others: Vec<String>,
    roles_told: Option<u64>,
}

impl<'a> Waiting<'a> {
    fn new(id: &'a str, client: Client, cluster: &Cluster) -> Waiting<'a> {
        let node = cluster.status.nodes.iter().find(|node| node.id == id);
        let since = node.map(|node| node.since);
        let mut waiting = Waiting { id, since, client, others: vec![], roles_told: None };
        waiting.note_others(cluster);
        waiting
    }

    async fn until_left(mut self) -> Result<(), String> {
        let deadline = Instant::now() + LEAVES_WITHIN;
        while Instant::now() < deadline {
            match self.client.cluster().await {
                Ok(cluster) if self.has_left(&cluster)? => return Ok(()),
                Ok(cluster) => self.note_others(&cluster),
                Err(ClientError::Unreachable { .. } | ClientError::NoAnswer { .. }) => {
                    self.turn_to_another()
                }
                // The node asked is about to end, or its store is out of reach for a moment.
                Err(ClientError::Refused { status: 503, .. }) => {}
                Err(error) => return Err(explain(&error)),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(format!(
            "'{}' is still there after {LEAVES_WITHIN:?}: it goes on leaving by itself, and its log says \
             what it waits for",
            self.id
        ))
    }

    fn has_left(&mut self, cluster: &Cluster) -> Result<bool, String> {
        let node = cluster.status.nodes.iter().find(|node| node.id == self.id);
        let Some(node) = node.filter(|node| self.since.is_none_or(|since| since == node.since))
        else {
            return Ok(true);
        };
        if !node.live {
            return Err(format!(
                "'{}' died before it had left: others take its roles over as its leases lapse",
                self.id
            ));
        }
        if self.roles_told.replace(node.load) != Some(node.load) {
            let roles = if node.load == 1 { "role" } else { "roles" };
            eprintln!("'{}' holds {} {roles}", self.id, node.load);
        }
        Ok(false)
    }

    fn note_others(&mut self, cluster: &Cluster) {
        let others = cluster.status.nodes.iter().filter(|node| node.live && node.id != self.id);
        self.others = others.map(|node| node.address.clone()).collect();
    }

    fn turn_to_another(&mut self) {
        if let Some(other) = self.others.pop()
            && let Ok(client) = self.client.at(&other)
        {
            self.client = client;
        }
    }
}
