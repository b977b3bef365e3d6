//! Benchmarks: `cargo xtask bench engines`, `cargo xtask bench cluster`, `cargo xtask bench db`, `cargo xtask bench lifts`, `cargo xtask
//! bench events`, `cargo xtask bench once`, `cargo xtask bench overload`, `cargo xtask bench glue`, `cargo xtask bench
//! scaling`.
//!
//! Each figure of the engines and of the lift rides stands beside its limit or peer, measured in the same
//! run and in turn with it, since the machine's own speed varies: what counts is the ratio. The cluster's
//! figures are times, which stand beside the time to live of a lease.

mod cluster;
mod db;
mod engines;
mod events;
mod glue;
mod lifts;
mod measure;
mod once;
mod overload;
mod report;
mod scaling;
mod wrk;

use std::net::SocketAddr;

use anyhow::Result;
use clap::{Parser, Subcommand};

use cluster::Rounds;
use measure::Pace;
use report::{Report, Results};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// A short run to see that it works.
    #[arg(long, global = true)]
    quick: bool,
}

#[derive(Subcommand)]
enum Command {
    /// The engines beside the bare libraries and servers they stand on.
    Engines,
    /// How long work stands still when the cluster changes.
    Cluster,
    /// The lift-ride service beside a bare handler and beside the usual design.
    Lifts {
        /// One part alone; its figures are not kept.
        #[arg(long)]
        only: Option<lifts::Part>,
    },
    /// Events by the minute beside Bytewax and StatsD.
    Events {
        /// One part alone; its figures are not kept.
        #[arg(long)]
        only: Option<events::Part>,
    },
    /// Once beside nginx, Varnish and a bare handler.
    Once {
        /// One part alone; its figures are not kept.
        #[arg(long)]
        only: Option<once::Part>,
    },
    /// Documents assembled from pieces, beside PostgreSQL.
    Glue {
        /// One part alone; its figures are not kept.
        #[arg(long)]
        only: Option<glue::Part>,
    },
    /// Databases beside PostgreSQL, sqld and rqlite.
    Db {
        /// One part alone; its figures are not kept.
        #[arg(long)]
        only: Option<db::Part>,
    },
    /// A node that is sent bodies which cost much more to take than to send.
    Overload,
    /// How `consort up` follows a load that steps up and down.
    Scaling,
    /// The origin behind once, as a process of its own.
    #[command(hide = true)]
    ServeOrigin {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// The bare handler beside once, as a process of its own.
    #[command(hide = true)]
    ServeBare {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// The bare handler of the lift rides, as a process of its own.
    #[command(hide = true)]
    ServeLimit {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// The usual design, as a process of its own.
    #[command(hide = true)]
    ServeUsual {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        redis: String,
        #[arg(long)]
        amqp: String,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { command, quick } = Arguments::parse();
    match command {
        Command::Engines => {
            let pace = if quick { Pace::QUICK } else { Pace::FULL };
            let mut report = Report::new("engines");
            engines::run(pace, &mut report).await?;
            show(&report.results()?, !quick)
        }
        Command::Cluster => {
            let rounds = if quick { Rounds::QUICK } else { Rounds::FULL };
            show(&cluster::run(rounds).await?, !quick)
        }
        Command::Db { only } => {
            let pace = if quick { db::Pace::QUICK } else { db::Pace::FULL };
            show(&db::run(pace, only).await?, !quick && only.is_none())
        }
        Command::Lifts { only } => {
            let pace = if quick { lifts::Pace::QUICK } else { lifts::Pace::FULL };
            let keep = !quick && only.is_none();
            show(&lifts::run(pace, only, keep).await?, keep)
        }
        Command::Events { only } => {
            let pace = if quick { events::Pace::QUICK } else { events::Pace::FULL };
            show(&events::run(pace, only).await?, !quick && only.is_none())
        }
        Command::Once { only } => {
            let pace = if quick { once::Pace::QUICK } else { once::Pace::FULL };
            show(&once::run(pace, only).await?, !quick && only.is_none())
        }
        Command::Glue { only } => {
            let pace = if quick { glue::Pace::QUICK } else { glue::Pace::FULL };
            show(&glue::run(pace, only).await?, !quick && only.is_none())
        }
        Command::Overload => {
            let pace = if quick { overload::Pace::QUICK } else { overload::Pace::FULL };
            show(&overload::run(pace).await?, !quick)
        }
        Command::Scaling => {
            let pace = if quick { scaling::Pace::QUICK } else { scaling::Pace::FULL };
            show(&scaling::run(pace).await?, !quick)
        }
        Command::ServeOrigin { listen } => once::origin::serve(listen).await,
        Command::ServeBare { listen } => once::bare::serve(listen).await,
        Command::ServeLimit { listen } => lifts::limit::serve(listen).await,
        Command::ServeUsual { listen, redis, amqp } => {
            lifts::usual::serve(listen, &redis, &amqp).await
        }
    }
}

fn show(results: &Results, keep: bool) -> Result<()> {
    results.print();
    if keep {
        return results.write();
    }
    eprintln!("a quick run, or a part: its figures are not kept");
    Ok(())
}
