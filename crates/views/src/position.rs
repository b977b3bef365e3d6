//! Positions: what an accepted request answers with, so that a query can wait until it is applied.
//!
//! As text: `STREAM/PARTITION:PRODUCER:SEQUENCE:TIME`, several of them with commas between.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use consort_cluster::worker::{Cells, FORGET_AFTER, ReadCellError, Stand};
use consort_cluster::{Place, Runtime};
use consort_kernel::{Name, Partition, Producer, Store, Timestamp};

use crate::part::PIPELINE;

/// The most places in one position: a bulk post over all partitions of a stream, through several nodes.
const PLACES_MOST: usize = 1_024;

/// How often a checkpoint is read again while nothing says that it has moved: a watch is only a hint.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Places in the log, for reading what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    places: Vec<Place>,
}

/// Why a text is no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// Not what an answer's `Consort-Position` says.
    #[error("'{0}' is no position: send back what 'Consort-Position' said")]
    Malformed(String),
    /// More than any answer has.
    #[error("a position has at most {PLACES_MOST} places")]
    TooMany,
}

impl Position {
    /// The position behind all of these places. Of one producer's places in a partition the last counts.
    pub fn of(places: impl IntoIterator<Item = Place>) -> Self {
        let mut last: BTreeMap<(Partition, Producer), Place> = BTreeMap::new();
        for place in places {
            let line = (place.partition.clone(), place.producer);
            match last.get(&line) {
                Some(known) if known.sequence >= place.sequence => {}
                _ => {
                    last.insert(line, place);
                }
            }
        }
        Position { places: last.into_values().collect() }
    }

    /// Its places.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Waits until everything up to it is applied; false if that takes longer than `within`.
    pub async fn reached(
        &self,
        store: &dyn Store,
        runtime: &dyn Runtime,
        within: Duration,
    ) -> Result<bool, ReadCellError> {
        let began = runtime.elapsed();
        let mut by_partition: BTreeMap<&Partition, Vec<&Place>> = BTreeMap::new();
        for place in &self.places {
            by_partition.entry(&place.partition).or_default().push(place);
        }
        for (partition, places) in by_partition {
            let cells = Cells::new(&PIPELINE, partition, store.shards());
            loop {
                // Watched before it is read: a change in between wakes.
                let mut wake = store.watch(cells.home(), &cells.checkpoint());
                let stand = cells.read_checkpoint(store).await?.stand;
                if places.iter().all(|place| has_passed(&stand, place)) {
                    break;
                }
                let left = within.saturating_sub(runtime.elapsed().saturating_sub(began));
                if left.is_zero() {
                    return Ok(false);
                }
                tokio::select! {
                    biased;
                    () = wake.changed() => {}
                    () = runtime.sleep(left.min(LOOK_EVERY)) => {}
                }
            }
        }
        Ok(true)
    }
}

/// The text of the position behind one place, as [`Position`] says it: every accepted event has one, and
/// the general way to write numbers takes longer than to check the event.
pub fn text_of(place: &Place) -> String {
    let Place { partition, producer, sequence, time, record: _ } = place;
    let mut text = String::with_capacity(partition.stream.as_str().len() + 72);
    text.push_str(partition.stream.as_str());
    text.push('/');
    push_number(&mut text, partition.index.into());
    text.push(':');
    for shift in (0..16).rev() {
        let digit = (producer.0 >> (4 * shift)) as u32 & 0xf;
        text.extend(char::from_digit(digit, 16));
    }
    text.push(':');
    push_number(&mut text, *sequence);
    text.push(':');
    push_number(&mut text, time.0);
    text
}

fn push_number(text: &mut String, number: u64) {
    let (mut digits, mut at, mut rest) = ([0; 20], 20, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend(digits[at..].iter().map(|&digit| char::from(digit)));
}

impl From<Place> for Position {
    fn from(place: Place) -> Self {
        Position { places: vec![place] }
    }
}

/// Whether a fold has passed a frame. Producers are forgotten by log time: when that has come so far
/// beyond the frame, the frame was passed long ago.
fn has_passed(stand: &Stand, place: &Place) -> bool {
    stand.has_passed(place.producer, place.sequence)
        || stand.watermark().since(place.time) > FORGET_AFTER
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, place) in self.places.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let Place { partition, producer, sequence, time, record: _ } = place;
            write!(f, "{comma}{partition}:{producer}:{sequence}:{}", time.0)?;
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.len() > PLACES_MOST {
            return Err(PositionError::TooMany);
        }
        let malformed = |part: &str| PositionError::Malformed(part.chars().take(100).collect());
        let places = parts.into_iter().map(|part| place(part).ok_or_else(|| malformed(part)));
        Ok(Position::of(places.collect::<Result<Vec<_>, _>>()?))
    }
}

fn place(text: &str) -> Option<Place> {
    let mut parts = text.split(':');
    let (stream, index) = parts.next()?.rsplit_once('/')?;
    let partition = Partition::new(Name::new(stream).ok()?, index.parse().ok()?);
    let producer = parts.next().filter(|hex| hex.len() == 16)?;
    let producer = Producer(u64::from_str_radix(producer, 16).ok()?);
    let sequence = parts.next()?.parse().ok()?;
    let time = Timestamp(parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(Place { partition, producer, sequence, time, record: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text() {
        let text =
            "lift_rides/7:00000000000000ff:12:1700000000000,lift_rides/8:00000000000000ff:3:5";
        let position: Position = text.parse().unwrap();
        assert_eq!(position.to_string(), text);
    }

    #[test]
    fn the_text_of_a_place_is_that_of_its_position() {
        for number in [0, 7, 10, 4_294_967_295, u64::MAX] {
            let place = Place {
                partition: Partition::new("lift_rides".parse().unwrap(), number as u32),
                producer: Producer(number.rotate_left(60)),
                sequence: number,
                time: Timestamp(number / 2),
                record: number as u32,
            };
            assert_eq!(text_of(&place), Position::from(place).to_string());
        }
    }

    #[test]
    fn of_one_producer_the_last_place_counts() {
        let text = "s/0:00000000000000ff:12:9,s/0:00000000000000ff:3:5,s/0:0000000000000001:4:4";
        let position: Position = text.parse().unwrap();
        assert_eq!(position.to_string(), "s/0:0000000000000001:4:4,s/0:00000000000000ff:12:9");
    }

    #[test]
    fn anything_else_is_no_position() {
        for text in ["", "x", "s/0:ff:1:1", "s/x:00000000000000ff:1:1", "s/0:00000000000000ff:1"] {
            assert!(matches!(text.parse::<Position>(), Err(PositionError::Malformed(_))), "{text}");
        }
        let many = vec!["s/0:00000000000000ff:1:1"; PLACES_MOST + 1].join(",");
        assert_eq!(many.parse::<Position>(), Err(PositionError::TooMany));
    }
}
