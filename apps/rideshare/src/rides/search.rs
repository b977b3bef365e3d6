//! Searching rides from one area to another.

use consort_client::SqlStatement;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::area::Area;
use crate::http::Problem;
use crate::timestamp::RideTime;

/// Two areas.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RideSearch {
    source: Area,
    destination: Area,
}

impl RideSearch {
    /// Reads `source=…&destination=…`. Other parameters are ignored.
    pub(super) fn parse(query: &str) -> Result<RideSearch, Problem> {
        Ok(RideSearch {
            source: parameter(query, "source")?,
            destination: parameter(query, "destination")?,
        })
    }

    /// Reads all such rides, past ones included: the texts of their times do not sort.
    pub(super) fn query(&self) -> SqlStatement {
        let sql = "SELECT rideId, created_by, timestamp FROM rides \
                   WHERE source = ? AND destination = ? ORDER BY rideId";
        SqlStatement::new(sql).bind(self.source.number()).bind(self.destination.number())
    }
}

/// A ride, as it is listed.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct ListedRide {
    #[serde(rename = "rideId")]
    ride_id: Value,
    /// The creator.
    username: Value,
    timestamp: Value,
}

/// The rides of these rows that are not past. A time that is malformed is never listed: `db/write` takes any text.
pub(super) fn future_rides(rows: Vec<Vec<Value>>, now: OffsetDateTime) -> Vec<ListedRide> {
    let listed = |row: Vec<Value>| {
        let [ride_id, username, timestamp] = row.try_into().ok()?;
        let time = RideTime::parse(timestamp.as_str()?)?;
        (!time.is_past(now)).then_some(ListedRide { ride_id, username, timestamp })
    };
    rows.into_iter().filter_map(listed).collect()
}

/// An area that comes exactly once.
fn parameter(query: &str, name: &str) -> Result<Area, Problem> {
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    let area = values.next().and_then(|(_, value)| Area::from_text(&value));
    area.filter(|_| values.next().is_none())
        .ok_or_else(|| Problem::bad_request(format!("'{name}' must be one area from 1 to 198")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_search_needs_two_areas() {
        for (query, areas) in [
            ("source=1&destination=2", Some((1, 2))),
            ("destination=002&source=198&page=9", Some((198, 2))),
            ("source=3&destination=3", Some((3, 3))),
            ("source=%31&destination=2", Some((1, 2))),
            ("source=1", None),
            ("destination=2", None),
            ("", None),
            ("source=&destination=2", None),
            ("source=0&destination=2", None),
            ("source=1&destination=199", None),
            ("source=+1&destination=2", None),
            ("source=1.0&destination=2", None),
            ("source=1&source=1&destination=2", None),
            ("Source=1&destination=2", None),
            ("source=%FF&destination=2", None),
        ] {
            let search = RideSearch::parse(query).ok();
            let found = search.map(|search| (search.source.number(), search.destination.number()));
            assert_eq!(found, areas, "{query}");
        }
    }

    #[test]
    fn past_and_malformed_times_are_not_listed() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let rows = vec![
            vec![json!(1), json!("ann"), json!("15-01-2027:59-59-07")],
            vec![json!(2), json!("bob"), json!("15-01-2027:01-00-08")],
            vec![json!(3), json!("cid"), json!("soon")],
            vec![json!(4), json!("dan"), json!(7)],
        ];
        let ride = json!({ "rideId": 2, "username": "bob", "timestamp": "15-01-2027:01-00-08" });
        assert_eq!(json!(future_rides(rows, now)), json!([ride]));
    }
}
