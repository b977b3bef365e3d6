//! Single questions.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use consort_client::{Client, Connection, Method};

use super::contestant::Served;
use super::origin::CALLS;

/// Longer than any lease, and than any answer may take.
const WITHIN: Duration = Duration::from_secs(30);

/// `GET path`, which must be answered with 200. Gives the body.
pub(super) async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let client = Client::new(&format!("http://{address}"), None)?;
    let reply = Connection::new(client, WITHIN).send(Method::GET, path, &[], "").await?;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    ensure!(reply.status == 200, "GET {path}: {} {text}", reply.status);
    Ok(text)
}

/// How often the origin was asked for a key.
pub(super) async fn calls(origin: &Served, key: &str) -> Result<u64> {
    let text = get(origin.address, &format!("{CALLS}{key}")).await?;
    text.parse().with_context(|| format!("the origin counts '{text}'"))
}

/// A key that nobody has asked for yet.
pub(super) fn fresh_key() -> String {
    format!("{:016x}", rand::random::<u64>())
}
