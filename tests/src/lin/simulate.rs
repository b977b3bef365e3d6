//! Simulated histories of registers, for the checkers' own tests: several clients, one database that does everything
//! right, and a feed. Which calls overlap, group and end unknown is drawn from a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::feed::{ChangedRow, FeedChange, FeedGroup, FeedRows};
use super::history::{CallSpan, ClientCall, ReadLevel, RowCell, ToldOutcome};
use super::registers::{REGISTER_HISTORY, REGISTERS, RegisterAccess, RegisterRecord, register_row};
use super::witness::WitnessRules;

/// How many calls a simulation has, and on how many registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) clients: u32,
    pub(super) calls: usize,
    pub(super) registers: i64,
}

/// The rules that a simulated history keeps.
pub(super) const RULES: WitnessRules =
    WitnessRules { history: REGISTER_HISTORY, max_stale: Duration::from_nanos(400) };

/// A history, and the feed behind it.
#[derive(Clone, Debug)]
pub(super) struct Simulated {
    pub(super) records: Vec<RegisterRecord>,
    pub(super) groups: Vec<FeedGroup>,
}

impl Simulated {
    pub(super) fn calls(&self) -> Vec<ClientCall> {
        self.records.iter().map(RegisterRecord::client_call).collect()
    }

    pub(super) fn feed(&self) -> FeedRows {
        FeedRows::replay(&self.groups)
    }
}

/// Simulates a history.
pub(super) fn simulate(seed: u64, scale: Scale) -> Simulated {
    let mut random = StdRng::seed_from_u64(seed);
    let mut events = plan(&mut random, scale);
    events.sort_by_key(|event| event.at);
    let mut database = Database::default();
    for event in &events {
        database.run(event, &mut random);
    }
    Simulated { records: database.records, groups: database.groups }
}

/// A moment in a call: its begin, or when it takes effect.
#[derive(Clone, Debug)]
struct Event {
    at: u64,
    kind: EventKind,
    plan: Plan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Begin,
    Effect,
}

#[derive(Clone, Debug)]
struct Plan {
    stamp: i64,
    client: u32,
    span: CallSpan,
    register: i64,
    kind: PlanKind,
}

#[derive(Clone, Copy, Debug)]
enum PlanKind {
    Write,
    Swap,
    Read,
    /// A write that does not take effect: refused, or of unknown outcome.
    Lost,
}

fn plan(random: &mut StdRng, scale: Scale) -> Vec<Event> {
    let mut events = Vec::new();
    let mut stamp = 0;
    for client in 0..scale.clients {
        let mut now = random.random_range(0..50);
        for _ in 0..scale.calls {
            stamp += 1;
            let began = now + random.random_range(1..20);
            let is_unknown = random.random_ratio(1, 12);
            let kind = match random.random_range(0..20) {
                0 => PlanKind::Lost,
                1..8 => PlanKind::Write,
                8..12 if !is_unknown => PlanKind::Swap,
                _ if is_unknown => PlanKind::Write,
                _ => PlanKind::Read,
            };
            let within = if is_unknown { 3_000 } else { 100 };
            let effect = began + random.random_range(1..within);
            let ended = (!is_unknown).then(|| effect + random.random_range(1..100));
            now = ended.unwrap_or(began + 150);
            let register = random.random_range(0..scale.registers);
            let plan = Plan { stamp, client, span: CallSpan { began, ended }, register, kind };
            events.push(Event { at: began, kind: EventKind::Begin, plan: plan.clone() });
            events.push(Event { at: effect, kind: EventKind::Effect, plan });
        }
    }
    events
}

#[derive(Debug, Default)]
struct Database {
    values: BTreeMap<i64, i64>,
    /// The value that a client saw before it began to swap it, by stamp.
    seen: BTreeMap<i64, i64>,
    /// The highest index that each client saw.
    positions: BTreeMap<u32, u64>,
    groups: Vec<FeedGroup>,
    /// When each group took effect.
    times: Vec<u64>,
    /// Whether a write may still join the last group.
    is_open: bool,
    rows: i64,
    records: Vec<RegisterRecord>,
}

