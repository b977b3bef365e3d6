//! What distinct members cost: the memory of the process, and the disk.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use serde::Serialize;

use super::ask;
use super::consort::{Consort, Definitions, Ground, LINES};

/// Many times what it should take.
const WITHIN: Duration = Duration::from_secs(600);

/// Before and after, in bytes.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) members: u64,
    pub(super) rss_before: u64,
    pub(super) rss_after: u64,
    pub(super) disk_before: u64,
    pub(super) disk_after: u64,
}

/// Counts so many distinct members of one group.
pub(super) async fn run(members: u64, consort: &Consort) -> Result<Memory> {
    let started = consort.start("members", Definitions::Members, Ground::Embedded, None);
    let mut served = started.await?;
    let (rss_before, disk_before) = (served.rss()?, served.on_disk());
    let mut lines = String::new();
    for member in 0..members {
        let _ = writeln!(lines, "{{\"group\":1,\"member\":{member}}}");
    }
    ask::post_lines(served.address, LINES, Bytes::from(lines), WITHIN).await?.text()?;
    served.caught_up(WITHIN).await?;
    let (rss_after, disk_after) = (served.rss()?, served.on_disk());
    Ok(Memory { members, rss_before, rss_after, disk_before, disk_after })
}
