//! What the sink feeds of one role say of themselves, put together as the role's own words.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::Tenure;
use consort_kernel::Name;
use parking_lot::Mutex;

/// The words of all sink feeds of a role. All clones are of the same.
#[derive(Clone, Debug)]
pub(crate) struct Says {
    tenure: Tenure,
    feeds: Arc<Mutex<BTreeMap<Name, Words>>>,
}

#[derive(Debug, Default)]
struct Words {
    /// Since when there have been rows that are not delivered, in local time.
    since: Option<Duration>,
    applied: u64,
    trouble: Option<String>,
    alarm: Option<String>,
    /// Why a refused change cannot be parked.
    full: Option<String>,
    stopped: Option<String>,
    /// Parked subjects that wait for a release.
    parked: usize,
}

impl Says {
    pub(crate) fn new(tenure: Tenure) -> Says {
        Says { tenure, feeds: Arc::default() }
    }

    /// Nothing is left to deliver.
    pub(crate) fn idle(&self, feed: &Name) {
        self.change(feed, |words| {
            (words.since, words.trouble, words.alarm, words.full) = (None, None, None, None);
        });
    }

    /// So many subjects are parked.
    pub(crate) fn parked(&self, feed: &Name, parked: usize) {
        self.feeds.lock().entry(feed.clone()).or_default().parked = parked;
    }

    /// How many subjects the other feeds of the role have parked.
    pub(crate) fn parked_by_others(&self, feed: &Name) -> usize {
        let feeds = self.feeds.lock();
        feeds.iter().filter(|(name, _)| *name != feed).map(|(_, words)| words.parked).sum()
    }

    /// There are rows, seen at this local time.
    pub(crate) fn in_hand(&self, feed: &Name, now: Duration) {
        self.change(feed, |words| {
            words.since.get_or_insert(now);
        });
    }

    /// Since when there have been undelivered rows.
    pub(crate) fn since(&self, feed: &Name) -> Option<Duration> {
        self.feeds.lock().get(feed).and_then(|words| words.since)
    }

    /// So many rows are settled; those that are left are younger.
    pub(crate) fn applied(&self, feed: &Name, rows: usize) {
        if rows > 0 {
            self.change(feed, |words| {
                (words.since, words.trouble, words.full) = (None, None, None);
                words.applied += rows as u64;
            });
        }
    }

    pub(crate) fn trouble(&self, feed: &Name, trouble: Option<String>) {
        self.change(feed, |words| words.trouble = trouble);
    }

    pub(crate) fn alarm(&self, feed: &Name, alarm: Option<String>) {
        self.change(feed, |words| words.alarm = alarm);
    }

    /// Tells whether that is news.
    pub(crate) fn full(&self, feed: &Name, full: Option<String>) -> bool {
        let mut is_news = false;
        self.change(feed, |words| {
            is_news = words.full != full;
            words.full = full;
        });
        is_news
    }

    /// Tells whether that is news.
    pub(crate) fn stopped(&self, feed: &Name, stopped: Option<String>) -> bool {
        let same = |words: &Words| words.stopped == stopped;
        if self.feeds.lock().get(feed).map_or(stopped.is_none(), same) {
            return false;
        }
        self.change(feed, |words| words.stopped = stopped);
        true
    }

    fn change(&self, feed: &Name, change: impl FnOnce(&mut Words)) {
        let mut feeds = self.feeds.lock();
        change(feeds.entry(feed.clone()).or_default());
        let oldest = feeds.values().filter_map(|words| words.since).min();
        let troubles = feeds.values().filter_map(|words| {
            words.full.as_ref().or(words.alarm.as_ref()).or(words.trouble.as_ref())
        });
        let troubles: Vec<&str> = troubles.map(String::as_str).collect();
        let trouble = (!troubles.is_empty()).then(|| troubles.join("; "));
        let stopped = feeds.values().find_map(|words| words.stopped.clone());
        let applied = feeds.values().map(|words| words.applied).sum();
        self.tenure.say(|gauge| {
            gauge.lag = Some(Duration::ZERO);
            gauge.in_hand_since = oldest;
            gauge.trouble = trouble;
            gauge.stopped = stopped;
            gauge.applied = applied;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_cluster::{Gauge, Role};

    #[test]
    fn a_role_speaks_for_all_its_lanes() {
        let (tenure, control) = Tenure::new(Role::new("deliver", "s/0"), 1);
        let says = Says::new(tenure);
        let [a, b]: [Name; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let second = Duration::from_secs(1);
        says.in_hand(&a, 2 * second);
        says.in_hand(&a, 9 * second);
        says.in_hand(&b, 5 * second);
        says.trouble(&b, Some("no b".into()));
        assert_eq!(control.gauge().in_hand_since, Some(2 * second));
        says.applied(&a, 3);
        says.applied(&a, 0);
        assert!(says.stopped(&a, Some("lost".into())));
        assert!(!says.stopped(&a, Some("lost".into())));
        let expected = Gauge {
            lag: Some(Duration::ZERO),
            in_hand_since: Some(5 * second),
            applied: 3,
            trouble: Some("no b".into()),
            stopped: Some("lost".into()),
            ready: false,
            ..Gauge::default()
        };
        assert_eq!(control.gauge(), expected);
        says.idle(&b);
        assert!(says.stopped(&a, None) && !says.stopped(&b, None));
        assert_eq!((control.gauge().trouble, control.gauge().stopped), (None, None));
    }
}
