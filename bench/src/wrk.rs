//! `wrk`, a load program in a closed loop: each connection sends its next request as soon as the last one is answered.
//! A script in Lua makes the requests and prints one line with the result.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

/// The end of every script: it prints the result.
pub(crate) const DONE: &str = include_str!("done.lua");
/// What the script's result stands behind.
const MARK: &str = "RESULT ";
pub(crate) const THREADS: usize = 2;
/// How long `wrk` waits for an answer before it counts a time-out: longer than any contestant should
/// take, and than its own 2 s, which overload exceeds.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Beyond its time `wrk` ends within moments.
const END_WITHIN: Duration = Duration::from_secs(60);

/// What `wrk` saw. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Seen {
    /// Answers a second that are no errors.
    pub(crate) rate: f64,
    /// How many they were, and in how many seconds.
    pub(crate) accepted: u64,
    pub(crate) seconds: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Answers with a status of 400 and above.
    pub(crate) refused: u64,
    /// Connections refused or broken, and answers that did not come in time.
    pub(crate) broken: u64,
}

/// The line that the script prints: counts, and times in microseconds.
#[derive(Debug, Deserialize)]
struct Line {
    requests: u64,
    micros: f64,
    p50: f64,
    p99: f64,
    max: f64,
    refused: u64,
    connect: u64,
    read: u64,
    write: u64,
    timeout: u64,
}

/// Sends the script's requests for this long.
pub(crate) async fn run(
    script: &Path,
    address: SocketAddr,
    connections: usize,
    time: Duration,
) -> Result<Seen> {
    let output = Command::new("wrk")
        .arg(format!("--threads={THREADS}"))
        .arg(format!("--connections={connections}"))
        .arg(format!("--duration={}s", time.as_secs().max(1)))
        .arg(format!("--timeout={}s", ANSWER_WITHIN.as_secs()))
        .arg("--latency")
        .arg(format!("--script={}", script.display()))
        .arg(format!("http://{address}/"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(time + END_WITHIN, output)
        .await
        .context("wrk does not end")?
        .context("cannot run wrk; as root, run: apt-get install wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "wrk failed:\n{text}{complaint}");
    read(&text)
}

fn read(output: &str) -> Result<Seen> {
    let line = output.lines().find_map(|line| line.strip_prefix(MARK));
    let line = line.with_context(|| format!("wrk's script told no result:\n{output}"))?;
    let line: Line = serde_json::from_str(line).with_context(|| line.to_string())?;
    let accepted = line.requests.saturating_sub(line.refused);
    let seconds = (line.micros / 1e6).max(1e-6);
    Ok(Seen {
        rate: accepted as f64 / seconds,
        accepted,
        seconds,
        p50: line.p50 / 1e3,
        p99: line.p99 / 1e3,
        max: line.max / 1e3,
        refused: line.refused,
        broken: line.connect + line.read + line.write + line.timeout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_tells_is_read() {
        let output = "Running 1s test\n  Latency 1.6ms\n\nRESULT {\"requests\":1000,\"micros\":500000,\
                      \"p50\":1600,\"p99\":9000,\"max\":12000,\"refused\":100,\"connect\":1,\
                      \"read\":2,\"write\":0,\"timeout\":3}\n";
        let seen = read(output).unwrap();
        let wanted = Seen {
            rate: 1800.0,
            accepted: 900,
            seconds: 0.5,
            p50: 1.6,
            p99: 9.0,
            max: 12.0,
            refused: 100,
            broken: 6,
        };
        assert_eq!(seen, wanted);
    }

    #[test]
    fn an_output_without_a_result_is_shown() {
        assert!(read("unable to connect").unwrap_err().to_string().contains("unable to connect"));
    }
}
