//! Two InfluxDBs, and what they hold.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_testbed::InfluxServer;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::lines::VIEWS;

/// How long rows may take to arrive when nothing is in their way any more. It bounds a hang.
const ARRIVED_WITHIN: Duration = Duration::from_secs(180);

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The databases.
#[derive(Debug)]
pub struct Databases(pub [InfluxServer; 2]);

/// A row's identity: view, event type, product and time in nanoseconds.
pub type Place = (String, String, String, i64);

/// Values by the rows' identities. A row that was there twice would be there under two times.
pub type Rows = BTreeMap<Place, i64>;

impl Databases {
    /// Starts both, each with a database `events`.
    pub async fn start() -> Databases {
        let (first, second) = tokio::join!(InfluxServer::start(), InfluxServer::start());
        for server in [&first, &second] {
            server.query("", "CREATE DATABASE events").await;
        }
        Databases([first, second])
    }

    /// Where they are.
    pub fn urls(&self) -> [String; 2] {
        [self.0[0].url(), self.0[1].url()]
    }

    /// Waits until both hold just these rows.
    ///
    /// # Panics
    ///
    /// If they do not in time; with the first difference.
    pub async fn come_to(&self, expected: &Rows) {
        let deadline = Instant::now() + ARRIVED_WITHIN;
        for server in &self.0 {
            loop {
                let held = rows(server).await;
                if held == *expected {
                    break;
                }
                if Instant::now() > deadline {
                    panic!("InfluxDB does not hold what it must: {}", difference(expected, &held));
                }
                sleep(LOOK_EVERY).await;
            }
        }
    }
}

fn difference(expected: &Rows, held: &Rows) -> String {
    let differs = expected.iter().filter(|(place, value)| held.get(*place) != Some(*value));
    let beyond = held.keys().filter(|place| !expected.contains_key(*place)).count();
    let first = differs.clone().next().map(|(place, value)| (place, value, held.get(place)));
    format!("{} of {} differ, first {first:?}; {beyond} beyond", differs.count(), expected.len())
}

/// All rows of both views.
async fn rows(server: &InfluxServer) -> Rows {
    let mut rows = Rows::new();
    for view in VIEWS {
        let statement = format!("SELECT * FROM \"{view}\"");
        let answer = server.query("events", &statement).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let series = &answer["results"][0]["series"][0];
        let columns: Vec<&str> = series["columns"]
            .as_array()
            .map(|columns| columns.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        for row in series["values"].as_array().into_iter().flatten() {
            let cell = |name: &str| {
                let at = columns.iter().position(|column| *column == name);
                at.map_or(&Value::Null, |at| &row[at])
            };
            let text = |name: &str| cell(name).as_str().unwrap_or_default().to_owned();
            let place = (
                view.into(),
                text("event_type"),
                text("product"),
                cell("time").as_i64().unwrap_or(-1),
            );
            let value = cell("value").as_f64().expect("a number") as i64;
            assert_eq!(rows.insert(place.clone(), value), None, "{place:?} is there twice");
        }
    }
    rows
}
