//! (b) and (d), Consort itself: the real program, with a config file for each run.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tempfile::TempDir;
use toml::{Table, Value};

use super::ask;
use super::counters;
use super::ride::SEASON;
use super::served::Served;

/// The header that tells how far behind an answer may be, in seconds.
pub(super) const LAG: &str = "consort-lag";
/// The stream of rides, by its general route.
pub(super) const LINES: &str = "/streams/lift_rides";
/// A query that is cheap to answer.
const PROBE: &str = "/views/rides_per_hour?season=2026&day=1&hour=9";
/// The parameter by which a list of groups goes on.
const PAGE: &str = "after";
const READY: &str = "/readyz";
const STREAM: &str = "lift_rides";
/// The view of the example beyond the six questions.
const SEVENTH: &str = "resort_skier_vertical";
/// On a broker, as many partitions as the usual design has queues: each frame costs the broker much the same,
/// however much is in it.
const PARTITIONS: i64 = 2;
/// More than any load opens.
const CONNECTIONS: i64 = 4_096;

/// Two views whose updates merge: many rides change few groups.
const TWO_VIEWS: &str = r#"
[stream.lift_rides]
key    = "skier"
fields = { resort = "int 1..10", season = "text", day = "int 1..366", skier = "int 1..100000", time = "int 0..1439", liftID = "int 1..60", waitTime = "int?" }

[view.lift_rides_per_day]
from  = "lift_rides"
by    = ["liftID", "season", "day"]
count = true

[view.rides_per_hour]
from  = "lift_rides"
by    = ["season", "day", { hour = "time / 60" }]
count = true
"#;

/// One view with many members.
const MEMBERS: &str = r#"
[stream.lift_rides]
key    = "member"
fields = { group = "int", member = "int" }

[view.members]
from     = "lift_rides"
by       = ["group"]
distinct = "member"
"#;

/// What a node is to keep.
#[derive(Debug, Clone, Copy)]
pub(super) enum Definitions {
    /// The six views of the public example.
    Lifts,
    TwoViews,
    Members,
}

/// Where a node keeps it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ground<'a> {
    /// In its own folder, with fsync.
    Embedded,
    /// On servers, in a namespace of its own.
    Servers { redis: &'a str, amqp: &'a str, namespace: &'a str },
}

/// The program.
#[derive(Debug)]
pub(super) struct Consort {
    program: PathBuf,
    example: String,
}