impl Database {
    fn run(&mut self, event: &Event, random: &mut StdRng) {
        let Plan { stamp, register, kind, .. } = event.plan;
        match (event.kind, kind) {
            (EventKind::Begin, _) => {
                let now = self.values.get(&register).copied().unwrap_or(-1);
                // At times the client saw something else.
                let seen = if random.random_ratio(1, 4) { stamp / 2 } else { now };
                self.seen.insert(stamp, seen);
            }
            (EventKind::Effect, PlanKind::Write | PlanKind::Swap) => self.write(event, random),
            (EventKind::Effect, PlanKind::Read) => self.read(&event.plan, event.at, random),
            (EventKind::Effect, PlanKind::Lost) => {
                let outcome = match event.plan.span.ended {
                    Some(_) => ToldOutcome::NotStored,
                    None => ToldOutcome::Unknown,
                };
                self.record(&event.plan, RegisterAccess::Write { stamp, outcome });
            }
        }
    }

    fn write(&mut self, event: &Event, random: &mut StdRng) {
        let Plan { stamp, register, span, kind, .. } = event.plan;
        let from = matches!(kind, PlanKind::Swap).then(|| self.seen[&stamp]);
        let access = |outcome| match from {
            Some(from) => RegisterAccess::Swap { from, stamp, outcome },
            None => RegisterAccess::Write { stamp, outcome },
        };
        if from.is_some_and(|from| self.values.get(&register) != Some(&from)) {
            self.is_open = false;
            return self.record(&event.plan, access(ToldOutcome::Unmet));
        }
        // A group takes effect as one: who joins it had begun before that.
        let joins = self.is_open
            && self.times.last().is_some_and(|time| span.began < *time)
            && random.random();
        if !joins {
            let index = self.groups.last().map_or(0, |group| group.index);
            let index = index + random.random_range(1..3);
            self.groups.push(FeedGroup { index, changes: Vec::new() });
            self.times.push(event.at);
            self.is_open = true;
        }
        let index = self.append(register, stamp);
        let outcome = match span.ended {
            Some(_) => {
                self.positions.insert(event.plan.client, index);
                ToldOutcome::Stored { index: Some(index) }
            }
            None => ToldOutcome::Unknown,
        };
        self.record(&event.plan, access(outcome));
    }

    /// Adds a write to the last group.
    fn append(&mut self, register: i64, stamp: i64) -> u64 {
        self.rows += 1;
        let row = match self.values.insert(register, stamp) {
            None => ChangedRow::Added(register_row(register, stamp)),
            Some(_) => ChangedRow::Changed(vec![None, Some(RowCell::Integer(stamp))]),
        };
        let noted = [self.rows, stamp, register].map(RowCell::Integer).to_vec();
        let noted = ChangedRow::Added(noted);
        let group = self.groups.last_mut().expect("a group was begun");
        group.changes.push(FeedChange { table: REGISTERS.into(), key: register, row });
        let history = REGISTER_HISTORY.to_owned();
        group.changes.push(FeedChange { table: history, key: self.rows, row: noted });
        group.index
    }

    fn read(&mut self, plan: &Plan, now: u64, random: &mut StdRng) {
        self.is_open = false;
        let last = self.index_at(now);
        let position = self.positions.get(&plan.client).copied().unwrap_or(0);
        let (level, index) = match random.random_range(0..4) {
            0 => {
                let max_stale = RULES.max_stale.as_nanos() as u64;
                let oldest = plan.span.began.saturating_sub(max_stale);
                (ReadLevel::Any, self.index_at(random.random_range(oldest..=now)))
            }
            1 => (ReadLevel::After(position), random.random_range(position..=last)),
            _ => (ReadLevel::Strong, last),
        };
        self.positions.insert(plan.client, position.max(index));
        let value = match FeedRows::replay(&self.groups).row(REGISTERS, plan.register, index) {
            None => None,
            Some(row) => match row[..] {
                [_, RowCell::Integer(value)] => Some(value),
                _ => panic!("{row:?} is no register"),
            },
        };
        self.record(plan, RegisterAccess::Read { value, index, level });
    }

    /// The index that was the last one at this moment.
    fn index_at(&self, moment: u64) -> u64 {
        let begun = self.times.partition_point(|time| *time <= moment);
        begun.checked_sub(1).map_or(0, |at| self.groups[at].index)
    }

    fn record(&mut self, plan: &Plan, access: RegisterAccess) {
        let Plan { client, span, register, .. } = *plan;
        self.records.push(RegisterRecord { client, span, register, access });
    }
}
