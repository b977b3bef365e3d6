//! The trials let a database pass that keeps its promises, and none that breaks one.

use std::time::Duration;

use consort_testbed::eventually;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::server::ModelServer;
use super::{Mistake, Model};
use crate::db::client::NodeList;
use crate::db::clock::TrialClock;
use crate::db::{BANK, REGISTER, bank, judge, register};
use crate::lin::feed::FeedRows;
use crate::lin::history::Row;

/// Writes that are acknowledged before a verdict.
const WRITES: usize = 150;

/// It bounds a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a workload against the model; the error is the panic of the trial.
async fn trial(database: &'static str, mistake: Mistake) -> Result<(), String> {
    let verdict = tokio::spawn(async move {
        let mut random = StdRng::seed_from_u64(11);
        let schema = match database {
            REGISTER => include_str!("../schema/register/001-registers.sql"),
            _ => include_str!("../schema/bank/001-accounts.sql"),
        };
        let server = ModelServer::start(Model::new(schema, mistake, random.clone())).await;
        let (nodes, clock) = (NodeList::default(), TrialClock::start());
        nodes.set(vec![format!("http://{}", server.address)]);
        if database == REGISTER {
            let load = register::start(nodes, clock, &mut random);
            enough(|| load.acknowledged()).await;
            let records = load.stop().await;
            let (feed, told) = witnesses(&server);
            judge::registers(&records, &feed, &told);
        } else {
            let load = bank::start(nodes, clock, &mut random);
            enough(|| load.acknowledged()).await;
            let calls = load.stop().await;
            let (feed, told) = witnesses(&server);
            judge::accounts(&calls, &feed, &told);
        }
    });
    verdict.await.map_err(|error| error.to_string())
}

async fn enough(acknowledged: impl Fn() -> usize) {
    let is_enough = || std::future::ready(acknowledged() >= WRITES);
    eventually("the clients have written enough", PATIENCE, is_enough).await;
}

/// The feed, and the change stream.
fn witnesses(server: &ModelServer) -> (FeedRows, Vec<(u64, Row)>) {
    let feed = FeedRows::replay(&server.model.lock().groups);
    let told = feed.added("history").into_iter().map(|(index, row)| (index, row.clone())).collect();
    (feed, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_keeps_its_promises_passes() {
    for database in [REGISTER, BANK] {
        assert_eq!(trial(database, Mistake::Nothing).await, Ok(()), "{database}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_breaks_a_promise_does_not_pass() {
    // Without a reason here, a client notices by itself.
    let mistakes = [
        (REGISTER, Mistake::LoseWrites, "an acknowledged write is in the feed"),
        (REGISTER, Mistake::ForgetKeys, ""),
        (REGISTER, Mistake::IgnoreExpectations, "registers"),
        (REGISTER, Mistake::ReadStale, "a strong read is not older"),
        (REGISTER, Mistake::NameWrongIndex, "a read has the rows of its index"),
        (REGISTER, Mistake::RefuseStored, ""),
        (BANK, Mistake::LoseWrites, ""),
        (BANK, Mistake::ForgetKeys, ""),
        (BANK, Mistake::IgnoreExpectations, ""),
        (BANK, Mistake::ReadStale, "a strong read is not older"),
        (BANK, Mistake::NameWrongIndex, ""),
    ];
    for (database, mistake, reason) in mistakes {
        let told = trial(database, mistake).await.expect_err(&format!("{database} {mistake:?}"));
        assert!(told.contains(reason), "{database} {mistake:?}: {told}");
    }
}
