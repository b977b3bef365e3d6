//! PostgreSQL with the same rows, and `pgbench`, its own load program.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use consort_testbed::PostgresServer;
use tempfile::TempDir;

/// A server with the rows.
#[derive(Debug)]
pub(super) struct Postgres {
    server: PostgresServer,
    scripts: TempDir,
}

impl Postgres {
    /// Starts a server, and fills it.
    pub(super) async fn start(rows: u64) -> Result<Postgres> {
        let server = PostgresServer::start().await;
        server.query("CREATE TABLE points (id bigserial PRIMARY KEY, value text NOT NULL)");
        server.query(&format!(
            "INSERT INTO points (value) SELECT md5(n::text) FROM generate_series(1, {rows}) n"
        ));
        server.query("VACUUM ANALYZE points");
        let scripts = tempfile::Builder::new().prefix("consort-pgbench-").tempdir()?;
        let insert = "\\set value random(1, 2000000000)\n\
            INSERT INTO points (value) VALUES (lpad(to_hex(:value), 32, '0'));\n";
        fs::write(scripts.path().join("insert.sql"), insert)?;
        let read =
            format!("\\set id random(1, {rows})\nSELECT value FROM points WHERE id = :id;\n");
        fs::write(scripts.path().join("read.sql"), read)?;
        Ok(Postgres { server, scripts })
    }

    /// `PostgreSQL 15.14`
    pub(super) fn version(&self) -> String {
        let told = self.server.query("SELECT version()");
        told.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    /// Rows a second, each in a transaction of its own.
    pub(super) fn inserts(&self, clients: usize, each: Duration) -> Result<f64> {
        self.run("insert.sql", clients, each)
    }

    /// Reads a second.
    pub(super) fn reads(&self, clients: usize, each: Duration) -> Result<f64> {
        self.run("read.sql", clients, each)
    }

    fn run(&self, script: &str, clients: usize, each: Duration) -> Result<f64> {
        let mut pgbench = self.server.client("pgbench");
        pgbench.args(["-n", "-M", "prepared", "-j", "2"]);
        pgbench.args(["-c", &clients.to_string(), "-T", &each.as_secs().to_string()]);
        pgbench.arg("-f").arg(self.scripts.path().join(script));
        let answer = pgbench.output()?;
        let told = String::from_utf8_lossy(&answer.stdout);
        let errors = String::from_utf8_lossy(&answer.stderr);
        ensure!(answer.status.success(), "pgbench: {errors}");
        let rate = told.lines().find_map(|line| line.strip_prefix("tps = "));
        let rate = rate.and_then(|rate| rate.split(' ').next()).context("pgbench told no rate")?;
        Ok(rate.parse()?)
    }
}
