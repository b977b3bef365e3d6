//! What the views should hold, counted from the rides by plain code that shares nothing with them.

use std::collections::{BTreeMap, BTreeSet};

use super::rides::Ride;

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Count {
    /// By skier: the days.
    pub days: BTreeMap<u32, BTreeSet<u16>>,
    /// By skier and day: the vertical, and the lifts.
    pub skier_days: BTreeMap<(u32, u16), (i64, BTreeSet<u8>)>,
    /// By resort and day: the skiers.
    pub resorts: BTreeMap<(u8, u16), BTreeSet<u32>>,
    /// By lift and day: the rides.
    pub lifts: BTreeMap<(u8, u16), i64>,
    /// By day and hour: the rides.
    pub hours: BTreeMap<(u16, u16), i64>,
    /// By resort, day and skier: the vertical.
    pub resort_skiers: BTreeMap<(u8, u16, u32), i64>,
}

impl Count {
    /// Counts all of these.
    pub fn of(rides: &[Ride]) -> Count {
        let mut count = Count::default();
        rides.iter().for_each(|ride| count.add(ride));
        count
    }

    /// Counts one more.
    pub fn add(&mut self, ride: &Ride) {
        let Ride { resort, day, skier, time, lift } = *ride;
        let vertical = i64::from(lift) * 10;
        self.days.entry(skier).or_default().insert(day);
        let of_day = self.skier_days.entry((skier, day)).or_default();
        of_day.0 += vertical;
        of_day.1.insert(lift);
        self.resorts.entry((resort, day)).or_default().insert(skier);
        *self.lifts.entry((lift, day)).or_default() += 1;
        *self.hours.entry((day, time / 60)).or_default() += 1;
        *self.resort_skiers.entry((resort, day, skier)).or_default() += vertical;
    }
}
