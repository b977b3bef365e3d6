//! A moment of event time: nanoseconds since the Unix epoch, before it or after it. Clocks have
//! [`Timestamp`](crate::Timestamp)s; events bring their moments with them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Nanoseconds since the Unix epoch. Shown as RFC 3339 in UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub i64);

/// A text is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no moment: write 2016-12-04T18:38:00Z, or nanoseconds since 1970")]
pub struct MomentError(String);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0)).ok();
        match date.and_then(|date| date.format(&Rfc3339).ok()) {
            Some(text) => f.write_str(&text),
            // All of the 64 bits lies between the years 1677 and 2262.
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        if let Ok(nanoseconds) = text.parse() {
            return Ok(Moment(nanoseconds));
        }
        let date = OffsetDateTime::parse(text, &Rfc3339).ok();
        let nanoseconds = date.and_then(|date| i64::try_from(date.unix_timestamp_nanos()).ok());
        nanoseconds.map(Moment).ok_or_else(|| MomentError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_and_read() {
        let cases = [
            (1_480_876_680_000_000_000, "2016-12-04T18:38:00Z"),
            (1_480_876_707_352_348_928, "2016-12-04T18:38:27.352348928Z"),
            (0, "1970-01-01T00:00:00Z"),
            (-1_000_000_000, "1969-12-31T23:59:59Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
        ];
        for (nanoseconds, text) in cases {
            assert_eq!(Moment(nanoseconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Moment(nanoseconds)));
            assert_eq!(nanoseconds.to_string().parse(), Ok(Moment(nanoseconds)));
        }
        assert_eq!("2016-12-04T19:38:00+01:00".parse(), Ok(Moment(1_480_876_680_000_000_000)));
        for wrong in ["", "yesterday", "2016-12-04", "9999-01-01T00:00:00Z", "1e3"] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
    }
}
