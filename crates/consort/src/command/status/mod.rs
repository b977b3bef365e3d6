//! `consort status`: who does what in the cluster, and what is wrong.

mod findings;
mod show;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use consort_client::{Client, Cluster};

use super::remote::{RemoteArgs, explain};
use super::{SOMETHING_WRONG, fail, print};
use findings::Findings;

pub(super) const EXAMPLES: &str = "\
Examples:
  consort status                                    ask the node on this machine
  consort status --url http://10.0.0.7:7400         ask any other: all nodes give the same answer
  consort status --roles                            every role on a line of its own
  consort status --watch                            look again every second
  consort status --json | jq '.roles[].lag'         for programs: the answer of GET /cluster

The table is on standard output. What is wrong is said on standard error, in sentences, before it:
roles that no node has, roles that stopped or are hindered, roles that a node gave up.

Exit codes:
  0  all is well
  1  no node could be asked
  3  something is wrong in the cluster; standard error says what";

/// How often `--watch` looks: twice as seldom as nodes tell how they do.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Clears a terminal and goes to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

#[derive(Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// List every role, not one line for each kind and owner
    #[arg(long)]
    roles: bool,
    /// Print the node's answer as JSON; with --watch, one object a line
    #[arg(long, conflicts_with = "roles")]
    json: bool,
    /// Look again every second until stopped
    #[arg(long)]
    watch: bool,
}

pub(super) fn run(arguments: &StatusArgs) -> ExitCode {
    arguments.remote.run(async |client| match arguments.watch {
        false => {
            let cluster = client.cluster().await.map_err(|error| explain(&error))?;
            arguments.show(&cluster)
        }
        true => arguments.watch(&client).await,
    })
}

impl StatusArgs {
    async fn watch(&self, client: &Client) -> Result<ExitCode, String> {
        loop {
            let looked = client.cluster().await;
            if !self.json && std::io::stdout().is_terminal() {
                print(CLEAR)?;
            }
            match looked {
                Ok(cluster) => drop(self.show(&cluster)?),
                // The node may be restarting: whoever watches wants to see it come back.
                Err(error) => drop(fail(0, &explain(&error))),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Words to standard error, then the data to standard output.
    fn show(&self, cluster: &Cluster) -> Result<ExitCode, String> {
        let findings = Findings::of(cluster);
        eprintln!("{findings}");
        print(&self.data(cluster)?)?;
        Ok(match findings.wrong.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(SOMETHING_WRONG),
        })
    }

    fn data(&self, cluster: &Cluster) -> Result<String, String> {
        let json = match (self.json, self.watch) {
            (false, _) => return Ok(show::tables(&cluster.status, self.roles)),
            (true, false) => serde_json::to_string_pretty(cluster),
            (true, true) => serde_json::to_string(cluster),
        };
        json.map(|json| json + "\n").map_err(|error| error.to_string())
    }
}
