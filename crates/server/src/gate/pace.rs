//! How many records may come in each second while the stream lags behind.
//!
//! A limit of what is in flight does not slow down a stream whose appends are fast and whose workers
//! are slow. So while the lag is above [`LAG_WANTED`], records are paced. The lag is the age of the
//! oldest record not yet applied, and the gate remembers what it let in when; together they say
//! without a model of the workers
//!
//! - the *backlog*: what came in through this gate during the lag, and is not applied;
//! - the *drain*: by how much the applied part grew between two reports.
//!
//! Both are this gate's share of the stream's, and so the gates of all nodes pace without talking to
//! each other. The pace is the drain, less what it takes to bring the backlog to one
//! [`LAG_WANTED`] of drain; so the workers always have something to do.

use std::time::Duration;

use super::history::{History, REMEMBERS};

/// The lag above which records are paced, and which the pace aims at while more come than are
/// applied. A stream that is as fast as it can be is behind by two batches of its workers, one in hand and
/// one that is being applied, which was up to 1.3 s on two busy cores; with less than that, the pace would slow
/// down what nothing ails.
const LAG_WANTED: Duration = Duration::from_secs(2);

/// In records a second; what comes in whatever the lag. Every engine catches up with it in a moment,
/// so that a stream with few records is not refused because its worker is moving; and what is let in
/// is how the gate learns that things are better.
const PACE_LEAST: f64 = 100.0;

/// The drain is a mean over about this time: several reports, several batches of a worker.
const DRAIN_OVER: Duration = Duration::from_secs(2);

/// In which time the pace brings the backlog to what is wanted.
const MENDS_IN: Duration = Duration::from_secs(2);

/// While there is hardly a lag, the pace doubles in this time.
const DOUBLES_IN: Duration = Duration::from_secs(1);

/// The pace ends when nobody has been delayed by it for so long and the lag is as wanted.
const ENDS_AFTER: Duration = Duration::from_secs(1);

/// Without a report for so long nothing is known of the lag, and nothing is paced.
const REPORT_STALE: Duration = Duration::from_secs(5);

/// A backlog of so many times what is wanted is too much, however short the lag still is. Posts that come in bursts
/// make it seem more than it is.
const TOO_MUCH: f64 = 1.25;

/// How much of a pause may be made up for at once: posts do not come evenly.
const BURST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Pace {
    appended: History,
    report: Option<Report>,
    /// Records a second that are applied.
    drain: f64,
    held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    at: Duration,
    lag: Duration,
    /// Of the records that came through this gate, those that had been applied.
    applied: f64,
}