impl Consort {
    /// The program beside this one, if it accepts the example's config. The error says what to do.
    pub(super) fn find() -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("consort");
        ensure!(
            program.is_file(),
            "there is no program 'consort' beside this one; run: cargo build --release --package consort"
        );
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lifts.toml");
        let example = fs::read_to_string(&path).context("examples/lifts.toml cannot be read")?;
        let consort = Consort { program, example };
        let folder = tempfile::tempdir()?;
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let file = consort.write(Definitions::Lifts, Ground::Embedded, None, listen, &folder)?;
        let checked = Command::new(&consort.program).arg("check").arg("-c").arg(file).output()?;
        if !checked.status.success() {
            let said = String::from_utf8_lossy(&checked.stderr);
            bail!("`consort check` does not accept examples/lifts.toml:\n{said}");
        }
        Ok(consort)
    }

    /// Starts a node, and waits until it is ready.
    pub(super) async fn start(
        &self,
        name: &'static str,
        definitions: Definitions,
        ground: Ground<'_>,
        gate: Option<&str>,
    ) -> Result<Served> {
        let command = |listen: SocketAddr, folder: &TempDir| {
            let file = self.write(definitions, ground, gate, listen, folder)?;
            let mut command = Command::new(&self.program);
            command.arg("serve").arg("-c").arg(file);
            Ok(command)
        };
        let mut served = Served::start(name, command, Some(counters::CONSORT)).await?;
        served.probe = matches!(definitions, Definitions::Lifts).then_some(PROBE);
        served.until_ready(READY).await?;
        Ok(served)
    }

    fn write(
        &self,
        definitions: Definitions,
        ground: Ground<'_>,
        gate: Option<&str>,
        listen: SocketAddr,
        folder: &TempDir,
    ) -> Result<PathBuf> {
        let text = match definitions {
            Definitions::Lifts => &self.example,
            Definitions::TwoViews => TWO_VIEWS,
            Definitions::Members => MEMBERS,
        };
        let mut config: Table = text.parse().context("the definitions are not TOML")?;
        // The six questions are measured; the seventh view of the example serves one more GET.
        table(&mut config, "view")?.remove(SEVENTH);
        let http = table(&mut config, "http")?;
        http.insert("listen".into(), listen.to_string().into());
        http.insert("max_connections".into(), CONNECTIONS.into());
        let engine = table(&mut config, "engine")?;
        match ground {
            Ground::Embedded => {
                let data = folder.path().join("data");
                engine.insert("url".into(), format!("embedded:{}", data.display()).into());
            }
            Ground::Servers { redis, amqp, namespace } => {
                engine.insert("url".into(), redis.into());
                engine.insert("broker".into(), amqp.into());
                engine.insert("namespace".into(), namespace.into());
                engine.insert("partitions".into(), PARTITIONS.into());
            }
        }
        table(&mut config, "log")?.insert("level".into(), "warn".into());
        if let Some(gate) = gate {
            let stream = table(table(&mut config, "stream")?, STREAM)?;
            stream.insert("gate".into(), gate.into());
        }
        let path = folder.path().join("consort.toml");
        fs::write(&path, config.to_string())?;
        Ok(path)
    }
}

/// The table of that name, made if there is none.
fn table<'a>(of: &'a mut Table, name: &str) -> Result<&'a mut Table> {
    let value = of.entry(name).or_insert_with(|| Value::Table(Table::new()));
    value.as_table_mut().with_context(|| format!("'{name}' is no table"))
}

#[derive(Debug, Deserialize)]
struct Groups {
    groups: Vec<Group>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Group {
    value: u64,
}

/// The sum of all rides per hour: it must be the number of all rides.
pub(super) async fn rides(served: &Served) -> Result<u64> {
    let mut sum = 0;
    let mut next: Option<String> = None;
    loop {
        let page = next.map_or(String::new(), |next| format!("&{PAGE}={next}"));
        let path = format!("/views/rides_per_hour?season={SEASON}{page}");
        let text = ask::get(served.address, &path).await?.text()?;
        let groups: Groups = serde_json::from_str(&text).with_context(|| path.clone())?;
        sum += groups.groups.iter().map(|group| group.value).sum::<u64>();
        next = groups.next;
        if next.is_none() {
            return Ok(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_has_the_definitions_and_the_settings_of_its_run() {
        let example = "[stream.lift_rides]\nkey = \"skier\"\n[http]\nlisten = \"1.2.3.4:1\"\n";
        let consort = Consort { program: "consort".into(), example: example.into() };
        let folder = tempfile::tempdir().unwrap();
        let ground = Ground::Servers { redis: "redis://r", amqp: "amqp://b", namespace: "n" };
        let listen = SocketAddr::from(([127, 0, 0, 1], 9));
        let path = consort.write(Definitions::Lifts, ground, Some("off"), listen, &folder).unwrap();
        let config: Table = fs::read_to_string(path).unwrap().parse().unwrap();
        let text = |table: &str, name: &str| config[table][name].as_str().unwrap().to_owned();
        assert_eq!(text("http", "listen"), "127.0.0.1:9");
        assert_eq!(text("engine", "broker"), "amqp://b");
        assert_eq!(config["stream"]["lift_rides"]["gate"].as_str(), Some("off"));
        assert_eq!(config["stream"]["lift_rides"]["key"].as_str(), Some("skier"));
    }
}
