//! Those who wait until fewer are in flight, in the order in which they came.
//!
//! What they wait for is sent to them. One who has left meanwhile never gets it: it is dropped with the
//! channel, and gives back what it holds.

use std::collections::VecDeque;

use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct Line<T>(VecDeque<oneshot::Sender<T>>);

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line(VecDeque::new())
    }
}

impl<T> Line<T> {
    /// A place at the end, if fewer than `most` wait.
    pub(super) fn join(&mut self, most: usize) -> Option<oneshot::Receiver<T>> {
        if self.0.len() >= most {
            self.0.retain(|place| !place.is_closed());
        }
        (self.0.len() < most).then(|| {
            let (place, turn) = oneshot::channel();
            self.0.push_back(place);
            turn
        })
    }

    /// Whether there is nobody in it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first who still waits.
    pub(super) fn next(&mut self) -> Option<oneshot::Sender<T>> {
        while let Some(place) = self.0.pop_front() {
            if !place.is_closed() {
                return Some(place);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_in_order_to_those_who_still_wait() {
        let mut line = Line::default();
        let mut turns: Vec<_> = (0..4).map(|_| line.join(4).unwrap()).collect();
        assert!(line.join(4).is_none(), "all places are taken");
        drop(turns.remove(1));
        drop(turns.remove(0));
        let mut late = line.join(4).unwrap();
        for n in 0..3 {
            line.next().unwrap().send(n).unwrap();
        }
        assert!(line.next().is_none());
        assert_eq!(turns[0].try_recv(), Ok(0));
        assert_eq!(turns[1].try_recv(), Ok(1));
        assert_eq!(late.try_recv(), Ok(2));
    }
}