/// Records are paced.
#[derive(Debug)]
struct Held {
    /// Records a second.
    rate: f64,
    /// Records that may come now; below zero, those that have been promised a later moment.
    room: f64,
    /// When `room` was right.
    at: Duration,
    /// When a post was last delayed or refused.
    delayed: Duration,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { appended: History::new(), report: None, drain: 0.0, held: None }
    }

    /// Records have been appended.
    pub(super) fn appended(&mut self, now: Duration, records: u64) {
        self.appended.add(now, records);
    }

    /// How long a post of so many records must wait, if it may wait for `at_most`; otherwise, the lag
    /// because of which it may not come. What is promised counts as come.
    pub(super) fn ask(
        &mut self,
        now: Duration,
        records: u64,
        at_most: Duration,
    ) -> Result<Duration, Duration> {
        let Some(report) = self.report.filter(|report| !report.stale(now)) else {
            self.held = None;
            return Ok(Duration::ZERO);
        };
        let Some(held) = &mut self.held else { return Ok(Duration::ZERO) };
        held.refill(now);
        let wait = Duration::from_secs_f64((-held.room).max(0.0) / held.rate);
        if !wait.is_zero() {
            held.delayed = now;
        }
        if wait > at_most {
            return Err(report.lag);
        }
        held.room -= records as f64;
        Ok(wait)
    }

    /// The stream's lag is this.
    pub(super) fn report(&mut self, now: Duration, lag: Duration) {
        let backlog = self.appended.since(now.saturating_sub(lag), now);
        let applied = (self.appended.total() as f64 - backlog).max(0.0);
        let before = self.report.filter(|report| !report.stale(now));
        let Some(before) = before else {
            // What has been applied so far is not known to have been applied at any pace. That what
            // came in is also applied is the best guess, and soon corrected.
            self.drain = self.appended.since(now.saturating_sub(DRAIN_OVER), now)
                / DRAIN_OVER.min(now).as_secs_f64().max(1.0);
            self.report = Some(Report { at: now, lag, applied });
            return;
        };
        let passed = now.saturating_sub(before.at).as_secs_f64();
        if passed == 0.0 {
            return;
        }
        // A record is not applied twice, so a lag that jumps up tells of no drain below zero.
        let applied = applied.max(before.applied);
        let drain = (applied - before.applied) / passed;
        self.drain += (drain - self.drain) * (1.0 - (-passed / DRAIN_OVER.as_secs_f64()).exp());
        self.report = Some(Report { at: now, lag, applied });
        self.pace(now, lag, backlog, passed);
    }

    fn pace(&mut self, now: Duration, lag: Duration, backlog: f64, passed: f64) {
        let wanted = self.drain * LAG_WANTED.as_secs_f64();
        let mended = self.drain + (wanted - backlog) / MENDS_IN.as_secs_f64();
        // The least is added, not only kept: so nodes that came late get their share in time. Of a lag beyond
        // the memory it is not known what waits.
        let rate = if lag >= REMEMBERS { PACE_LEAST } else { PACE_LEAST + mended.max(0.0) };
        match &mut self.held {
            None if lag > LAG_WANTED => {
                self.held = Some(Held { rate, room: 0.0, at: now, delayed: now });
            }
            None => {}
            Some(held) if lag <= LAG_WANTED && now - held.delayed >= ENDS_AFTER => self.held = None,
            Some(held) => {
                held.refill(now);
                // With hardly a lag the drain is what comes in, and says nothing of what could.
                let grown = held.rate * (passed / DOUBLES_IN.as_secs_f64()).exp2();
                held.rate = match lag {
                    // The lag shows late how much has come: by now it is more than will be applied in time.
                    _ if backlog > TOO_MUCH * wanted => rate,
                    _ if lag <= LAG_WANTED / 2 => rate.max(grown),
                    // As wanted. Posts that come in bursts leave gaps, so the drain is less than the pace
                    // without being all that could be applied: following it would hold the pace down.
                    _ if lag <= LAG_WANTED => rate.max(held.rate),
                    _ => rate,
                };
            }
        }
    }

    /// Records a second that may come, if that is limited.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        let stale = self.report.is_none_or(|report| report.stale(now));
        self.held.as_ref().filter(|_| !stale).map(|held| held.rate)
    }
}

impl Report {
    fn stale(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) >= REPORT_STALE
    }
}

impl Held {
    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let most = self.rate * BURST.as_secs_f64();
        self.room = (self.room + self.rate * passed).min(most);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A stream into which 1000 records a second come for ten seconds, with this lag at their end.
    fn lagging(lag: impl Fn(u64) -> u64) -> Pace {
        let mut pace = Pace::new();
        for n in 0..=1000 {
            pace.appended(ms(10 * n), 10);
            if n % 20 == 0 {
                pace.report(ms(10 * n), ms(lag(10 * n)));
            }
        }
        pace
    }

    #[test]
    fn the_pace_is_by_the_lag_and_by_what_is_applied() {
        type Lag = fn(u64) -> u64;
        // The lag at each moment (ms), the rates that are right after ten seconds.
        let table: [(Lag, Option<std::ops::Range<u64>>, &str); 6] = [
            (|_| 0, None, "no lag"),
            (|at| at.min(1900), None, "less than is wanted"),
            (|at| at.min(2300), Some(900..1000), "what comes in is applied, and 2300 wait"),
            (|at| at / 2, Some(100..101), "half is applied, and far too much waits"),
            (|at| at / 3, Some(100..101), "two thirds are applied, and too much waits"),
            (|at| at / 4, Some(300..400), "750 of 1000 are applied, and 2500 wait"),
        ];
        for (lag, rates, why) in table {
            let rate = lagging(lag).rate(10 * SECOND).map(|rate| rate as u64);
            match rates {
                None => assert_eq!(rate, None, "{why}"),
                Some(rates) => assert!(rate.is_some_and(|r| rates.contains(&r)), "{why}: {rate:?}"),
            }
        }
    }

