//! Which children should run: a plain state machine that knows no process and no clock.
//!
//! Each child has a slot, which fixes its id and its port. The lowest free slot is filled first and the highest one is
//! emptied first, so the first child, whose address is known, is retired last.

use std::collections::VecDeque;
use std::time::Duration;

/// How long a child may take to hand its roles over before it gets SIGTERM.
const DRAINS_WITHIN: Duration = Duration::from_secs(60);

/// How long it may take after SIGTERM before it gets SIGKILL.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// The pause before a child is started again; twice as long after each further death, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A child that ran for so long had started well.
const RAN_WELL: Duration = Duration::from_secs(60);

/// So many deaths within so long are no accident: something is wrong that a restart does not mend.
pub(super) const DEATHS_MOST: usize = 5;
const DEATHS_WITHIN: Duration = Duration::from_secs(60);

/// What is to be done with a child, by its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start(usize),
    /// Ask the cluster to retire it. Repeated until it is under way.
    Drain(usize),
    Terminate(usize),
    Kill(usize),
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was to end.
    Retired,
    /// It ended by itself and is started again after this time.
    Died(Duration),
    /// It died once too often.
    GivenUp,
}

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    deaths: VecDeque<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    state: State,
    /// Deaths since it last ran well.
    failures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Empty,
    /// Runs since then.
    Running(Duration),
    /// Is started again then.
    Pausing(Duration),
    /// Was asked to leave then, and whether the cluster has taken that.
    Draining(Duration, bool),
    Terminated(Duration),
    Killed,
}

impl Slots {
    /// So many empty slots.
    pub(super) fn new(count: usize) -> Slots {
        Slots { slots: vec![Slot::default(); count], deaths: VecDeque::new() }
    }

    /// What is to be done now so that `target` children run.
    pub(super) fn step(&mut self, now: Duration, target: usize) -> Vec<Action> {
        let mut actions = self.escalate(now);
        while self.occupied() > target && self.empty_highest(now) {}
        for at in 0..self.slots.len() {
            let slot = self.slots[at];
            let starts = match slot.state {
                State::Empty => self.occupied() < target,
                State::Pausing(until) => until <= now,
                _ => false,
            };
            if starts {
                self.slots[at].state = State::Running(now);
                actions.push(Action::Start(at + 1));
            }
        }
        actions.extend(self.drains_to_ask());
        actions
    }

    /// What is to be done now so that one child is left. Nothing is started any more.
    pub(super) fn step_down(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = self.escalate(now);
        while self.occupied() > 1 && self.empty_highest(now) {}
        actions.extend(self.drains_to_ask());
        actions
    }

    /// Whether no child leaves any more, and at most one runs.
    pub(super) fn is_alone(&self) -> bool {
        let leaves = |slot: &Slot| {
            matches!(slot.state, State::Draining(..) | State::Terminated(_) | State::Killed)
        };
        self.occupied() <= 1 && !self.slots.iter().any(leaves)
    }

    fn drains_to_ask(&self) -> Vec<Action> {
        let asks =
            |number: &usize| matches!(self.slots[number - 1].state, State::Draining(_, false));
        (1..=self.slots.len()).filter(asks).map(Action::Drain).collect()
    }

    /// The cluster has taken the wish to retire this child.
    pub(super) fn drains(&mut self, number: usize) {
        if let State::Draining(_, taken) = &mut self.slots[number - 1].state {
            *taken = true;
        }
    }

    /// A child has ended.
    pub(super) fn ended(&mut self, number: usize, now: Duration) -> End {
        let slot = &mut self.slots[number - 1];
        let State::Running(since) = slot.state else {
            *slot = Slot::default();
            return End::Retired;
        };
        if now.saturating_sub(since) >= RAN_WELL {
            slot.failures = 0;
        }
        let pause = (FIRST_PAUSE * 2u32.saturating_pow(slot.failures)).min(LONGEST_PAUSE);
        slot.failures = slot.failures.saturating_add(1).min(10);
        slot.state = State::Pausing(now + pause);
        self.deaths.push_back(now);
        while self.deaths.front().is_some_and(|at| now.saturating_sub(*at) > DEATHS_WITHIN) {
            self.deaths.pop_front();
        }
        if self.deaths.len() >= DEATHS_MOST { End::GivenUp } else { End::Died(pause) }
    }

    /// Children that run or are about to, without those that leave.
    pub(super) fn occupied(&self) -> usize {
        let stays = |slot: &&Slot| matches!(slot.state, State::Running(_) | State::Pausing(_));
        self.slots.iter().filter(stays).count()
    }

    /// The numbers of those that run, lowest first.
    pub(super) fn running(&self) -> Vec<usize> {
        let runs = |slot: &Slot| matches!(slot.state, State::Running(_));
        (1..=self.slots.len()).filter(|number| runs(&self.slots[number - 1])).collect()
    }

    /// Whether nothing runs any more.
    pub(super) fn is_empty(&self) -> bool {
        let gone = |slot: &Slot| matches!(slot.state, State::Empty | State::Pausing(_));
        self.slots.iter().all(gone)
    }

