//! The unit of timestamps: what `precision=…` of a write request says.

use std::fmt;
use std::str::FromStr;

/// The unit that the timestamps of a body are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    #[default]
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
}

/// A `precision` that names no unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown precision `{0}`: use ns (or n), us (or u, µ), ms, s, m or h; without one, timestamps are \
     nanoseconds"
)]
pub struct UnknownPrecision(pub String);

/// What is repeated of an unknown precision in its error: enough to recognise it.
const SHOWN_CHARACTERS: usize = 20;

impl Precision {
    /// How many nanoseconds one unit is.
    pub const fn nanoseconds(self) -> i64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => 1_000_000_000,
            Self::Minutes => 60 * 1_000_000_000,
            Self::Hours => 3_600 * 1_000_000_000,
        }
    }

    /// A timestamp of this unit in nanoseconds; `None` where that does not fit.
    pub const fn in_nanoseconds(self, timestamp: i64) -> Option<i64> {
        timestamp.checked_mul(self.nanoseconds())
    }

    /// A time in nanoseconds cut down to this unit: InfluxDB gives a line without a timestamp its own
    /// time, in the precision of the request.
    pub const fn truncate(self, nanoseconds: i64) -> i64 {
        // Towards zero only where the unit before the earliest time does not fit.
        match nanoseconds.checked_sub(nanoseconds.rem_euclid(self.nanoseconds())) {
            Some(time) => time,
            None => nanoseconds - nanoseconds % self.nanoseconds(),
        }
    }
}

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, UnknownPrecision> {
        Ok(match name {
            "n" | "ns" => Self::Nanoseconds,
            // The micro sign and the Greek letter look the same, and both are sent.
            "u" | "us" | "\u{b5}" | "\u{b5}s" | "\u{3bc}" | "\u{3bc}s" => Self::Microseconds,
            "ms" => Self::Milliseconds,
            "s" => Self::Seconds,
            "m" => Self::Minutes,
            "h" => Self::Hours,
            _ => return Err(UnknownPrecision(name.chars().take(SHOWN_CHARACTERS).collect())),
        })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Minutes => "m",
            Self::Hours => "h",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Precision; 6] = [
        Precision::Nanoseconds,
        Precision::Microseconds,
        Precision::Milliseconds,
        Precision::Seconds,
        Precision::Minutes,
        Precision::Hours,
    ];

    #[test]
    fn every_name_of_a_unit_is_understood() {
        let names = [
            ("n ns", Precision::Nanoseconds),
            ("u us µ µs μ μs", Precision::Microseconds),
            ("ms", Precision::Milliseconds),
            ("s", Precision::Seconds),
            ("m", Precision::Minutes),
            ("h", Precision::Hours),
        ];
        for (names, unit) in names {
            for name in names.split(' ') {
                assert_eq!(name.parse(), Ok(unit), "{name}");
            }
        }
        for unit in ALL {
            assert_eq!(unit.to_string().parse(), Ok(unit));
        }
    }

    #[test]
    fn an_unknown_unit_says_which_there_are() {
        let error = "MS".parse::<Precision>().unwrap_err().to_string();
        assert!(error.starts_with("unknown precision `MS`: use ns"), "{error}");
        let error = "x".repeat(1_000).parse::<Precision>().unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }

    #[test]
    fn timestamps_become_nanoseconds_or_do_not_fit() {
        let cases = [
            (Precision::Nanoseconds, i64::MIN, Some(i64::MIN)),
            (Precision::Microseconds, 946_730_096_789_012, Some(946_730_096_789_012_000)),
            (Precision::Milliseconds, -1, Some(-1_000_000)),
            (Precision::Seconds, 9_223_372_036, Some(9_223_372_036_000_000_000)),
            (Precision::Seconds, 9_223_372_037, None),
            (Precision::Minutes, 2, Some(120_000_000_000)),
            (Precision::Hours, i64::MIN, None),
        ];
        for (unit, timestamp, expected) in cases {
            assert_eq!(unit.in_nanoseconds(timestamp), expected, "{timestamp} {unit}");
        }
    }

    #[test]
    fn times_are_cut_down_to_the_unit() {
        assert_eq!(Precision::Milliseconds.truncate(1_999_999), 1_000_000);
        assert_eq!(Precision::Milliseconds.truncate(-1), -1_000_000);
        assert_eq!(Precision::Seconds.truncate(5_000_000_000), 5_000_000_000);
        for unit in ALL {
            for time in [i64::MIN, i64::MIN + 1, 0, i64::MAX] {
                assert_eq!(unit.truncate(time) % unit.nanoseconds(), 0, "{time} {unit}");
            }
        }
    }
}
