//! PostgreSQL with the same documents as `jsonb`, changed by `pgbench`, its own load program.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use consort_testbed::PostgresServer;
use tempfile::TempDir;

use super::POSTGRES_CLIENTS;
use super::documents::MEMBERS;

/// Pieces of a transaction, where they are many. They are sent without waiting in between.
const MANY: usize = 1_000;

/// Clients with such transactions, one for each core. Rows are locked until the end of a transaction, so two clients
/// that took the same rows in another order would have to give up: each has documents of its own.
const MANY_CLIENTS: usize = 2;

/// An update of one member of a document picked at random.
const UPDATE: &str = "\\set id random(1, DOCUMENTS)\n\\set member random(1, MEMBERS)\n\\set value random(1, 2000000000)\n\
    UPDATE documents SET version = version + 1, doc = jsonb_set(doc, ARRAY['field' || :member], \
    to_jsonb(md5((:value)::text) || md5((:value + 1)::text))) WHERE id = 'doc-' || :id;\n";

/// A server with the documents.
#[derive(Debug)]
pub(super) struct Postgres {
    server: PostgresServer,
    scripts: TempDir,
}

impl Postgres {
    /// Starts a server, and fills it.
    pub(super) async fn start(documents: usize) -> Result<Postgres> {
        let server = PostgresServer::start().await;
        server.query("CREATE TABLE documents (id text PRIMARY KEY, version bigint, doc jsonb)");
        server.query(&format!(
            "INSERT INTO documents SELECT 'doc-' || n, 1, (SELECT jsonb_object_agg('field' || m, \
             md5(n::text || m) || md5(m::text || n)) FROM generate_series(1, {MEMBERS}) m) \
             FROM generate_series(1, {documents}) n"
        ));
        server.query("VACUUM ANALYZE documents");
        let scripts = tempfile::Builder::new().prefix("consort-pgbench-").tempdir()?;
        let update = UPDATE
            .replace("DOCUMENTS", &documents.to_string())
            .replace("MEMBERS", &MEMBERS.to_string());
        fs::write(scripts.path().join("one.sql"), &update)?;
        let mut many = String::from("\\startpipeline\nBEGIN;\n");
        let all = format!("random(1, {documents})");
        let own = format!("random(1, {}) * {MANY_CLIENTS} - :client_id", documents / MANY_CLIENTS);
        let own_update = update.replace(&all, &own);
        (0..MANY).for_each(|_| many.push_str(&own_update));
        let _ = writeln!(many, "COMMIT;\n\\endpipeline");
        fs::write(scripts.path().join("many.sql"), many)?;
        Ok(Postgres { server, scripts })
    }

    /// `PostgreSQL 15.14`
    pub(super) fn version(&self) -> String {
        let told = self.server.query("SELECT version()");
        told.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    /// Pieces a second, each in a transaction of its own.
    pub(super) fn one_piece_a_transaction(&self, each: Duration) -> Result<f64> {
        self.transactions("one.sql", each)
    }

    /// Pieces a second, 1,000 in a transaction.
    pub(super) fn many_pieces_a_transaction(&self, each: Duration) -> Result<f64> {
        Ok(self.run("many.sql", each, MANY_CLIENTS)? * MANY as f64)
    }

    /// Bytes of the write-ahead log for each piece, one a transaction.
    pub(super) fn wal_bytes_a_piece(&self, each: Duration) -> Result<f64> {
        let place = || self.server.query("SELECT pg_current_wal_lsn() - '0/0'").parse::<f64>();
        let before = place()?;
        let pieces = self.transactions("one.sql", each)? * each.as_secs_f64();
        Ok((place()? - before) / pieces)
    }

    fn transactions(&self, script: &str, each: Duration) -> Result<f64> {
        self.run(script, each, POSTGRES_CLIENTS)
    }

    /// Transactions a second.
    fn run(&self, script: &str, each: Duration, clients: usize) -> Result<f64> {
        let mut pgbench = self.server.client("pgbench");
        pgbench.args(["-n", "-M", "prepared", "-j", &clients.min(2).to_string()]);
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
