//! Glue: documents of 2 KiB that are changed by small pieces, beside PostgreSQL 15 that changes the same documents by
//! `UPDATE … SET doc = jsonb_set(…)`. Both write to the same disk with a flush before each acknowledgement, in turn,
//! and the load comes from the same machine.
//!
//! Like is compared with like: single pieces with one piece a transaction, and bulk requests with both that and with
//! 1,000 pieces a transaction. PostgreSQL keeps no row for subscribers, orders nothing and knows no repeats.

mod bulk;
mod documents;
mod fairness;
mod follow;
mod handover;
mod long;
mod node;
mod postgres;
mod restate;
mod single;
mod written;

use std::time::Duration;

use anyhow::Result;
use consort_testbed::{Fsync, RabbitOptions, RabbitServer, RedisOptions, RedisServer};

use crate::measure::{Compared, median};
use crate::report::{Report, Results};
use documents::DOCUMENTS;
use node::{Ground, Node};
use postgres::Postgres;
use single::Wait;

/// Connections of both sides where each piece is a request or a transaction of its own. More than 16 make PostgreSQL
/// slower on two cores.
const POSTGRES_CLIENTS: usize = 16;
const CLIENTS: usize = 64;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rounds, one more to warm up.
    rounds: usize,
    /// Pieces of a bulk round.
    bulk: usize,
    /// How long each side works in a round of single pieces. Whole seconds: `pgbench` knows no others.
    each: Duration,
    /// How many pieces the long document gets.
    long: u64,
    /// How long the subscriber is watched, and how long a quiet tenant.
    follow: Duration,
    /// How often a node joins and leaves.
    joins: usize,
    /// Pieces of each kind whose bytes are counted.
    counted: u64,
}

impl Pace {
    /// For figures: a million pieces in bulk, and some six minutes in all.
    pub(crate) const FULL: Pace = Pace {
        rounds: 9,
        bulk: 100_000,
        each: Duration::from_secs(4),
        long: 100_000,
        follow: Duration::from_secs(20),
        joins: 10,
        counted: 20_000,
    };
    /// To see that it works.
    pub(crate) const QUICK: Pace = Pace {
        rounds: 1,
        bulk: 10_000,
        each: Duration::from_secs(1),
        long: 2_000,
        follow: Duration::from_secs(2),
        joins: 1,
        counted: 2_000,
    };
}

/// A part of it, for a run of that part alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Bulk,
    Single,
    Long,
    Follow,
    Brokers,
    Xml,
    Fairness,
    Handover,
    Written,
    Restate,
}

/// Measures all of it, or one part.
pub(crate) async fn run(pace: Pace, only: Option<Part>) -> Result<Results> {
    let wanted = |part| only.is_none_or(|only| only == part);
    let mut report = Report::new("glue");
    let postgres = Postgres::start(DOCUMENTS).await?;
    report.note(format!(
        "{DOCUMENTS} JSON documents of 2 KiB and pieces of some 150 bytes, each a merge patch of one member. {}, \
         synchronous commit, {POSTGRES_CLIENTS} connections of pgbench with prepared statements. Consort: one node, \
         embedded with fsync unless said otherwise.",
        postgres.version()
    ));
    if wanted(Part::Bulk) || wanted(Part::Single) {
        let node = Node::start(Ground::Embedded).await?;
        documents::put_all(&node).await?;
        if wanted(Part::Bulk) {
            eprintln!("bulk");
            bulk_beside(pace, &node, &postgres, &mut report).await?;
        }
        if wanted(Part::Single) {
            eprintln!("single pieces");
            single_beside(pace, &node, &postgres, &mut report).await?;
        }
    }
    if wanted(Part::Long) {
        eprintln!("a long document");
        let node = Node::start_with(Ground::Embedded, "history = 100").await?;
        long::run(pace.rounds, pace.long, &node, &mut report).await?;
    }
    if wanted(Part::Follow) {
        eprintln!("a subscriber");
        let node = Node::start(Ground::Embedded).await?;
        documents::put_all(&node).await?;
        follow::run(pace.follow, &node, &mut report).await?;
    }
    if wanted(Part::Xml) {
        eprintln!("XML in bulk");
        let node = Node::start(Ground::Embedded).await?;
        xml_in_bulk(pace, &node, &mut report).await?;
    }
    if wanted(Part::Fairness) {
        eprintln!("a quiet tenant beside floods");
        fairness::run(pace.follow, &mut report).await?;
    }
    if wanted(Part::Handover) {
        eprintln!("nodes that join and leave");
        handover::run(pace.joins, &mut report).await?;
    }
    if wanted(Part::Written) {
        eprintln!("bytes a piece");
        written::run(pace.counted, &mut report).await?;
    }
    if wanted(Part::Restate) {
        eprintln!("Restate");
        restate::run(pace.rounds, pace.each, &mut report).await?;
    }
    if wanted(Part::Brokers) {
        eprintln!("on Redis and RabbitMQ");
        on_brokers(pace, &postgres, &mut report).await?;
    }
    report.results()
}

