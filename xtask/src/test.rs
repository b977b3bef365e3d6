//! `cargo xtask test`: everything that must hold before a change lands. It stops at the first step that
//! fails.

use anyhow::{Context, Result};

use crate::servers::SharedServer;
use crate::shell::{cargo, run as step};
use crate::{dependencies, engines, install};

pub(crate) fn run() -> Result<()> {
    install::servers()?;
    step(&mut cargo(&["fmt", "--all", "--check"]))?;
    dependencies::check().context("the dependencies")?;
    step(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    eprintln!("» every engine runs every case");
    engines::run_every_case()?;
    let broker = SharedServer::start("rabbitmq").context("the shared broker")?;
    let cluster = SharedServer::start("redis-cluster").context("the shared cluster")?;
    step(&mut cargo(&["test", "--workspace", "--doc", "--quiet"]))?;
    let mut tests = cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]);
    tests.env("CONSORT_TESTBED_AMQP", &broker.url);
    tests.env("CONSORT_TESTBED_REDIS_CLUSTER", &cluster.url);
    step(&mut tests)
}
