//! The search for one register.
//!
//! Four rules keep it short. Each leaves out only orders that another order can stand for.
//!
//! 1. A read, or a swap that failed, is taken as soon as it fits: it changes nothing.
//! 2. A value that ended calls have yet to find, and that no remaining call can set again, is not overwritten.
//! 3. A call of unknown outcome is taken only where the next call needs its value. Without that it might as well have
//!    had no effect.
//! 4. Writes of values that no call names are alike: of those that may come next, the one that ended first is tried. It
//!    is the only choice where no call wants the value before it.

use std::collections::{HashMap, HashSet};

use super::{RegisterCall, RegisterStep, SearchLimits, SearchVerdict};

/// Searches one register.
pub fn search(calls: &[RegisterCall], limits: SearchLimits) -> SearchVerdict {
    let searcher = Searcher::new(calls);
    let mut seen = HashSet::new();
    let mut path = vec![searcher.frame(OrderState::default())];
    let mut steps = 0;
    while let Some(frame) = path.last_mut() {
        if frame.state.first == searcher.ended.len() {
            return SearchVerdict::Linearizable;
        }
        let Some(choice) = frame.choices.pop() else {
            path.pop();
            continue;
        };
        let next = searcher.after(&frame.state, choice);
        steps += 1;
        if seen.contains(&next) {
            continue;
        }
        if steps >= limits.steps || seen.len() >= limits.states {
            return SearchVerdict::Undecided;
        }
        seen.insert(next.clone());
        path.push(searcher.frame(next));
    }
    SearchVerdict::NotLinearizable
}

/// An order as far as it is built: the calls in it, and the value behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct OrderState {
    value: Option<i64>,
    /// All ended calls before this one are in the order.
    first: usize,
    /// The ended calls behind that one that are in the order, ascending.
    ahead: Vec<usize>,
    /// The open calls in the order, ascending.
    open: Vec<usize>,
    /// The last call is an open one, so the next must need its value (rule 3).
    must_use: bool,
}

/// A call, by its place among those that ended or among the open ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Ended(usize),
    Open(usize),
}

/// A state, and the calls that may come next and were not tried; the best is the last.
struct Frame {
    state: OrderState,
    choices: Vec<Choice>,
}

/// The calls that name a value.
#[derive(Debug, Default)]
struct Named {
    /// Ended calls that find it.
    found_by: Vec<usize>,
    /// Open swaps that may find it.
    maybe_found_by: Vec<usize>,
    /// Calls that set it.
    set_by: Vec<Choice>,
    /// Whether a swap failed because it was not there.
    is_missed: bool,
}

/// The calls of a register.
struct Searcher {
    /// Those with an end, by begin.
    ended: Vec<(u64, RegisterCall)>,
    /// Those with an unknown outcome, by begin.
    open: Vec<RegisterCall>,
    names: HashMap<Option<i64>, Named>,
    /// The places of the swaps that failed.
    failed_swaps: Vec<usize>,
}

impl Searcher {
    fn new(calls: &[RegisterCall]) -> Searcher {
        let mut ended: Vec<(u64, RegisterCall)> = Vec::new();
        let mut open = Vec::new();
        for call in calls {
            match call.span.ended {
                Some(end) => ended.push((end, *call)),
                None => open.push(*call),
            }
        }
        ended.sort_by_key(|(_, call)| call.span.began);
        open.sort_by_key(|call| call.span.began);
        let mut searcher =
            Searcher { ended, open, names: HashMap::new(), failed_swaps: Vec::new() };
        let places = (0..searcher.ended.len()).map(Choice::Ended);
        for place in places.chain((0..searcher.open.len()).map(Choice::Open)).collect::<Vec<_>>() {
            searcher.note(place);
        }
        searcher
    }

    /// Notes the values that a call names.
    fn note(&mut self, place: Choice) {
        let step = self.call(place).step;
        let found = match step {
            RegisterStep::Read(value) => Some(value),
            RegisterStep::Swap { from, .. } => Some(Some(from)),
            RegisterStep::Write(_) => None,
            RegisterStep::FailedSwap { from } => {
                self.names.entry(Some(from)).or_default().is_missed = true;
                if let Choice::Ended(at) = place {
                    self.failed_swaps.push(at);
                }
                None
            }
        };
        if let Some(value) = found {
            let named = self.names.entry(value).or_default();
            match place {
                Choice::Ended(at) => named.found_by.push(at),
                Choice::Open(at) => named.maybe_found_by.push(at),
            }
        }
        if let Some(value) = step.target() {
            self.names.entry(Some(value)).or_default().set_by.push(place);
        }
    }

    fn call(&self, place: Choice) -> &RegisterCall {
        match place {
            Choice::Ended(at) => &self.ended[at].1,
            Choice::Open(at) => &self.open[at],
        }
    }

    fn frame(&self, state: OrderState) -> Frame {
        let choices = self.choices(&state);
        Frame { state, choices }
    }

