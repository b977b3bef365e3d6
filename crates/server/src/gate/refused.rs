//! Why a post was not let in, and when it may come again.

use std::time::Duration;

/// Clients that were refused together must not come back together: their times to wait are spread
/// over so many seconds more.
const SPREAD_SECONDS: u64 = 3;

/// Nobody is told to stay away for longer, whatever the lag: things may be better by then.
const RETRY_AT_MOST: Duration = Duration::from_secs(10);

/// A post that was not let in: 503 with `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}; try again in {} s", .reason.told(), .retry_after.as_secs())]
pub struct Refused {
    pub reason: Reason,
    /// Whole seconds, as the header wants them, and at least one.
    pub retry_after: Duration,
}

/// What a post was refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// As much is in flight as the latency of appends allows.
    Latency,
    /// The stream lags behind.
    Lag,
    /// The breaker would have held it past its deadline.
    Breaker,
    /// Too many wait already.
    Crowd,
}

impl Refused {
    /// `wait` is the time after which it might have come in; `random` spreads those who come back.
    pub(super) fn new(reason: Reason, wait: Duration, random: u64) -> Refused {
        let seconds = wait.min(RETRY_AT_MOST).as_millis().div_ceil(1000).max(1) as u64;
        let retry_after = Duration::from_secs(seconds + random % SPREAD_SECONDS);
        Refused { reason, retry_after }
    }
}

impl Reason {
    pub(super) const ALL: [Reason; 4] =
        [Reason::Latency, Reason::Lag, Reason::Breaker, Reason::Crowd];

    /// The word in `/metrics`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Latency => "latency",
            Reason::Lag => "lag",
            Reason::Breaker => "breaker",
            Reason::Crowd => "crowd",
        }
    }

    fn told(self) -> &'static str {
        match self {
            Reason::Latency => "the stream's log is slow, and takes no more at one time",
            Reason::Lag => "the stream lags behind, and takes no more than is being applied",
            Reason::Breaker => "too many posts in two seconds, and no time left to delay this one",
            Reason::Crowd => "too many posts wait at this node's door already",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_come_back_is_in_whole_seconds_and_spread() {
        // The wait (ms), a random number, the seconds told.
        let table =
            [(0, 0, 1), (1, 1, 2), (1000, 0, 1), (1001, 0, 2), (7000, 5, 9), (3_600_000, 2, 12)];
        for (wait, random, seconds) in table {
            let refused = Refused::new(Reason::Lag, Duration::from_millis(wait), random);
            assert_eq!(refused.retry_after, Duration::from_secs(seconds), "{wait} ms");
        }
    }

    #[test]
    fn a_refusal_says_what_and_what_to_do() {
        let told = Refused::new(Reason::Lag, Duration::from_secs(2), 0).to_string();
        assert_eq!(
            told,
            "the stream lags behind, and takes no more than is being applied; try again in 2 s"
        );
    }
}
