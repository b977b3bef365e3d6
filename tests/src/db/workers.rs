//! All workers of a database: at the begin of a trial they have its schema, at its end the same contents.

use std::process::Command;

use consort_testbed::eventually;

use super::SETTLED_WITHIN;
use super::client::NodeList;
use super::status;

/// Waits until every node lists a leader and readers that have applied the schema, which is the first entry.
pub async fn have_schema(nodes: &NodeList, database: &str) {
    for address in nodes.all() {
        let what = format!("{address} lists workers of {database} that have its schema");
        eventually(&what, SETTLED_WITHIN, || async {
            let list = status::workers(&address, database).await?;
            let is_whole = list.workers.len() as u64 == list.wanted && list.leader().is_some();
            (is_whole && list.workers.iter().all(|worker| worker.index > 0)).then_some(())
        })
        .await;
    }
}

/// Waits until every node lists the same workers, none of them behind, and lets each worker scan its file.
///
/// # Panics
///
/// If workers stay behind, or one has other contents than the head.
pub async fn all_equal(program: &str, nodes: &NodeList, database: &str) {
    let addresses = nodes.all();
    for address in &addresses {
        let what =
            format!("{address} lists a leader and readers of {database}, none of them behind");
        eventually(&what, SETTLED_WITHIN, || async {
            let list = status::workers(address, database).await?;
            let same = |worker: &status::WorkerEntry| {
                worker.lag == 0 && worker.index == list.workers[0].index
            };
            let is_whole = list.workers.len() as u64 == list.wanted && list.leader().is_some();
            (is_whole && list.workers.iter().all(same)).then_some(())
        })
        .await;
    }
    verify(program, &addresses[0], database).await;
}

/// `consort db verify`: every worker scans its file and compares the content hash with that of the head. Exit code 0
/// means that all are equal.
async fn verify(program: &str, address: &str, database: &str) {
    let mut command = Command::new(program);
    command.args(["db", "verify", database, "--url", address]);
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let output = ran.expect("the command does not panic").expect("the command starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "the workers of {database} differ:\n{said}");
    eprintln!("{database}: {}", said.trim());
}