    #[test]
    fn what_does_not_fit_into_the_wait_is_refused_with_the_lag() {
        let mut pace = lagging(|at| at);
        let now = 10 * SECOND;
        assert_eq!(pace.rate(now), Some(PACE_LEAST));
        assert_eq!(pace.ask(now, 10, ms(250)), Ok(Duration::ZERO), "a burst of 100 ms");
        assert_eq!(pace.ask(now, 20, ms(250)), Ok(Duration::ZERO), "while there is room");
        assert_eq!(pace.ask(now, 1, ms(250)), Ok(ms(200)));
        assert_eq!(pace.ask(now, 1, ms(200)), Err(10 * SECOND), "ten milliseconds too long");
        assert_eq!(pace.ask(now, 1, ms(250)), Ok(ms(210)), "the one refused took no room");
        assert_eq!(pace.ask(now + ms(220), 1, Duration::ZERO), Ok(Duration::ZERO));
    }

    #[test]
    fn the_pace_ends_when_the_lag_is_gone_and_nobody_is_delayed() {
        let mut pace = lagging(|at| at.min(3000));
        let mut now = 10 * SECOND;
        assert!(pace.rate(now).is_some());
        // Applied at once from now on, but more wants to come than the pace allows: it stays, and grows.
        for n in 1..=10 {
            let refused = (0..10_000).any(|_| pace.ask(now, 10, Duration::ZERO).is_err());
            assert!(refused, "at {now:?}");
            now = 10 * SECOND + ms(200 * n);
            pace.report(now, ms(100));
        }
        let rate = pace.rate(now);
        assert!(rate.is_some_and(|rate| rate > 1000.0), "{rate:?}");
        for n in 1..=5 {
            pace.report(now + ms(200 * n), ms(100));
        }
        assert_eq!(pace.rate(now + SECOND), None);
    }

    #[test]
    fn bursts_do_not_hold_the_pace_down_while_the_lag_is_as_wanted() {
        let mut pace = lagging(|at| at.min(2200));
        let before = pace.rate(10 * SECOND).unwrap_or_default();
        // Every half second 500 want to come at once, and those that may are applied somewhat later.
        for n in 1..=40 {
            let now = 10 * SECOND + ms(500 * n);
            let come = (0..500).filter(|_| pace.ask(now, 1, ms(250)).is_ok()).count();
            pace.appended(now, come as u64);
            pace.report(now, ms(1800));
        }
        let after = pace.rate(30 * SECOND);
        assert!(after.is_none_or(|rate| rate >= before), "{before} became {after:?}");
    }

    #[test]
    fn nothing_is_paced_when_nobody_tells_the_lag() {
        let mut pace = lagging(|at| at);
        let stale = 10 * SECOND + REPORT_STALE;
        assert!(pace.rate(stale - ms(1)).is_some());
        assert_eq!(pace.rate(stale), None);
        assert_eq!(pace.ask(stale, 1_000_000, Duration::ZERO), Ok(Duration::ZERO));
        assert_eq!(pace.ask(stale, 1, Duration::ZERO), Ok(Duration::ZERO));
    }

    #[test]
    fn a_stream_with_few_records_is_never_refused_for_its_lag() {
        let mut pace = Pace::new();
        // 80 records a second, and a worker that stands still.
        for n in 0..6000 {
            let now = ms(25 * n);
            let asked = pace.ask(now, 2, ms(250));
            assert!(asked.is_ok(), "{asked:?} at {now:?}");
            pace.appended(now, 2);
            pace.report(now, now);
        }
    }
}
