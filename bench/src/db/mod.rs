//! Databases: single rows that are written durably, and rows that are read by their key, over HTTP from 64
//! connections; beside PostgreSQL 15 with its own load program, and beside sqld and rqlite, which also are SQLite
//! behind HTTP. All write to the same disk, in turn, and the load comes from the same machine.
//!
//! sqld and Consort answer the very same requests of Hrana. PostgreSQL speaks a binary protocol to a client in C, which
//! costs the machine less than HTTP does.

mod failover;
mod growth;
mod node;
mod peers;
mod postgres;
mod scripts;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::measure::{Compared, median};
use crate::report::{Report, Results};
use crate::wrk::{self, Seen};
use node::{Ground, Nodes};
use peers::{Rqlite, Sqld};
use postgres::Postgres;
use scripts::Scripts;

/// Connections of each contestant.
const CONNECTIONS: usize = 64;
/// Rows that are there to be read.
const ROWS: u64 = 100_000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rounds, one more to warm up.
    rounds: usize,
    /// How long each side works in a round. Whole seconds: `pgbench` knows no others.
    each: Duration,
    /// How often a leader is killed, and how often one falls silent.
    failovers: usize,
    /// MiB of the database that a new reader loads.
    loaded: usize,
}

impl Pace {
    /// For figures: some ten minutes.
    pub(crate) const FULL: Pace =
        Pace { rounds: 5, each: Duration::from_secs(4), failovers: 9, loaded: 100 };
    /// To see that it works.
    pub(crate) const QUICK: Pace =
        Pace { rounds: 1, each: Duration::from_secs(1), failovers: 1, loaded: 8 };
}

/// A part of it, for a run of that part alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Rows,
    Redis,
    Failover,
    Growth,
}

/// Measures all of it, or one part.
pub(crate) async fn run(pace: Pace, only: Option<Part>) -> Result<Results> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let mut report = Report::new("db");
    if wanted(Part::Rows) {
        eprintln!("rows");
        rows(pace, &mut report).await?;
    }
    if wanted(Part::Redis) {
        eprintln!("rows on Redis");
        rows_on_redis(pace, &mut report).await?;
    }
    if wanted(Part::Failover) {
        eprintln!("failover");
        failover::run(pace.failovers, &mut report).await?;
    }
    if wanted(Part::Growth) {
        eprintln!("a new reader");
        growth::run(pace.loaded, &mut report).await?;
    }
    report.results()
}

/// One kind of work at all contestants, in turn.
struct Side<'a> {
    name: &'static str,
    address: SocketAddr,
    inserts: &'a str,
    reads: &'a str,
}

async fn rows(pace: Pace, report: &mut Report) -> Result<()> {
    let scripts = Scripts::write(ROWS)?;
    let postgres = Postgres::start(ROWS).await?;
    let nodes = Nodes::start(Ground::Embedded, 1).await?;
    let sqld = Sqld::start().await?;
    let rqlite = Rqlite::start().await?;
    nodes.fill(ROWS).await?;
    sqld.fill(ROWS).await?;
    rqlite.fill(ROWS).await?;
    report.note(format!(
        "{CONNECTIONS} connections, rows of about 40 bytes, {ROWS} rows at the start. {}, synchronous commit, pgbench \
         with prepared statements. Consort: one node, embedded with fsync. {}, {}: as they come.",
        postgres.version(),
        sqld.version(),
        rqlite.version(),
    ));
    let sides = [
        Side { name: "Consort", address: nodes.address(0), inserts: "insert", reads: "read" },
        Side {
            name: "Consort, Hrana",
            address: nodes.address(0),
            inserts: "hrana-insert",
            reads: "hrana-read",
        },
        Side {
            name: "sqld, Hrana",
            address: sqld.address(),
            inserts: "sqld-insert",
            reads: "sqld-read",
        },
        Side {
            name: "rqlite",
            address: rqlite.address(),
            inserts: "rqlite-insert",
            reads: "rqlite-read",
        },
    ];
    let (mut inserts, mut reads) = (vec![vec![]; sides.len() + 1], vec![vec![]; sides.len() + 1]);
    for round in 0..=pace.rounds {
        let keep = round > 0;
        let postgres_inserts = postgres.inserts(CONNECTIONS, pace.each)?;
        let postgres_reads = postgres.reads(CONNECTIONS, pace.each)?;
        let mut line =
            format!("  round {round}: PostgreSQL {postgres_inserts:.0} {postgres_reads:.0}");
        if keep {
            inserts[0].push(postgres_inserts);
            reads[0].push(postgres_reads);
        }
        for (n, side) in sides.iter().enumerate() {
            let inserted = load(&scripts, side.inserts, side.address, pace.each).await?;
            let read = load(&scripts, side.reads, side.address, pace.each).await?;
            line.push_str(&format!("; {} {:.0} {:.0}", side.name, inserted.rate, read.rate));
            if keep {
                inserts[n + 1].push(inserted.rate);
                reads[n + 1].push(read.rate);
            }
        }
        eprintln!("{line}");
    }
    let mut add = |what: &str, rates: &[Vec<f64>], least: f64| {
        let beside = "PostgreSQL";
        report.add(what, "requests", beside, compared(&rates[0], &rates[1]), Some(least));
        let name = format!("{what}, by Hrana");
        report.add(&name, "requests", "sqld", compared(&rates[3], &rates[2]), Some(10.0));
        report.add(what, "requests", "rqlite", compared(&rates[4], &rates[1]), None);
    };
    add("single-row durable inserts", &inserts, 1.5);
    add("reads of one row by its key", &reads, 1.0);
    Ok(())
}

async fn rows_on_redis(pace: Pace, report: &mut Report) -> Result<()> {
    let scripts = Scripts::write(ROWS)?;
    let nodes = Nodes::start(Ground::Redis, 1).await?;
    nodes.fill(ROWS).await?;
    let (mut inserts, mut reads) = (vec![], vec![]);
    for _ in 0..=pace.rounds {
        inserts.push(load(&scripts, "insert", nodes.address(0), pace.each).await?.rate);
        reads.push(load(&scripts, "read", nodes.address(0), pace.each).await?.rate);
    }
    report.note(format!(
        "On Redis 7 with appendfsync everysec, one node: {:.0} inserts/s and {:.0} reads/s.",
        median(inserts),
        median(reads)
    ));
    Ok(())
}

async fn load(scripts: &Scripts, name: &str, address: SocketAddr, each: Duration) -> Result<Seen> {
    let seen = wrk::run(&scripts.path(name), address, CONNECTIONS, each).await?;
    ensure!(seen.refused == 0 && seen.broken == 0, "{name}: requests failed: {seen:?}");
    Ok(seen)
}

/// The median rates, and the median of the rounds' ratios.
fn compared(theirs: &[f64], ours: &[f64]) -> Compared {
    let ratios = theirs.iter().zip(ours).map(|(theirs, ours)| ours / theirs);
    Compared {
        limit: median(theirs.iter().copied()),
        ours: median(ours.iter().copied()),
        ratio: median(ratios),
    }
}
