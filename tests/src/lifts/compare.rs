//! All groups of all views: as they were counted, and as a node answers.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_client::{Client, Connection, Method};
use serde_json::{Value, json};

use super::count::Count;
use super::rides::SEASON;

/// Groups in one answer: several pages of the larger views.
const PAGE: usize = 250;

/// How long an answer may take; it bounds a hang.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How many differences are told.
const SHOWN: usize = 20;

/// The views, by name.
const VIEWS: [&str; 7] = [
    "skier_days",
    "skier_vertical",
    "skier_lifts",
    "resort_skiers",
    "lift_rides_per_day",
    "rides_per_hour",
    "resort_skier_vertical",
];

/// The value of each group, by view and by the group's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Views(BTreeMap<(&'static str, String), Value>);

impl Views {
    /// What they should be.
    pub fn of(count: &Count) -> Views {
        let mut views = Views::default();
        for (skier, days) in &count.days {
            views.put("skier_days", &json!({"skier": skier, "season": SEASON}), json!(days.len()));
        }
        for ((skier, day), (vertical, lifts)) in &count.skier_days {
            let group = json!({"skier": skier, "season": SEASON, "day": day});
            views.put("skier_vertical", &group, json!(vertical));
            views.put("skier_lifts", &group, json!(lifts));
        }
        for ((resort, day), skiers) in &count.resorts {
            let group = json!({"resort": resort, "season": SEASON, "day": day});
            views.put("resort_skiers", &group, json!(skiers.len()));
        }
        for ((lift, day), rides) in &count.lifts {
            let group = json!({"liftID": lift, "season": SEASON, "day": day});
            views.put("lift_rides_per_day", &group, json!(rides));
        }
        for ((day, hour), rides) in &count.hours {
            let group = json!({"season": SEASON, "day": day, "hour": hour});
            views.put("rides_per_hour", &group, json!(rides));
        }
        for ((resort, day, skier), vertical) in &count.resort_skiers {
            let group = json!({"resort": resort, "season": SEASON, "day": day, "skier": skier});
            views.put("resort_skier_vertical", &group, json!(vertical));
        }
        views
    }

    /// What the node at `address` answers, page by page.
    ///
    /// # Panics
    ///
    /// If it does not answer, although nothing is wrong any more.
    pub async fn asked(address: &str) -> Views {
        let mut connection = connection(address);
        let mut views = Views::default();
        for view in VIEWS {
            let mut after = String::new();
            loop {
                let path = format!("/views/{view}?limit={PAGE}{after}");
                let answer = get(&mut connection, &path).await;
                let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
                for group in answer["groups"].as_array().expect("a page has groups") {
                    let before = views.put(view, &group["group"], group["value"].clone());
                    assert!(before.is_none(), "{view} lists {} twice", group["group"]);
                }
                match answer["next"].as_str() {
                    Some(next) => after = format!("&after={next}"),
                    None => break,
                }
            }
        }
        views
    }

    /// What differs in `answered`, as far as it is worth reading.
    pub fn differences(&self, answered: &Views) -> Vec<String> {
        let groups: std::collections::BTreeSet<_> =
            self.0.keys().chain(answered.0.keys()).collect();
        let differing = groups.into_iter().filter_map(|group| {
            let (counted, found) = (self.0.get(group), answered.0.get(group));
            let (view, of) = group;
            (counted != found)
                .then(|| format!("{view} of {of}: counted {counted:?}, answered {found:?}"))
        });
        differing.take(SHOWN).collect()
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.0.len()
    }

    fn put(&mut self, view: &'static str, group: &Value, value: Value) -> Option<Value> {
        self.0.insert((view, group.to_string()), value)
    }
}

/// What became of the events of the stream, as the node at `address` shows it, by outcome.
///
/// # Panics
///
/// If it does not.
pub async fn tallies(address: &str) -> BTreeMap<String, i64> {
    let outcome = |(name, value): (String, f64)| {
        let labels = name.strip_prefix("consort_stream_events{")?;
        let outcome = labels.split_once("outcome=\"")?.1.split_once('"')?.0;
        Some((outcome.to_owned(), value as i64))
    };
    metrics(address).await.into_iter().filter_map(outcome).collect()
}

/// The figures of the node at `address`, each by its name with its labels.
///
/// # Panics
///
/// If it does not answer.
pub async fn metrics(address: &str) -> BTreeMap<String, f64> {
    let text = get(&mut connection(address), "/metrics").await;
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(figure).collect()
}

fn connection(address: &str) -> Connection {
    Connection::new(Client::new(address, None).expect("an address"), ANSWER_WITHIN)
}

async fn get(connection: &mut Connection, path: &str) -> String {
    let reply = connection.send(Method::GET, path, &[], "").await;
    let reply = reply.unwrap_or_else(|error| panic!("{path}: {error}"));
    let body = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.status, 200, "{path}: {body}");
    body
}
