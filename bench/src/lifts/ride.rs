//! A lift ride: what a post says of it, in its path and in its body, and random ones.

use bytes::Bytes;
use rand::Rng;
use serde::{Deserialize, Serialize};

/// The route of every contestant.
pub(super) const ROUTE: &str = "/skiers/{resort}/seasons/{season}/days/{day}/skiers/{skier}";

/// The one season of all rides.
pub(super) const SEASON: &str = "2026";
pub(super) const RESORTS: u32 = 10;
/// A busy ski day: rides are posted as they happen.
pub(super) const DAYS: u32 = 1;
pub(super) const SKIERS: u32 = 100_000;
pub(super) const MINUTES: u32 = 1_440;
pub(super) const LIFTS: u32 = 60;
/// One ride in so many tells how long its skier waited.
pub(super) const WAIT_TOLD: u32 = 3;
pub(super) const LONGEST_WAIT: u32 = 30;

/// What the path tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) resort: u32,
    pub(super) season: String,
    pub(super) day: u32,
    pub(super) skier: u32,
}

/// What the body tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Body {
    pub(super) time: u32,
    #[serde(rename = "liftID")]
    pub(super) lift: u32,
    #[serde(rename = "waitTime", skip_serializing_if = "Option::is_none")]
    pub(super) wait: Option<u32>,
}

/// The answer to a post.
#[derive(Debug, Serialize)]
pub(super) struct Accepted {
    pub(super) accepted: u32,
}

/// All of it: a line of NDJSON, and a message of the usual design.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Ride {
    #[serde(flatten)]
    pub(super) place: Place,
    #[serde(flatten)]
    pub(super) body: Body,
}

impl Ride {
    /// A ride of anybody, anywhere, at any time of the season.
    pub(super) fn random(random: &mut impl Rng) -> Self {
        let place = Place {
            resort: random.random_range(1..=RESORTS),
            season: SEASON.into(),
            day: random.random_range(1..=DAYS),
            skier: random.random_range(1..=SKIERS),
        };
        let wait = random.random_ratio(1, WAIT_TOLD);
        let body = Body {
            time: random.random_range(0..MINUTES),
            lift: random.random_range(1..=LIFTS),
            wait: wait.then(|| random.random_range(0..=LONGEST_WAIT)),
        };
        Ride { place, body }
    }

    /// The finished request that posts it.
    pub(super) fn request(&self) -> Bytes {
        let Place { resort, season, day, skier } = &self.place;
        let body = serde_json::to_string(&self.body).unwrap_or_default();
        let length = body.len();
        Bytes::from(format!(
            "POST /skiers/{resort}/seasons/{season}/days/{day}/skiers/{skier} HTTP/1.1\r\n\
             host: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }
}

/// So many lines of NDJSON.
pub(super) fn lines(rides: usize) -> Bytes {
    let mut random = rand::rng();
    let mut text = Vec::new();
    for _ in 0..rides {
        let ride = serde_json::to_vec(&Ride::random(&mut random)).unwrap_or_default();
        text.extend_from_slice(&ride);
        text.push(b'\n');
    }
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_its_path_and_its_body() {
        let place = Place { resort: 3, season: "2026".into(), day: 12, skier: 45 };
        let ride = Ride { place, body: Body { time: 61, lift: 7, wait: None } };
        let request = String::from_utf8(ride.request().to_vec()).unwrap();
        assert!(request.starts_with("POST /skiers/3/seasons/2026/days/12/skiers/45 HTTP/1.1\r\n"));
        assert!(request.contains("content-length: 22\r\n"));
        assert!(request.ends_with("\r\n\r\n{\"time\":61,\"liftID\":7}"));
    }

    #[test]
    fn a_line_is_read_back_as_the_ride_it_was() {
        let text = lines(1);
        let ride: Ride = serde_json::from_slice(&text).unwrap();
        assert_eq!(serde_json::to_string(&ride).unwrap() + "\n", String::from_utf8_lossy(&text));
    }
}
