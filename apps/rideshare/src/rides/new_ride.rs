//! The body that creates a ride.

use serde_json::Value;
use time::OffsetDateTime;

use crate::area::Area;
use crate::http::{JsonFields, Problem};
use crate::timestamp::RideTime;

/// A ride that is to be created. Whether its creator exists is not known yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewRide {
    pub(super) created_by: String,
    /// As sent.
    pub(super) timestamp: String,
    pub(super) source: Area,
    pub(super) destination: Area,
}

impl NewRide {
    pub(super) fn parse(body: &[u8], now: OffsetDateTime) -> Result<NewRide, Problem> {
        let fields = JsonFields::parse(body)?;
        let area = |name| {
            let value: Value = fields.required(name, "an area")?;
            Area::from_json(&value).ok_or_else(|| {
                Problem::bad_request(format!("'{name}' must be an area from 1 to 198"))
            })
        };
        let (created_by, timestamp) = (fields.text("created_by")?, fields.text("timestamp")?);
        let (source, destination) = (area("source")?, area("destination")?);
        let time = RideTime::parse(&timestamp)
            .ok_or_else(|| Problem::bad_request("'timestamp' must be DD-MM-YYYY:SS-MM-HH"))?;
        if time.is_past(now) {
            return Err(Problem::bad_request("'timestamp' is past"));
        }
        if source == destination {
            return Err(Problem::bad_request("'source' and 'destination' are the same"));
        }
        Ok(NewRide { created_by, timestamp, source, destination })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ride_needs_a_creator_a_future_time_and_two_areas() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let future = json!("01-01-2030:00-00-12");
        for (created_by, timestamp, source, destination, good) in [
            (json!("ann"), future.clone(), json!(1), json!(198), true),
            (json!("ann"), future.clone(), json!("3"), json!("004"), true),
            (json!(""), future.clone(), json!(1), json!(2), true),
            (json!(7), future.clone(), json!(1), json!(2), false),
            (json!(null), future.clone(), json!(1), json!(2), false),
            (json!("ann"), json!("15-01-2027:59-59-07"), json!(1), json!(2), false),
            (json!("ann"), json!("15-01-2027:00-00-08"), json!(1), json!(2), true),
            (json!("ann"), json!("2030-01-01"), json!(1), json!(2), false),
            (json!("ann"), json!(1_900_000_000), json!(1), json!(2), false),
            (json!("ann"), future.clone(), json!(0), json!(2), false),
            (json!("ann"), future.clone(), json!(1), json!(199), false),
            (json!("ann"), future.clone(), json!(true), json!(2), false),
            (json!("ann"), future.clone(), json!(1), json!(null), false),
            (json!("ann"), future.clone(), json!(3), json!("003"), false),
        ] {
            let body = json!({ "created_by": created_by, "timestamp": timestamp,
                "source": source, "destination": destination });
            let ride = NewRide::parse(body.to_string().as_bytes(), now);
            assert_eq!(ride.is_ok(), good, "{body}");
            if let Ok(ride) = ride {
                assert_eq!(json!(ride.timestamp), timestamp, "it is stored as sent");
            }
        }
        assert!(NewRide::parse(b"{\"created_by\": \"ann\"}", now).is_err());
    }
}