    /// The last child is to end: nobody is there to take its roles.
    pub(super) fn end_last(&mut self, now: Duration) -> Vec<Action> {
        let running = self.running();
        for number in &running {
            self.slots[number - 1].state = State::Terminated(now);
        }
        running.into_iter().map(Action::Terminate).collect()
    }

    fn escalate(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            match slot.state {
                State::Draining(since, _) if now.saturating_sub(since) >= DRAINS_WITHIN => {
                    slot.state = State::Terminated(now);
                    actions.push(Action::Terminate(at + 1));
                }
                State::Terminated(since) if now.saturating_sub(since) >= ENDS_WITHIN => {
                    slot.state = State::Killed;
                    actions.push(Action::Kill(at + 1));
                }
                _ => {}
            }
        }
        actions
    }

    /// Lets go of one child: of one that does not run if there is one, else of the one with the highest number.
    fn empty_highest(&mut self, now: Duration) -> bool {
        let pausing = |slot: &&mut Slot| matches!(slot.state, State::Pausing(_));
        if let Some(slot) = self.slots.iter_mut().rev().find(pausing) {
            slot.state = State::Empty;
            return true;
        }
        let running = |slot: &&mut Slot| matches!(slot.state, State::Running(_));
        let Some(slot) = self.slots.iter_mut().rev().find(running) else { return false };
        slot.state = State::Draining(now, false);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_lowest_slots_are_filled_first_and_the_highest_emptied_first() {
        let mut slots = Slots::new(4);
        assert_eq!(slots.step(at(0), 1), [Action::Start(1)]);
        assert_eq!(slots.step(at(1), 3), [Action::Start(2), Action::Start(3)]);
        assert_eq!(slots.step(at(2), 3), []);
        assert_eq!(slots.step(at(3), 2), [Action::Drain(3)]);
        // It is asked again until the cluster has taken it.
        assert_eq!(slots.step(at(4), 2), [Action::Drain(3)]);
        slots.drains(3);
        assert_eq!(slots.step(at(5), 2), []);
        // One that leaves is not called back: another takes its place.
        assert_eq!(slots.step(at(6), 3), [Action::Start(4)]);
        assert_eq!(slots.ended(3, at(7)), End::Retired);
        assert_eq!(slots.step(at(8), 1), [Action::Drain(2), Action::Drain(4)]);
        assert_eq!(slots.running(), [1]);
    }

    #[test]
    fn a_child_that_does_not_leave_is_terminated_and_then_killed() {
        let mut slots = Slots::new(2);
        slots.step(at(0), 2);
        slots.step(at(1), 1);
        slots.drains(2);
        assert_eq!(slots.step(at(60), 1), []);
        assert_eq!(slots.step(at(61), 1), [Action::Terminate(2)]);
        assert_eq!(slots.step(at(80), 1), []);
        assert_eq!(slots.step(at(81), 1), [Action::Kill(2)]);
        assert_eq!(slots.step(at(200), 1), []);
        assert_eq!(slots.ended(2, at(201)), End::Retired);
    }

    #[test]
    fn a_dead_child_is_started_again_later_each_time_and_five_deaths_in_a_minute_end_it() {
        let mut slots = Slots::new(2);
        slots.step(at(0), 2);
        let mut now = at(10);
        for pause in [1, 2, 4, 8] {
            assert_eq!(slots.ended(2, now), End::Died(at(pause)));
            assert_eq!(slots.step(now, 2), []);
            now += at(pause);
            assert_eq!(slots.step(now, 2), [Action::Start(2)]);
        }
        assert_eq!(slots.ended(2, now), End::GivenUp);
        // The same deaths, further apart.
        let mut slots = Slots::new(1);
        slots.step(at(0), 1);
        for n in 1..=20 {
            assert_eq!(slots.ended(1, at(100 * n)), End::Died(at(1)), "it had run well");
            assert_eq!(slots.step(at(100 * n + 1), 1), [Action::Start(1)]);
        }
    }

    #[test]
    fn a_child_that_waits_to_be_started_again_is_the_first_to_go() {
        let mut slots = Slots::new(3);
        slots.step(at(0), 3);
        slots.ended(1, at(1));
        assert_eq!(slots.step(at(1), 2), []);
        assert_eq!(slots.running(), [2, 3]);
        assert_eq!(slots.step(at(1), 3), [Action::Start(1)]);
    }

    #[test]
    fn the_last_child_is_terminated_when_all_others_have_left() {
        let mut slots = Slots::new(2);
        slots.step(at(0), 2);
        assert!(!slots.is_alone());
        assert_eq!(slots.step_down(at(1)), [Action::Drain(2)]);
        assert!(!slots.is_alone());
        slots.ended(2, at(2));
        assert!(slots.is_alone());
        assert_eq!(slots.end_last(at(3)), [Action::Terminate(1)]);
        assert!(!slots.is_empty());
        assert_eq!(slots.step_down(at(23)), [Action::Kill(1)]);
        slots.ended(1, at(24));
        assert!(slots.is_empty());
    }
}
