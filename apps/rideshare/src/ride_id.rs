//! Ids of rides in paths.

/// The most digits of an id: every such number fits into a 64-bit integer.
const MOST_DIGITS: usize = 18;

/// The id of a ride, which may or may not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RideId(u64);

impl RideId {
    /// Reads a segment of a path: 1 to 18 digits.
    pub(crate) fn parse(text: &str) -> Option<RideId> {
        let digits = text.len() <= MOST_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits {
            return None;
        }
        text.parse().ok().map(RideId)
    }

    /// Its number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_1_to_18_digits() {
        for (text, id) in [
            ("1", Some(1)),
            ("0", Some(0)),
            ("007", Some(7)),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("1000000000000000000", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            (" 1", None),
            ("1x", None),
            ("٣", None),
            ("0x10", None),
        ] {
            assert_eq!(RideId::parse(text).map(RideId::number), id, "{text:?}");
        }
    }
}