    /// The calls that may come next.
    fn choices(&self, state: &OrderState) -> Vec<Choice> {
        let (ready, horizon) = self.ready(state);
        let possible = |place: &Choice| self.call(*place).step.apply(state.value).is_some();
        let mut ended: Vec<Choice> =
            ready.into_iter().map(Choice::Ended).filter(possible).collect();
        let observation = ended.iter().find(|place| self.call(**place).step.is_observation());
        if let Some(place) = observation {
            return vec![*place];
        }
        let open = self.open.iter().enumerate().take_while(|(_, call)| call.span.began <= horizon);
        let open = open.map(|(at, _)| at).filter(|at| !state.open.contains(at));
        let mut open: Vec<Choice> = open.map(Choice::Open).filter(possible).collect();
        let wants = self.wants(state);
        if state.must_use || wants == Wants::Surely {
            let uses = |place: &Choice| {
                matches!(self.call(*place).step, RegisterStep::Swap { .. })
                    && (wants != Wants::Surely || matches!(place, Choice::Ended(_)))
            };
            ended.retain(uses);
            open.retain(uses);
        }
        self.keep_one_alike(&mut ended);
        self.keep_one_alike(&mut open);
        let alike = ended.last().copied().filter(|place| self.is_unnamed(*place));
        match alike {
            Some(place) if wants == Wants::No => vec![place],
            _ => {
                open.append(&mut ended);
                open
            }
        }
    }

    /// The ended calls that may come next, the one that ended first at the end, and the moment by which such a call
    /// began: the earliest end of those that remain.
    fn ready(&self, state: &OrderState) -> (Vec<usize>, u64) {
        let mut horizon = u64::MAX;
        let mut ready = Vec::new();
        for (at, (end, call)) in self.ended.iter().enumerate().skip(state.first) {
            if call.span.began > horizon {
                break;
            }
            if !state.has(Choice::Ended(at)) {
                horizon = horizon.min(*end);
                ready.push(at);
            }
        }
        ready.retain(|at| self.ended[*at].1.span.began <= horizon);
        ready.sort_by_key(|at| std::cmp::Reverse(self.ended[*at].0));
        (ready, horizon)
    }

    /// Whether remaining calls want to find the present value.
    fn wants(&self, state: &OrderState) -> Wants {
        let remains = |place: &Choice| !state.has(*place);
        let any_ended = |places: &[usize]| places.iter().any(|at| remains(&Choice::Ended(*at)));
        let Some(named) = self.names.get(&state.value) else {
            // Only a swap that failed can gain from another value.
            return if any_ended(&self.failed_swaps) { Wants::Perhaps } else { Wants::No };
        };
        let is_found = any_ended(&named.found_by);
        let is_maybe_found = named.maybe_found_by.iter().any(|at| remains(&Choice::Open(*at)));
        match (is_found, named.set_by.iter().any(remains)) {
            (true, false) => Wants::Surely,
            (false, _) if !is_maybe_found && !any_ended(&self.failed_swaps) => Wants::No,
            _ => Wants::Perhaps,
        }
    }

    /// Keeps the last of the writes that are alike, as the last of all.
    fn keep_one_alike(&self, places: &mut Vec<Choice>) {
        let last = places.iter().rposition(|place| self.is_unnamed(*place));
        if let Some(last) = last.map(|at| places[at]) {
            places.retain(|place| !self.is_unnamed(*place));
            places.push(last);
        }
    }

    /// Whether it is a write of a value that no other call names.
    fn is_unnamed(&self, place: Choice) -> bool {
        let RegisterStep::Write(value) = self.call(place).step else { return false };
        self.names.get(&Some(value)).is_none_or(|named| {
            named.found_by.is_empty() && named.maybe_found_by.is_empty() && !named.is_missed
        })
    }

    fn after(&self, state: &OrderState, choice: Choice) -> OrderState {
        let mut next = state.clone();
        let step = self.call(choice).step;
        let (taken, at) = match choice {
            Choice::Ended(at) => (&mut next.ahead, at),
            Choice::Open(at) => (&mut next.open, at),
        };
        let place = taken.partition_point(|other| *other < at);
        taken.insert(place, at);
        let passed = next.ahead.iter().zip(next.first..).take_while(|(at, first)| *at == first);
        let passed = passed.count();
        next.ahead.drain(..passed);
        next.first += passed;
        next.value = step.apply(state.value).unwrap_or(state.value);
        next.must_use = matches!(choice, Choice::Open(_));
        next
    }
}

/// Whether remaining calls want to find a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    /// Some have to, and no other call sets it again.
    Surely,
    /// Some may.
    Perhaps,
    /// None does.
    No,
}

impl OrderState {
    fn has(&self, place: Choice) -> bool {
        match place {
            Choice::Ended(at) => at < self.first || self.ahead.binary_search(&at).is_ok(),
            Choice::Open(at) => self.open.binary_search(&at).is_ok(),
        }
    }
}
