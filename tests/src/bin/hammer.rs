//! A process that appends and commits as fast as the engine lets it, and tells of each attempt and each
//! acknowledgement, so that whoever kills it knows what must be there.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use consort_engines::{Durability, Engine, Options};
use consort_kernel::{AppendError, CommitError, Producer, Shard};
use consort_tests::record::{Deed, Line};
use consort_tests::work::{self, PARTITIONS, SHARDS};
use tokio::task::JoinSet;

/// Between two tries where the engine is out of reach.
const RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// The engine's address.
    url: String,
    /// What the producers' numbers are drawn from: fresh for each start.
    seed: u64,
    /// The broker's address, if the log is on one.
    #[arg(long)]
    broker: Option<String>,
    #[arg(long, default_value = "hammer")]
    namespace: String,
    /// How many frames each partition and how many commits each shard gets.
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// The bytes of the largest frames, about.
    #[arg(long, default_value_t = 16_384)]
    frame_bytes: u32,
    /// Leaves out the fsync.
    #[arg(long)]
    process_durability: bool,
    /// Accepts a server that may forget.
    #[arg(long)]
    allow_volatile: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hammer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let durability =
        if arguments.process_durability { Durability::Process } else { Durability::Fsync };
    let options = Options {
        url: arguments.url.clone(),
        broker: arguments.broker.clone(),
        namespace: arguments.namespace.clone(),
        shards: SHARDS,
        durability,
        allow_volatile: arguments.allow_volatile,
        tls_ca: None,
    };
    let engine = consort_engines::open(&options).await?;
    tell(Line::Open)?;
    let mut tasks = JoinSet::new();
    for index in 0..PARTITIONS {
        tasks.spawn(append(engine.clone(), index, arguments.clone()));
    }
    for shard in 0..SHARDS {
        tasks.spawn(commit(engine.clone(), Shard(shard), arguments.count));
    }
    // Tasks that met the failed engine may be first to say so; the engine's own words are better.
    let mut failed = Ok(());
    while let Some(ended) = tasks.join_next().await {
        failed = failed.and(ended?);
    }
    match engine.poison.reason() {
        Some(reason) => bail!("{reason}"),
        None => failed,
    }
}

async fn append(engine: Engine, index: u32, arguments: Arguments) -> anyhow::Result<()> {
    let at = work::partition(index);
    let producer = Producer(arguments.seed.wrapping_add(u64::from(index)));
    for sequence in 0..arguments.count {
        let frame = work::frame(index, producer, sequence, arguments.frame_bytes);
        let deed = Deed::Append { partition: index, producer, sequence };
        tell(Line::Try(deed))?;
        loop {
            match engine.log.append(&at, &frame).await {
                Ok(()) => break,
                Err(AppendError::Unknown(fault) | AppendError::Engine(fault))
                    if fault.retryable() => {}
                Err(error) => return Err(error).with_context(|| deed.to_string()),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
        tell(Line::Done(deed))?;
    }
    Ok(())
}

async fn commit(engine: Engine, shard: Shard, count: u64) -> anyhow::Result<()> {
    let first = engine.store.get(shard, &work::cells()).await?;
    let first = work::number(first[0].as_ref());
    for number in first + 1..=first + count {
        let deed = Deed::Commit { shard: shard.0, number };
        tell(Line::Try(deed))?;
        loop {
            match engine.store.commit(shard, work::commit(shard, number)).await {
                Ok(_) => break,
                // An earlier try of this one, whose outcome was unknown, has gone in.
                Err(CommitError::Stale(held)) if work::number(held[0].as_ref()) == number => break,
                Err(CommitError::Unknown(fault) | CommitError::Engine(fault))
                    if fault.retryable() => {}
                Err(error) => return Err(error).with_context(|| deed.to_string()),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
        tell(Line::Done(deed))?;
    }
    Ok(())
}

/// Puts a line into the pipe: it outlives this process.
fn tell(line: Line) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