/// Bulk requests beside one piece a transaction and beside 1,000.
async fn bulk_beside(
    pace: Pace,
    node: &Node,
    postgres: &Postgres,
    report: &mut Report,
) -> Result<()> {
    let (mut singles, mut many, mut ours, mut bytes) = (vec![], vec![], vec![], vec![]);
    for round in 0..=pace.rounds {
        let single = postgres.one_piece_a_transaction(pace.each)?;
        let batched = postgres.many_pieces_a_transaction(pace.each)?;
        let bulk = bulk::run(pace.bulk, node).await?;
        eprintln!(
            "  round {round}: {single:.0}/s and {batched:.0}/s beside {:.0}/s, {:.0} bytes a piece",
            bulk.rate, bulk.written
        );
        if round > 0 {
            singles.push(single);
            many.push(batched);
            ours.push(bulk.rate);
            bytes.push(bulk.written);
        }
    }
    let name = "pieces in bulk, NDJSON, until all are applied";
    let beside = "PostgreSQL, one piece a transaction";
    report.add(name, "pieces", beside, compared(&singles, &ours), Some(5.0));
    let beside = "PostgreSQL, 1,000 pieces a transaction";
    report.add(name, "pieces", beside, compared(&many, &ours), None);
    report.note(format!(
        "Bytes that the node's process has written to the disk for each piece in bulk, the log and compaction \
         included: {:.0}; the write-ahead log of PostgreSQL has {:.0} for each update.",
        median(bytes),
        postgres.wal_bytes_a_piece(pace.each)?,
    ));
    Ok(())
}

/// XML documents of 2 KiB, and pieces that each replace the text of one element.
async fn xml_in_bulk(pace: Pace, node: &Node, report: &mut Report) -> Result<()> {
    documents::put_all_xml(node).await?;
    let mut rates = vec![];
    for round in 0..=pace.rounds {
        let bulk = bulk::run_of(documents::XML, pace.bulk, node, documents::push_xml_line).await?;
        eprintln!("  round {round}: {:.0}/s", bulk.rate);
        if round > 0 {
            rates.push(bulk.rate);
        }
    }
    report.note(format!(
        "XML: {DOCUMENTS} documents of 2 KiB, and pieces that each replace the text of one element by an RFC 5261 patch, in \
         bulk until all are applied: {:.0} pieces/s.",
        median(rates)
    ));
    Ok(())
}

/// Single requests, answered when the piece is applied and when it is stored, beside one piece a transaction.
async fn single_beside(
    pace: Pace,
    node: &Node,
    postgres: &Postgres,
    report: &mut Report,
) -> Result<()> {
    let (mut theirs, mut applied, mut stored) = (vec![], vec![], vec![]);
    for round in 0..=pace.rounds {
        let postgres = postgres.one_piece_a_transaction(pace.each)?;
        let waited = single::run(node, CLIENTS, Wait::Applied, pace.each).await?;
        let sent = single::run(node, CLIENTS, Wait::Stored, pace.each).await?;
        eprintln!(
            "  round {round}: {postgres:.0}/s beside {waited:.0}/s applied and {sent:.0}/s stored"
        );
        if round > 0 {
            theirs.push(postgres);
            applied.push(waited);
            stored.push(sent);
        }
    }
    let beside = "PostgreSQL, one piece a transaction";
    let name = format!("single pieces, {CLIENTS} connections, wait=applied");
    report.add(&name, "pieces", beside, compared(&theirs, &applied), Some(2.0));
    let name = format!("single pieces, {CLIENTS} connections, 202");
    report.add(&name, "pieces", beside, compared(&theirs, &stored), None);
    Ok(())
}

/// Bulk requests to a node whose log is on RabbitMQ and whose store is on Redis.
async fn on_brokers(pace: Pace, postgres: &Postgres, report: &mut Report) -> Result<()> {
    let redis = RedisServer::start(RedisOptions::new().fsync(Fsync::Everysec)).await;
    let broker = RabbitServer::start(RabbitOptions::new()).await;
    let node = Node::start(Ground::Brokers { redis: &redis.url(), broker: &broker.url() }).await?;
    documents::put_all(&node).await?;
    let (mut theirs, mut ours) = (vec![], vec![]);
    for round in 0..=pace.rounds {
        let single = postgres.one_piece_a_transaction(pace.each)?;
        let bulk = bulk::run(pace.bulk, &node).await?;
        eprintln!("  round {round}: {single:.0}/s beside {:.0}/s", bulk.rate);
        if round > 0 {
            theirs.push(single);
            ours.push(bulk.rate);
        }
    }
    let name = "pieces in bulk on Redis (everysec) and RabbitMQ, until all are applied";
    let beside = "PostgreSQL, one piece a transaction";
    report.add(name, "pieces", beside, compared(&theirs, &ours), Some(1.0));
    Ok(())
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
