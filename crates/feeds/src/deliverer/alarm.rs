//! The alarm: tells when a sink holds more rows, or for longer, than it should. It comes before the feed
//! exceeds its bounds because of the sink.

use std::time::Duration;

use super::SinkFeed;
use crate::cell::Found;
use crate::feed;
use crate::spec::Retention;

/// How often what waits is counted while there is much of it.
const COUNT_EVERY: Duration = Duration::from_secs(30);

/// More rows of one feed and shard than this waiting for a sink are an alarm: feeds are never trimmed past a
/// sink, and the store fills.
const HELD_ROWS: u64 = 100_000;

/// As are rows that wait for longer than this, or for half the time that the feed keeps them without sinks; and
/// rows of half the bytes that it keeps.
const HELD_FOR: Duration = Duration::from_secs(600);

impl SinkFeed {
    /// Counts what waits, from time to time, and raises or ends the alarm.
    pub(super) async fn count(&self, counted: &mut Option<Duration>, found: &Found) {
        let now = self.runtime.elapsed();
        if counted.is_some_and(|last| now.saturating_sub(last) < COUNT_EVERY) {
            return;
        }
        let next = found.stand.next;
        let SinkFeed { store, sink_name, spec, shard, .. } = self;
        let feed = &spec.feed;
        let Ok(end) = feed::end(&**store, *shard, feed, next).await else { return };
        let Ok(bytes) = feed::estimate(&**store, *shard, feed, next..end).await else { return };
        *counted = Some(now);
        let rows = end.saturating_sub(next);
        let age = self.says.since(feed).map(|since| now.saturating_sub(since));
        let age = age.unwrap_or_default();
        let alarming = is_alarming(rows, bytes, age, &spec.retention);
        self.figures.note_held(feed, *shard, rows, alarming);
        let alarm = alarming.then(|| {
            format!(
                "{sink_name} holds {rows} rows of {feed} with {bytes} bytes, the oldest for {}s: they stay in the store until \
                 it takes them; mend the sink, or take it out of the config",
                age.as_secs()
            )
        });
        if let Some(alarm) = &alarm {
            tracing::error!(%shard, "{alarm}");
        }
        self.says.alarm(feed, alarm);
    }
}

fn is_alarming(rows: u64, bytes: u64, age: Duration, kept: &Retention) -> bool {
    rows > HELD_ROWS || bytes > kept.bytes / 2 || (rows > 0 && age > HELD_FOR.min(kept.age / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_rows_or_too_old_ones_are_an_alarm() {
        let second = Duration::from_secs(1);
        let alarms = |rows, age| is_alarming(rows, 0, age, &Retention::default());
        assert!(!alarms(0, 2 * HELD_FOR));
        assert!(!alarms(HELD_ROWS, HELD_FOR));
        assert!(alarms(HELD_ROWS + 1, Duration::ZERO));
        assert!(alarms(1, HELD_FOR + second));
    }

    #[test]
    fn the_alarm_comes_before_the_feed_exceeds_its_bounds() {
        let kept = Retention { age: Duration::from_secs(100), bytes: 1_000 };
        let second = Duration::from_secs(1);
        assert!(!is_alarming(1, 500, 50 * second, &kept));
        assert!(is_alarming(1, 501, Duration::ZERO, &kept));
        assert!(is_alarming(1, 1, 51 * second, &kept));
    }
}
