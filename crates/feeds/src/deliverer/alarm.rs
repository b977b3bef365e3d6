//! The alarm: tells when a sink holds more rows, or for longer, than it should.

use std::time::Duration;

use super::Lane;
use crate::cell::Found;
use crate::feed;

/// How often what waits is counted while there is much of it.
const COUNT_EVERY: Duration = Duration::from_secs(30);

/// More rows of one feed and shard than this waiting for a sink are an alarm: feeds are never trimmed past a
/// sink, and the store fills.
const HELD_ROWS: u64 = 100_000;

/// As are rows that wait for longer than this.
const HELD_FOR: Duration = Duration::from_secs(600);

impl Lane {
    /// Counts what waits, from time to time, and raises or ends the alarm.
    pub(super) async fn count(&self, counted: &mut Option<Duration>, found: Option<&Found>) {
        let now = self.runtime.elapsed();
        if counted.is_some_and(|last| now.saturating_sub(last) < COUNT_EVERY) {
            return;
        }
        let Some(next) = found.map(|found| found.stand.next) else { return };
        let Ok(end) = feed::end(&*self.store, self.shard, &self.feed, next).await else { return };
        *counted = Some(now);
        let rows = end.saturating_sub(next);
        let age = self.says.since(&self.feed).map(|since| now.saturating_sub(since));
        let age = age.unwrap_or_default();
        let alarming = is_alarming(rows, age);
        self.figures.note_held(&self.feed, self.shard, rows, alarming);
        let Lane { sink_name, feed, shard, .. } = self;
        let alarm = alarming.then(|| {
            format!(
                "{sink_name} holds {rows} rows of {feed}, the oldest for {}s: they stay in the store until \
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

fn is_alarming(rows: u64, age: Duration) -> bool {
    rows > HELD_ROWS || (rows > 0 && age > HELD_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_rows_or_too_old_ones_are_an_alarm() {
        let second = Duration::from_secs(1);
        assert!(!is_alarming(0, 2 * HELD_FOR));
        assert!(!is_alarming(HELD_ROWS, HELD_FOR));
        assert!(is_alarming(HELD_ROWS + 1, Duration::ZERO));
        assert!(is_alarming(1, HELD_FOR + second));
    }
}
