//! The design everybody writes: a worker takes a line, and tells Redis each update by a command of its own.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use redis::AsyncCommands as _;
use std::time::Instant;

use super::lines::Lines;

/// Workers, each with a connection of its own and a share of the lines.
const WORKERS: usize = 4;

/// Seconds until all lines are in Redis.
pub(super) async fn run(lines: &Lines, url: &str) -> Result<f64> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    redis::cmd("FLUSHALL").exec_async(&mut connection).await?;
    let all: Vec<&[u8]> = lines.text.split_inclusive(|byte| *byte == b'\n').collect();
    let began = Instant::now();
    let workers = all.chunks(lines.count.div_ceil(WORKERS)).map(|share| {
        let (client, share) = (client.clone(), share.concat());
        tokio::spawn(async move { work(&client, &share).await })
    });
    for done in try_join_all(workers).await? {
        done?;
    }
    let seconds = began.elapsed().as_secs_f64();
    for view in ["unique", "cumulative"] {
        let mut sum = 0;
        for series in connection.keys::<_, Vec<String>>(format!("{view}:*")).await? {
            sum += connection.scard::<_, usize>(series).await?;
        }
        ensure!(sum == lines.count, "{view}: {sum} of {}", lines.count);
    }
    Ok(seconds)
}

async fn work(client: &redis::Client, text: &[u8]) -> Result<()> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Some((series, user, time)) = parts(std::str::from_utf8(line)?) else { continue };
        connection.sadd::<_, _, ()>(format!("unique:{series}"), user).await?;
        connection.sadd::<_, _, ()>(format!("cumulative:{series}"), [user, time].join(" ")).await?;
    }
    Ok(())
}

/// Series, user and time, as a script would take them apart.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (series, rest) = line.split_once(' ')?;
    let (field, time) = rest.rsplit_once(' ')?;
    Some((series, field.strip_prefix("value=")?, time))
}
