//! Asks the six questions and compares the answers with what was counted.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use consort_client::{Client, Connection, Method};
use serde_json::{Value, json};

use super::load::Outcome;
use super::rides::{Count, Ride, Season};

const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How long the views may take to come as far as the last ride.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(120);

/// How many differences are shown.
const SHOWN: usize = 10;

/// What was compared.
#[derive(Debug, Default)]
pub(super) struct Checked {
    answers: u64,
    left_out: u64,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answers are exact", self.answers)?;
        if self.left_out > 0 {
            write!(
                f,
                "; {} were left out, as it is not known whether rides of theirs were stored",
                self.left_out
            )?;
        }
        Ok(())
    }
}

/// Compares the answers of all nodes in turn; of skiers, those of the first `skiers` that rode.
pub(super) async fn check(
    clients: &[Client],
    season: &Season,
    outcome: &Outcome,
    skiers: usize,
) -> Result<Checked, String> {
    let mut asking = Asking {
        connections: clients
            .iter()
            .map(|client| Connection::new(client.clone(), ANSWER_WITHIN))
            .collect(),
        season: season.clone(),
        doubtful: outcome.doubtful.clone(),
        turn: 0,
        checked: Checked::default(),
        differences: Vec::new(),
    };
    asking.catch_up(&outcome.position().to_string()).await?;
    let count = Count::of(&outcome.rides);
    asking.skiers(&count, skiers).await?;
    asking.groups(&count).await?;
    if asking.differences.is_empty() {
        return Ok(asking.checked);
    }
    let many = asking.differences.len();
    asking.differences.truncate(SHOWN);
    Err(format!(
        "{many} of {} answers differ from what was counted:\n  {}",
        asking.checked.answers,
        asking.differences.join("\n  ")
    ))
}

struct Asking {
    connections: Vec<Connection>,
    season: Season,
    doubtful: Vec<Ride>,
    turn: usize,
    checked: Checked,
    differences: Vec<String>,
}

impl Asking {
    /// Waits on every node until the views hold all that was accepted.
    async fn catch_up(&mut self, position: &str) -> Result<(), String> {
        let began = Instant::now();
        for connection in &mut self.connections {
            loop {
                let headers = [("consort-after", position)];
                let headers = if position.is_empty() { &[][..] } else { &headers[..] };
                let asked =
                    connection.send(Method::GET, "/views/rides_per_hour?limit=1", headers, "");
                let said = match asked.await {
                    Ok(reply) if reply.status.is_success() => break,
                    Ok(reply) => String::from_utf8_lossy(&reply.body).into_owned(),
                    Err(error) => error.to_string(),
                };
                if began.elapsed() > CAUGHT_UP_WITHIN {
                    return Err(format!(
                        "the views did not catch up within {CAUGHT_UP_WITHIN:?}: {said}"
                    ));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
    }

    async fn skiers(&mut self, count: &Count, most: usize) -> Result<(), String> {
        let season = self.season.as_str().to_owned();
        let doubtful: BTreeSet<u32> = self.doubtful.iter().map(|ride| ride.skier).collect();
        for (skier, days) in count.days.iter().take(most) {
            if doubtful.contains(skier) {
                self.checked.left_out += 1;
                continue;
            }
            let path = format!("/views/skier_days?skier={skier}&season={season}");
            self.compare(&path, &json!(days.len())).await?;
            for day in days {
                let Some((vertical, lifts)) = count.skier_days.get(&(*skier, *day)) else {
                    continue;
                };
                let of = format!("skier={skier}&season={season}&day={day}");
                self.compare(&format!("/views/skier_vertical?{of}"), &json!(vertical)).await?;
                self.compare(&format!("/views/skier_lifts?{of}"), &json!(lifts)).await?;
            }
        }
        Ok(())
    }

    async fn groups(&mut self, count: &Count) -> Result<(), String> {
        let season = self.season.as_str().to_owned();
        let unsure = |is: &dyn Fn(&Ride) -> bool, rides: &[Ride]| rides.iter().any(is);
        for ((resort, day), skiers) in &count.resorts {
            if unsure(&|ride| (ride.resort, ride.day) == (*resort, *day), &self.doubtful) {
                self.checked.left_out += 1;
                continue;
            }
            let path = format!("/views/resort_skiers?resort={resort}&season={season}&day={day}");
            self.compare(&path, &json!(skiers.len())).await?;
        }
        for ((lift, day), rides) in &count.lifts {
            if unsure(&|ride| (ride.lift, ride.day) == (*lift, *day), &self.doubtful) {
                self.checked.left_out += 1;
                continue;
            }
            let path = format!("/views/lift_rides_per_day?liftID={lift}&season={season}&day={day}");
            self.compare(&path, &json!(rides)).await?;
        }
        for ((day, hour), rides) in &count.hours {
            if unsure(&|ride| (ride.day, ride.time / 60) == (*day, *hour), &self.doubtful) {
                self.checked.left_out += 1;
                continue;
            }
            let path = format!("/views/rides_per_hour?season={season}&day={day}&hour={hour}");
            self.compare(&path, &json!(rides)).await?;
        }
        Ok(())
    }

    /// Asks the next node.
    async fn compare(&mut self, path: &str, expected: &Value) -> Result<(), String> {
        self.turn = (self.turn + 1) % self.connections.len();
        let reply = self.connections[self.turn].send(Method::GET, path, &[], "").await;
        let reply = reply.map_err(|error| format!("{path}: {error}"))?;
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        self.checked.answers += 1;
        if answer.get("value") != Some(expected) {
            let said = String::from_utf8_lossy(&reply.body);
            self.differences.push(format!("{path}: counted {expected}, answered {said}"));
        }
        Ok(())
    }
}
