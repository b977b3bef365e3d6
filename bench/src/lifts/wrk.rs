//! The load in a closed loop: `wrk`, which posts the next ride of a connection as soon as the last one is
//! answered, with a script that makes the rides beforehand.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use tempfile::TempDir;

use super::ride;
pub(super) use crate::wrk::Seen;
use crate::wrk::{self, DONE, THREADS};

const SCRIPT: &str = include_str!("load.lua");
/// The script in a folder of its own.
#[derive(Debug)]
pub(super) struct Wrk {
    folder: TempDir,
    /// Rides that all threads together make beforehand, and then post over and over.
    rides: usize,
}

impl Wrk {
    pub(super) fn new(rides: usize) -> Result<Self> {
        Ok(Wrk { folder: tempfile::Builder::new().prefix("consort-wrk-").tempdir()?, rides })
    }

    /// Posts for this long.
    pub(super) async fn run(
        &self,
        address: SocketAddr,
        connections: usize,
        time: Duration,
    ) -> Result<Seen> {
        wrk::run(&self.script()?, address, connections, time).await
    }

    /// Written anew for every run: other rides than the last time.
    fn script(&self) -> Result<PathBuf> {
        let path = self.folder.path().join("load.lua");
        std::fs::write(
            &path,
            script(self.rides / THREADS, rand::rng().random_range(0..1_000_000_000)),
        )?;
        Ok(path)
    }
}

fn script(requests: usize, seed: u32) -> String {
    let numbers = [
        ("SEED", seed),
        ("REQUESTS", requests as u32),
        ("RESORTS", ride::RESORTS),
        ("DAYS", ride::DAYS),
        ("SKIERS", ride::SKIERS),
        ("MINUTES", ride::MINUTES),
        ("LIFTS", ride::LIFTS),
        ("WAIT_TOLD", ride::WAIT_TOLD),
        ("LONGEST_WAIT", ride::LONGEST_WAIT),
    ];
    let mut text = String::new();
    for (name, value) in numbers {
        text.push_str(&format!("{name} = {value}\n"));
    }
    text + &SCRIPT.replace("seasons/SEASON", &format!("seasons/{}", ride::SEASON)) + DONE
}
