//! Restate from npm with a virtual object that merges, beside single pieces that are waited for: an object and a document
//! both take one change after another. Restate calls a service of the user's for each change, here one of Node.js; that is
//! part of what it is.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use consort_client::{Client, Connection, Method};
use consort_testbed::{Port, Process};
use futures::future::try_join_all;
use tempfile::TempDir;

use super::documents::{DOCUMENTS, id, patch, put_all};
use super::node::{Ground, Node};
use super::single::{self, Wait};
use super::{CLIENTS, compared};
use crate::measure::median;
use crate::report::Report;

/// A folder in which `npm install @restatedev/restate-server @restatedev/restate-sdk` was run before, for machines
/// without a network.
const FOLDER_VARIABLE: &str = "BENCH_RESTATE";

const PACKAGES: [&str; 2] = ["@restatedev/restate-server@1", "@restatedev/restate-sdk@1"];

const READY_WITHIN: Duration = Duration::from_secs(60);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The service: `Promise.withResolvers` is missing in the Node.js of Debian.
const SERVICE: &str = r#"
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new Promise((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
};
const restate = await import("@restatedev/restate-sdk");
const documents = restate.object({
  name: "documents",
  handlers: {
    merge: async (ctx, piece) => {
      ctx.set("document", Object.assign((await ctx.get("document")) ?? {}, piece));
    },
  },
});
restate.serve({ services: [documents], port: Number(process.argv[2]) });
"#;

/// Restate and its service, up as long as this value.
struct Restate {
    ingress: Client,
    _server: Process,
    _service: Process,
    _ports: Vec<Port>,
    /// After the processes, which write there until they end.
    _folder: TempDir,
}

/// Single changes of both, in turn. Without the packages the report says so.
pub(super) async fn run(rounds: usize, each: Duration, report: &mut Report) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("consort-restate-").tempdir()?;
    let packages = match installed(folder.path()) {
        Ok(packages) => packages,
        Err(error) => {
            report.note(format!("Restate is not compared: {error:#}."));
            return Ok(());
        }
    };
    let restate = Restate::start(folder, &packages).await?;
    let node = Node::start(Ground::Embedded).await?;
    put_all(&node).await?;
    let (mut theirs, mut ours) = (vec![], vec![]);
    for round in 0..=rounds {
        let changes = restate.changes(each).await?;
        let pieces = single::run(&node, CLIENTS, Wait::Applied, each).await?;
        eprintln!("  round {round}: {changes:.0}/s beside {pieces:.0}/s");
        if round > 0 {
            theirs.push(changes);
            ours.push(pieces);
        }
    }
    eprintln!("  {:.0}/s beside {:.0}/s", median(theirs.clone()), median(ours.clone()));
    let name = format!("single pieces, {CLIENTS} connections, wait=applied");
    let beside = "Restate, a virtual object that merges, in Node.js";
    report.add(&name, "pieces", beside, compared(&theirs, &ours), None);
    Ok(())
}

/// The folder with the packages.
fn installed(folder: &Path) -> Result<PathBuf> {
    let given = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
    let packages = given.clone().unwrap_or_else(|| folder.join("npm"));
    if given.is_none() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-fund", "--no-audit", "--prefix"]).arg(&packages).args(PACKAGES);
        let done = npm.stdin(Stdio::null()).output().context("npm does not run")?;
        ensure!(done.status.success(), "npm could not install it: {}", last_line(&done.stderr));
    }
    let program = program(&packages);
    ensure!(program.exists(), "there is no {}", program.display());
    Ok(packages)
}

fn program(packages: &Path) -> PathBuf {
    packages.join("node_modules/.bin/restate-server")
}

fn last_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().last().unwrap_or_default().to_owned()
}

impl Restate {
    async fn start(folder: TempDir, packages: &Path) -> Result<Restate> {
        let ports: Vec<Port> = (0..4).map(|_| Port::claim()).collect();
        let at = |index: usize| SocketAddr::from(([127, 0, 0, 1], ports[index].number()));
        let (ingress, admin, fabric, service) = (at(0), at(1), at(2), at(3));
        // Node.js looks for packages beside the module.
        let module = packages.join(format!("service-{}.mjs", service.port()));
        fs::write(&module, SERVICE)?;
        let mut node = Command::new("node");
        node.arg(&module).arg(service.port().to_string()).env("RESTATE_LOGGING", "ERROR");
        let service_process = Process::start(&node, &folder.path().join("service.log"));
        let config = folder.path().join("restate.toml");
        fs::write(
            &config,
            format!(
                "node-name = \"bench\"\ncluster-name = \"bench\"\nauto-provision = true\nbase-dir = {:?}\n\
                 bind-address = \"{fabric}\"\nlog-filter = \"warn\"\n[ingress]\nbind-address = \"{ingress}\"\n\
                 [admin]\nbind-address = \"{admin}\"\n",
                folder.path().join("restate")
            ),
        )?;
        let mut command = Command::new(program(packages));
        command.arg("--config-file").arg(&config).env("DO_NOT_TRACK", "1");
        let server = Process::start(&command, &folder.path().join("server.log"));
        let deployment = format!("{{\"uri\":\"http://{service}\"}}");
        let (client, began) = (Client::new(&format!("http://{admin}"), None)?, Instant::now());
        loop {
            let mut connection = Connection::new(client.clone(), ANSWER_WITHIN);
            let headers = [("content-type", "application/json")];
            let body = deployment.clone();
            let sent = connection.send(Method::POST, "/deployments", &headers, body).await;
            if sent.is_ok_and(|reply| reply.status.is_success()) {
                break;
            }
            let said = server.output();
            ensure!(began.elapsed() < READY_WITHIN, "Restate does not come up:\n{said}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(Restate {
            ingress: Client::new(&format!("http://{ingress}"), None)?,
            _server: server,
            _service: service_process,
            _ports: ports,
            _folder: folder,
        })
    }

    /// Changes a second, each answered when it is done.
    async fn changes(&self, each: Duration) -> Result<f64> {
        let began = Instant::now();
        let client = |_| async {
            let mut connection = Connection::new(self.ingress.clone(), ANSWER_WITHIN);
            let mut changes = 0_u64;
            while began.elapsed() < each {
                let path = format!("/documents/{}/merge", id(rand::random_range(1..=DOCUMENTS)));
                let headers = [("content-type", "application/json")];
                let reply = connection.send(Method::POST, &path, &headers, patch()).await?;
                let told = String::from_utf8_lossy(&reply.body);
                ensure!(reply.status.is_success(), "{}: {told}", reply.status);
                changes += 1;
            }
            Ok(changes)
        };
        let changes: u64 = try_join_all((0..CLIENTS).map(client)).await?.into_iter().sum();
        Ok(changes as f64 / began.elapsed().as_secs_f64())
    }
}
