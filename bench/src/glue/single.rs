//! Each piece a request of its own, on connections that are kept.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use consort_client::Method;
use futures::future::try_join_all;

use super::documents::{COLLECTION, DOCUMENTS, id, patch};
use super::node::Node;

/// What an answer says of the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It is applied.
    Applied,
    /// It is stored.
    Stored,
}

impl Wait {
    pub(super) fn query(self) -> &'static str {
        match self {
            Wait::Applied => "?wait=applied",
            Wait::Stored => "",
        }
    }

    pub(super) fn status(self) -> u16 {
        match self {
            Wait::Applied => 200,
            Wait::Stored => 202,
        }
    }
}

/// Answers a second. The pieces are applied when this returns; the time until then counts, so that no round lives on
/// what the next one has to do.
pub(super) async fn run(node: &Node, clients: usize, wait: Wait, each: Duration) -> Result<f64> {
    let started = Instant::now();
    let client = |_| async {
        let mut connection = node.connection();
        let mut pieces = 0_u64;
        while started.elapsed() < each {
            let id = id(rand::random_range(1..=DOCUMENTS));
            let path = format!("/glue/{COLLECTION}/{id}{}", wait.query());
            let headers = [("content-type", "application/merge-patch+json")];
            let reply = connection.send(Method::PATCH, &path, &headers, patch()).await?;
            let told = String::from_utf8_lossy(&reply.body);
            ensure!(reply.status.as_u16() == wait.status(), "{}: {told}", reply.status);
            pieces += 1;
        }
        Ok(pieces)
    };
    let sent: u64 = try_join_all((0..clients).map(client)).await?.into_iter().sum();
    node.until_applied(sent).await?;
    Ok(sent as f64 / started.elapsed().as_secs_f64())
}
