//! Rides as they are posted.

use rand::Rng;

/// The season of all rides.
pub const SEASON: &str = "trial";

/// Few of each, so that rides meet in their groups.
const RESORTS: u8 = 4;
const DAYS: u16 = 3;
const LIFTS: u8 = 12;

/// One ride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ride {
    /// Where.
    pub resort: u8,
    /// The day of the season.
    pub day: u16,
    /// Who.
    pub skier: u32,
    /// The minute of the day.
    pub time: u16,
    /// The lift.
    pub lift: u8,
}

impl Ride {
    /// A ride of one of `skiers`.
    pub fn random(dice: &mut impl Rng, skiers: std::ops::Range<u32>) -> Ride {
        Ride {
            resort: dice.random_range(1..=RESORTS),
            day: dice.random_range(1..=DAYS),
            skier: dice.random_range(skiers),
            time: dice.random_range(0..1440),
            lift: dice.random_range(1..=LIFTS),
        }
    }

    /// Where it is posted.
    pub fn path(&self) -> String {
        let Ride { resort, day, skier, .. } = self;
        format!("/skiers/{resort}/seasons/{SEASON}/days/{day}/skiers/{skier}")
    }

    /// All of it, as the stream takes it in a list.
    pub fn event(&self) -> String {
        let Ride { resort, day, skier, time, lift } = self;
        format!(
            "{{\"resort\":{resort},\"season\":\"{SEASON}\",\"day\":{day},\"skier\":{skier},\
             \"time\":{time},\"liftID\":{lift}}}"
        )
    }

    /// What is posted there.
    pub fn body(&self) -> String {
        format!("{{\"time\":{},\"liftID\":{}}}", self.time, self.lift)
    }
}
