//! The operator: asks nodes over HTTP, as people do.

use consort_client::{Client, ClientError, Cluster};

/// How a request to retire a node was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It will leave.
    Taken,
    /// It cannot leave now: it is out of touch, or nobody else is there.
    Refused,
    /// Nobody knows: ask again.
    Unclear(String),
}

/// Asks the node at `address` that node `id` retires.
pub async fn drain(address: &str, id: &str) -> Answer {
    match client(address).drain(id).await {
        Ok(()) => Answer::Taken,
        Err(ClientError::Refused { kind, .. })
            if ["no-such-node", "last-node"].contains(&&*kind) =>
        {
            Answer::Refused
        }
        Err(error) => Answer::Unclear(error.to_string()),
    }
}

/// The cluster as the node at `address` shows it.
pub async fn cluster(address: &str) -> Result<Cluster, ClientError> {
    client(address).cluster().await
}

fn client(address: &str) -> Client {
    Client::new(address, None).expect("a node tells where it listens")
}
