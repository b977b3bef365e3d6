//! A partition that stopped for a loss: it is said, stays stopped, and goes on when somebody decided.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consort::Services;
use consort_cluster::worker::{self, Memory, Plan, Record, Resume, Sheet};
use consort_cluster::{Ended, Part, Role, Tenure};
use consort_kernel::{Most, Name, Partition};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::bed::{consort, node_here, sees};

/// Folds records into nothing.
#[derive(Debug)]
struct Nothing;

impl Plan for Nothing {
    fn apply(&self, _record: &Record<'_>, _: &mut Memory, _sheet: &mut Sheet) {}
}

/// One partition whose log loses its beginning before anything of it was applied; and a role of another
/// kind, which is hindered.
#[derive(Debug)]
struct Losing(Services);

fn partition() -> Partition {
    Partition::new(Name::new("rides").unwrap(), 7)
}

impl Part for Losing {
    fn roles(&self) -> Vec<Role> {
        vec![Role::new("worker", "rides/7"), Role::new("closer", "rides/7")]
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let services = self.0.clone();
        match tenure.role().kind() {
            "worker" => lose_then_work(services, tenure).boxed(),
            _ => be_hindered(tenure).boxed(),
        }
    }
}

async fn lose_then_work(services: Services, tenure: Tenure) -> Ended {
    let (partition, pipeline) = (partition(), Name::new("all").unwrap());
    // A checkpoint at frame 0, then five frames, of which the first three are gone.
    let (store, log) = (&*services.store, &*services.log);
    worker::resolve(store, log, &partition, &pipeline, Resume::Offset(0)).await.unwrap();
    for record in 0..5u8 {
        let records = vec![Bytes::copy_from_slice(&[record])];
        services.appender.events(&partition, records).await.unwrap();
    }
    log.trim(&partition, 3).await.unwrap();
    let options = worker::Options {
        log: services.log,
        store: services.store,
        runtime: services.runtime,
        entropy: services.entropy,
        partition,
        pipeline,
        plan: Arc::new(Nothing),
        appender: services.appender,
        batch: Most::default(),
        linger: Duration::ZERO,
        yield_after: Duration::from_secs(60),
    };
    worker::run(options, tenure).await
}

async fn be_hindered(mut tenure: Tenure) -> Ended {
    tenure.ready();
    tenure.say(|gauge| gauge.trouble = Some("its clock has stopped".into()));
    tenure.ending().await;
    Ended::Drained
}

#[tokio::test]
async fn a_partition_that_lost_frames_stops_until_an_operator_decides() {
    let (node, client) =
        node_here("a", "memory:", |services| vec![Arc::new(Losing(services.clone()))]).await;
    let url = client.url();
    let seen = sees(&client, "both roles said how they are", |cluster| {
        let roles = &cluster.status.roles;
        roles.iter().any(|role| role.stopped.is_some())
            && roles.iter().any(|role| role.trouble.is_some())
    })
    .await;
    assert_eq!(seen.status.roles.len(), 2);

    let status = consort(["status", "--url", url]).await;
    assert_eq!(status.code, Some(3), "{status:?}");
    assert!(
        status.words.starts_with("Something is wrong:\n- worker:rides/7 on 'a' stopped"),
        "{status:?}"
    );
    assert!(
        status.words.contains("closer:rides/7 on 'a' is hindered: its clock has stopped"),
        "{status:?}"
    );
    let json = consort(["status", "--json", "--url", url]).await;
    assert_eq!(json.code, Some(3));

    let role = ["resolve", "worker:rides/7", "--url", url];
    let asked = consort(role.into_iter().chain(["--from", "first"])).await;
    assert_eq!(asked.code, Some(1));
    assert!(asked.words.contains("worker:rides/7 on 'a' stopped: "), "{asked:?}");
    assert!(asked.words.contains("Nothing was changed. With --yes it is done."), "{asked:?}");
    let wrong =
        consort(["resolve", "closer:rides/7", "--url", url, "--from", "end", "--yes"]).await;
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.words.contains("'closer:rides/7' folds no partition"), "{wrong:?}");

    let decided = consort(role.into_iter().chain(["--from", "first", "--yes"])).await;
    assert_eq!(decided.code, Some(0), "{decided:?}");
    assert_eq!(decided.words, "worker:rides/7 goes on at frame 3 (decision 2)\n");
    sees(&client, "the rest was applied", |cluster| {
        let mut roles = cluster.status.roles.iter();
        roles.any(|role| role.applied == 2 && role.stopped.is_none())
    })
    .await;

    let again = consort(role.into_iter().chain(["--from", "end", "--yes"])).await;
    assert_eq!(again.code, Some(1));
    assert!(again.words.contains("at work on node 'a'"), "{again:?}");
    node.stop().await;
}
