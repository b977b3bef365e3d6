//! Times of rides, written `DD-MM-YYYY:SS-MM-HH` in UTC.

use time::{Date, Month, OffsetDateTime, Time};

/// The form: `d` stands for a digit.
const FORM: &[u8] = b"dd-dd-dddd:dd-dd-dd";

/// The time of a ride. Its text is stored as sent; this is what the text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RideTime(OffsetDateTime);

impl RideTime {
    /// Reads `DD-MM-YYYY:SS-MM-HH`: nothing but digits, and a real date and time.
    pub(crate) fn parse(text: &str) -> Option<RideTime> {
        let text = text.as_bytes();
        let fits = |(byte, form): (&u8, &u8)| match form {
            b'd' => byte.is_ascii_digit(),
            _ => byte == form,
        };
        if text.len() != FORM.len() || !text.iter().zip(FORM).all(fits) {
            return None;
        }
        let year = i32::from(two(text, 6)) * 100 + i32::from(two(text, 8));
        let month = Month::try_from(two(text, 3)).ok()?;
        let date = Date::from_calendar_date(year, month, two(text, 0)).ok()?;
        let time = Time::from_hms(two(text, 17), two(text, 14), two(text, 11)).ok()?;
        Some(RideTime(date.with_time(time).assume_utc()))
    }

    /// Whether it is before `now`.
    pub(crate) fn is_past(self, now: OffsetDateTime) -> bool {
        self.0 < now
    }
}

/// The number of two digits.
fn two(text: &[u8], at: usize) -> u8 {
    (text[at] - b'0') * 10 + (text[at + 1] - b'0')
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;

    #[test]
    fn a_time_is_read_from_its_form_alone() {
        for (text, unix) in [
            ("01-01-1970:00-00-00", Some(0)),
            ("02-01-1970:03-02-01", Some(86_400 + 3_723)),
            ("29-02-2028:59-59-23", Some(1_835_481_599)),
            ("31-12-9999:59-59-23", Some(253_402_300_799)),
            ("29-02-2027:00-00-00", None),
            ("31-04-2030:00-00-00", None),
            ("00-01-2030:00-00-00", None),
            ("01-00-2030:00-00-00", None),
            ("01-13-2030:00-00-00", None),
            ("01-01-2030:60-00-00", None),
            ("01-01-2030:00-60-00", None),
            ("01-01-2030:00-00-24", None),
            ("1-1-2030:00-00-00", None),
            ("01-01-2030 00-00-00", None),
            ("01-01-2030:00:00:00", None),
            ("01-01-2030:00-00-00 ", None),
            ("+1-01-2030:00-00-00", None),
            ("01-01-+030:00-00-00", None),
            ("٠1-01-030:00-00-00", None),
            ("2030-01-01:00-00-00", None),
            ("", None),
        ] {
            let read = RideTime::parse(text).map(|time| time.0.unix_timestamp());
            assert_eq!(read, unix, "{text:?}");
        }
    }

    #[test]
    fn a_ride_is_past_as_soon_as_its_time_is_over() {
        let time = RideTime::parse("01-06-2030:00-00-12").unwrap();
        assert!(!time.is_past(time.0 - Duration::nanoseconds(1)));
        assert!(!time.is_past(time.0));
        assert!(time.is_past(time.0 + Duration::nanoseconds(1)));
    }
}
