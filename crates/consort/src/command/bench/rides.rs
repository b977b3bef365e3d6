//! Random lift rides, and what should be kept of them.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng as _;
use rand::rngs::SmallRng;

/// The longest name of a season: as long as a text of the stream may be.
const SEASON_MOST: usize = 256;

/// A season that only one run posts into.
#[derive(Clone, Debug)]
pub(super) struct Season(String);

impl Season {
    pub(super) fn fresh() -> Season {
        Season(format!("bench-{:016x}", rand::random::<u64>()))
    }

    /// A season whose name stands in paths as it is.
    pub(super) fn named(name: &str) -> Result<Season, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        match (1..=SEASON_MOST).contains(&name.len()) && name.chars().all(plain) {
            true => Ok(Season(name.to_owned())),
            false => Err(format!(
                "use 1 to {SEASON_MOST} letters, digits, '-', '_' and '.' for a season"
            )),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// One ride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ride {
    pub(super) resort: u8,
    pub(super) day: u16,
    pub(super) skier: u32,
    pub(super) time: u16,
    pub(super) lift: u8,
    pub(super) wait: Option<u8>,
}

impl Ride {
    pub(super) fn random(dice: &mut SmallRng) -> Ride {
        Ride {
            resort: dice.random_range(1..=10),
            day: dice.random_range(1..=5),
            skier: dice.random_range(1..=100_000),
            time: dice.random_range(0..1440),
            lift: dice.random_range(1..=60),
            wait: dice.random_bool(0.5).then(|| dice.random_range(0..=60)),
        }
    }

    pub(super) fn path(&self, season: &Season) -> String {
        let Ride { resort, day, skier, .. } = self;
        format!("/skiers/{resort}/seasons/{}/days/{day}/skiers/{skier}", season.0)
    }

    pub(super) fn body(&self) -> String {
        let Ride { time, lift, wait, .. } = self;
        match wait {
            Some(wait) => format!("{{\"time\":{time},\"liftID\":{lift},\"waitTime\":{wait}}}"),
            None => format!("{{\"time\":{time},\"liftID\":{lift}}}"),
        }
    }
}

/// What the six questions should be answered.
#[derive(Debug, Default)]
pub(super) struct Count {
    /// By skier: the days.
    pub(super) days: BTreeMap<u32, BTreeSet<u16>>,
    /// By skier and day: the vertical, and the lifts.
    pub(super) skier_days: BTreeMap<(u32, u16), (i64, BTreeSet<u8>)>,
    /// By resort and day: the skiers.
    pub(super) resorts: BTreeMap<(u8, u16), BTreeSet<u32>>,
    /// By lift and day: the rides.
    pub(super) lifts: BTreeMap<(u8, u16), i64>,
    /// By day and hour: the rides.
    pub(super) hours: BTreeMap<(u16, u16), i64>,
}

impl Count {
    pub(super) fn of<'a>(rides: impl IntoIterator<Item = &'a Ride>) -> Count {
        let mut count = Count::default();
        for ride in rides {
            let Ride { resort, day, skier, time, lift, .. } = *ride;
            count.days.entry(skier).or_default().insert(day);
            let (vertical, lifts) = count.skier_days.entry((skier, day)).or_default();
            *vertical += i64::from(lift) * 10;
            lifts.insert(lift);
            count.resorts.entry((resort, day)).or_default().insert(skier);
            *count.lifts.entry((lift, day)).or_default() += 1;
            *count.hours.entry((day, time / 60)).or_default() += 1;
        }
        count
    }
}
