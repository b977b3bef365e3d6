//! The Redis commands that bring the six views up to date with a ride.

use redis::Cmd;

use super::Queue;
use crate::lifts::ride::{Body, Place, Ride};

/// The commands for the views that `queue` feeds.
pub(super) fn update(queue: Queue, ride: &Ride) -> [Cmd; 3] {
    let Place { resort, season, day, skier } = &ride.place;
    let Body { time, lift, .. } = &ride.body;
    match queue {
        Queue::Skiers => [
            Cmd::sadd(format!("skier:{skier}:{season}:days"), day),
            Cmd::hincr(format!("skier:{skier}:{season}:vertical"), day, lift * 10),
            Cmd::sadd(format!("skier:{skier}:{season}:{day}:lifts"), lift),
        ],
        Queue::Resorts => [
            Cmd::sadd(format!("resort:{resort}:{season}:{day}:skiers"), skier),
            Cmd::hincr(format!("lift:{lift}:{season}:rides"), day, 1),
            Cmd::hincr(format!("day:{season}:{day}:hours"), time / 60, 1),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_updates_its_three_views() {
        let place = Place { resort: 3, season: "2026".into(), day: 12, skier: 45 };
        let ride = Ride { place, body: Body { time: 125, lift: 7, wait: None } };
        let words = |command: &Cmd| -> Vec<String> {
            let arguments = command.args_iter().map(|argument| match argument {
                redis::Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                _ => String::new(),
            });
            arguments.collect()
        };
        let commands: Vec<String> = [Queue::Skiers, Queue::Resorts]
            .into_iter()
            .flat_map(|queue| update(queue, &ride))
            .map(|command| words(&command).join(" "))
            .collect();
        assert_eq!(
            commands,
            [
                "SADD skier:45:2026:days 12",
                "HINCRBY skier:45:2026:vertical 12 70",
                "SADD skier:45:2026:12:lifts 7",
                "SADD resort:3:2026:12:skiers 45",
                "HINCRBY lift:7:2026:rides 12 1",
                "HINCRBY day:2026:12:hours 2 1",
            ]
        );
    }
}
