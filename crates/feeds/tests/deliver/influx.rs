//! Rows into a real InfluxDB.

use consort_feeds::{FeedsPart, InfluxConfig, InfluxTarget, SendMode, SinkConfig, SinkKind};
use consort_testbed::{InfluxServer, eventually};

use crate::bed::{Bed, Deliverer, PATIENCE, START, feed, name, row};

fn deliverer(bed: &Bed, influx: &InfluxServer) -> Deliverer {
    let database = "events".into();
    let target = InfluxTarget::V1 { database, retention: None, user: None };
    let kind = SinkKind::Influx(InfluxConfig { url: influx.url().parse().unwrap(), target });
    let sink = SinkConfig { name: name("s"), kind, send: SendMode::Pieces };
    Deliverer::start(FeedsPart::new(vec![feed(&["s"])], &[sink], bed.options()).unwrap(), "s")
}

/// The users and values of all rows, in the order of the users.
async fn stored(influx: &InfluxServer) -> String {
    let answer = influx.query("events", "SELECT \"user\", value FROM v ORDER BY time").await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
    let mut shown: Vec<String> = rows
        .iter()
        .map(|row| {
            assert_eq!(row[0], START);
            format!("{}={}", row[1].as_str().unwrap(), row[2])
        })
        .collect();
    shown.sort_unstable();
    shown.join(" ")
}

#[tokio::test]
async fn rows_arrive_once_each_although_the_server_was_killed() {
    let mut influx = InfluxServer::start().await;
    let bed = Bed::new();
    let deliverer = deliverer(&bed, &influx);
    bed.emit([row("a", "1", 1)]).await;
    // No database yet: that is nobody's row's fault.
    let told = || async { deliverer.trouble().filter(|told| told.contains("database not found")) };
    eventually("the missing database is told", PATIENCE, told).await;
    influx.query("", "CREATE DATABASE events").await;
    eventually("the first row is there", PATIENCE, || async { stored(&influx).await == "a=1" })
        .await;

    influx.kill().await;
    bed.emit([row("a", "2", 2), row("b", "1.5", 1)]).await;
    let told = || async { deliverer.trouble().filter(|told| told.contains("cannot be reached")) };
    eventually("the dead server is told", PATIENCE, told).await;
    influx.restart().await;
    let arrived = || async { stored(&influx).await == "a=2 b=1.5" };
    eventually("the newest revisions are there", PATIENCE, arrived).await;
    deliverer.end().await;
    assert!(bed.parked("s").await.is_empty());
}

#[tokio::test]
async fn a_row_with_a_value_of_another_type_is_parked_and_the_others_arrive() {
    let influx = InfluxServer::start().await;
    influx.query("", "CREATE DATABASE events").await;
    let bed = Bed::new();
    let deliverer = deliverer(&bed, &influx);
    bed.emit([row("a", "1", 1)]).await;
    eventually("the first row is there", PATIENCE, || async { stored(&influx).await == "a=1" })
        .await;
    let mixed = [("b", "2"), ("c", "\"text\""), ("d", "4"), ("e\\nf", "5"), ("g", "6")];
    bed.emit(mixed.map(|(user, value)| row(user, value, 1))).await;
    let arrived = || async { stored(&influx).await == "a=1 b=2 d=4 g=6" };
    eventually("the good rows are there", PATIENCE, arrived).await;
    deliverer.end().await;
    let parked = bed.parked("s").await;
    assert_eq!(parked.len(), 2, "{parked:?}");
    assert!(parked[0].reason.contains("field type conflict"), "{parked:?}");
    assert!(parked[1].reason.contains("control characters"), "{parked:?}");
}
