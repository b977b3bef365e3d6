//! The rule: how many nodes are wanted, as a pure function of the reports, the last decision and the time.
//!
//! Up: input lags or is refused for some seconds, and more nodes can help. Down: for a long time the load would fit
//! one node less with room to spare. Between the two lies a gap, so that a step down never causes the next step up. The
//! gap is in the processor time and in the input: nodes that wait for a store are too few long before they use their
//! cores, so the rule remembers how much input was too much for how many nodes.

use std::time::Duration;

use consort_kernel::Timestamp;

use super::facts::{FULL_PERMILLE, Facts};
use super::settings::ScaleSettings;
use super::signal::ScaleSignal;
use super::state::{RateMean, ScaleEvidence, ScaleLimit, ScaleState, StepUp};
use super::words;

/// A lag that shrinks so fast that it will be gone by then needs no help: a new node costs a hand-over.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// How long input must lag or be refused.
const PRESSED_FOR: Duration = Duration::from_secs(10);

/// How long no pressure must be seen before the steps under it are forgotten: a gate pauses between refusals.
const RELIEVED_FOR: Duration = Duration::from_secs(60);

/// After a step up nothing is judged for so long: a hand-over and one window of the rates.
const HOLD: Duration = Duration::from_secs(30);

/// Nor for so long after the new node has come, and after the last hand-over: a window of the rates and a margin.
const HOLD_AFTER_JOIN: Duration = Duration::from_secs(15);

/// Hand-overs delay the verdict up to so long after the step and the coming of the node: some clusters never rest.
const HOLD_AT_MOST: Duration = Duration::from_secs(60);

/// The node added last must have raised the rate applied by this much, or more nodes do not help.
const RAISED_PERCENT: u64 = 10;

/// For how long the rate applied is looked at, at least: one report alone is of one window.
const SEEN_FOR: Duration = Duration::from_secs(15);

/// For how long the rate applied is looked at before more nodes are said not to help. Workers count a batch when it is
/// committed, so the rate of a few seconds may be that of no batch or of two.
const JUDGED_FOR: Duration = Duration::from_secs(30);

/// After so long a node more is tried all the same.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// A node less is wanted when the others would be at this share of their cores or less.
const SPARE_PERMILLE: u64 = 500;

/// Nor is it wanted while the others would each get more than this share, in thousandths, of what each node applied when
/// that many were too few.
const SPARE_RATE_PERMILLE: u64 = 750;

/// How long it is remembered how many nodes were too few: what made them slow may have changed since.
const FULL_FOR: Duration = Duration::from_secs(3600);

/// No node less is wanted so soon after a hand-over, or within `down_after` of one where that is shorter.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// Between two decisions further apart nothing was seen, and what lasted before is not known to have lasted.
const GAP: Duration = Duration::from_secs(60);

/// What a step up has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepVerdict {
    /// It is too early to tell.
    Open,
    /// The rate applied has risen.
    Raised,
    /// It has not.
    NotRaised,
}

/// The next decision.
pub fn decide(
    signal: &ScaleSignal,
    previous: Option<&ScaleState>,
    settings: &ScaleSettings,
    now: Timestamp,
) -> ScaleState {
    let facts = Facts::new(signal);
    let mut next = match previous {
        Some(previous) => previous.clone(),
        None => ScaleState::first(&facts, signal, settings, now),
    };
    next.observe(&facts, signal, now);
    next.settle_bounds(&facts, settings, now);
    match next.is_pressed(now) {
        true => next.judge_pressure(&facts, settings, now),
        false => next.judge_calm(&facts, settings, now),
    }
    next
}

impl ScaleState {
    /// Takes note of what the signal shows.
    fn observe(&mut self, facts: &Facts<'_>, signal: &ScaleSignal, now: Timestamp) {
        let before = std::mem::replace(&mut self.evidence, facts.evidence.clone());
        let mut passed = now.since(self.decided);
        if passed > GAP {
            (self.pressed_since, self.calm_since) = (None, None);
            self.lags.clear();
            passed = Duration::ZERO;
        }
        self.decided = now;
        if self.evidence.live > before.live {
            self.joined = now;
        }
        if self.epochs != signal.epochs {
            (self.epochs, self.moved) = (signal.epochs, now);
        }
        let pressing = facts.gate.is_some() || self.lag_stays(facts.lag_sum(), now);
        if pressing {
            self.relieved_since = None;
            self.pressed_since.get_or_insert(now);
        } else {
            self.pressed_since = None;
            let relieved = *self.relieved_since.get_or_insert(now);
            if now.since(relieved) >= RELIEVED_FOR {
                (self.step_up, self.store_until, self.rate) = (None, None, RateMean::default());
            }
        }
        if self.is_pressed(now) {
            let ScaleEvidence { applied_per_s, accepted_per_s, .. } = self.evidence;
            self.rate.add(applied_per_s, facts.gate.map(|_| accepted_per_s), passed);
        }
        self.observe_steps(before.live, now);
        let live = self.evidence.live;
        let fits = live > 1
            && facts.load_of(live - 1) <= SPARE_PERMILLE
            && self.has_spare_rate(facts.offered(), live - 1);
        if !pressing && fits {
            self.calm_since.get_or_insert(now);
        } else {
            self.calm_since = None;
        }
    }

    /// Keeps the rate applied apart by the number of nodes that applied it.
    fn observe_steps(&mut self, live_before: u64, now: Timestamp) {
        let live = self.evidence.live;
        self.full = self.full.filter(|full| now.since(full.at) <= FULL_FOR);
        if let (Some(step), Some(rate)) = (&mut self.step_up, self.rate.per_s()) {
            // A step is decided soon after the load has risen. Up to the first report with a new node, which is of the
            // time before it, more is seen of what the nodes before it could do.
            let before_step = self.rate.over().saturating_sub(now.since(step.at));
            if live_before <= step.live && before_step < SEEN_FOR {
                step.applied_per_s = rate;
                self.full = Some(*step);
            }
        }
        let unsettled =
            self.step_up.is_some_and(|step| live > step.live && !self.settled(step, now));
        if live != live_before || unsettled {
            self.rate = RateMean::default();
        }
    }

    /// Whether the nodes of a step have come, have their partitions, and show in the rates.
    fn settled(&self, step: StepUp, now: Timestamp) -> bool {
        let came = step.at.max(self.joined);
        let moved = now.since(self.moved) >= HOLD_AFTER_JOIN || now.since(came) >= HOLD_AT_MOST;
        now.since(self.joined) >= HOLD_AFTER_JOIN && moved
    }

    /// Whether `nodes` would get clearly less input each than the nodes that were too few.
    fn has_spare_rate(&self, offered: u64, nodes: u64) -> bool {
        // Where nothing was applied, nothing is known of what a node can do.
        let Some(full) = self.full.filter(|full| full.applied_per_s > 0) else { return true };
        let (each, of_full) = (offered * full.live, full.applied_per_s * nodes);
        nodes > full.live || each * 1000 <= of_full * SPARE_RATE_PERMILLE
    }

    /// Whether there is a lag that will not be gone by itself soon.
    fn lag_stays(&mut self, sum: u64, now: Timestamp) -> bool {
        self.lags.retain(|(at, _)| now.since(*at) <= PRESSED_FOR);
        let before = self.lags.first().copied();
        self.lags.push((now, sum));
        if sum == 0 {
            return false;
        }
        let Some((at, before)) = before.filter(|(_, before)| *before > sum) else { return true };
        let (time, less) = (now.since(at).as_millis(), u128::from(before - sum));
        // At this rate it is gone after `sum / (less / time)`.
        u128::from(sum) * time > GONE_WITHIN.as_millis() * less
    }

    fn is_pressed(&self, now: Timestamp) -> bool {
        self.pressed_since.is_some_and(|since| now.since(since) >= PRESSED_FOR)
    }

    /// Keeps the number within its bounds, and follows nodes that were added by hand.
    fn settle_bounds(&mut self, facts: &Facts<'_>, settings: &ScaleSettings, now: Timestamp) {
        let live = facts.evidence.live;
        if self.joined == now && live > self.wanted && settings.bound(live) > self.wanted {
            self.calm_since = None;
            self.change(settings.bound(live), now, &words::joined(live));
        }
        let within = settings.bound(self.wanted);
        if within != self.wanted {
            self.change(within, now, &words::bounds(settings));
        }
    }

    fn judge_pressure(&mut self, facts: &Facts<'_>, settings: &ScaleSettings, now: Timestamp) {
        if let Some(limit) = self.limit(facts, settings, now) {
            self.stay(limit, &words::limit(limit, self, facts, settings));
            return;
        }
        self.limited_by = None;
        let ScaleEvidence { live, active, applied_per_s, .. } = facts.evidence;
        let mean = self.rate.per_s().unwrap_or(applied_per_s);
        // Where the last step did not help, one node is enough to find out whether that has changed.
        let needed = match self.store_until {
            Some(_) => live + 1,
            // By the largest of these rates: a node that is still missing comes with the next step.
            None => facts.needed(applied_per_s.max(self.rate.most_per_s())),
        };
        let target = needed.min(2 * live).min(active).min(settings.max);
        if self.verdict(now) == Some(StepVerdict::Open) || target <= self.wanted {
            return;
        }
        self.step_up = Some(StepUp { at: now, live, applied_per_s: mean });
        (self.full, self.store_until) = (self.step_up, None);
        self.change(target, now, &words::pressure(facts));
    }

    /// What the last step up has brought; none where its nodes never came.
    fn verdict(&self, now: Timestamp) -> Option<StepVerdict> {
        let step = self.step_up?;
        let passed = now.since(step.at);
        if self.evidence.live <= step.live {
            return (passed < HOLD).then_some(StepVerdict::Open);
        }
        let seen = self.rate.over();
        let rate = self.rate.per_s().filter(|_| passed >= HOLD && seen >= SEEN_FOR);
        Some(match rate {
            Some(rate) if rate * 100 >= step.applied_per_s * (100 + RAISED_PERCENT) => {
                StepVerdict::Raised
            }
            Some(_) if passed >= HOLD + JUDGED_FOR && seen >= JUDGED_FOR => StepVerdict::NotRaised,
            _ => StepVerdict::Open,
        })
    }

    /// Why more nodes would not help, or are not allowed.
    fn limit(
        &mut self,
        facts: &Facts<'_>,
        settings: &ScaleSettings,
        now: Timestamp,
    ) -> Option<ScaleLimit> {
        let ScaleEvidence { live, active, .. } = facts.evidence;
        if facts.is_hot_partition() {
            return Some(ScaleLimit::HotPartition);
        }
        if self.store_until.is_some_and(|until| now < until) {
            return Some(ScaleLimit::Store);
        }
        match self.verdict(now) {
            Some(StepVerdict::NotRaised) if self.store_until.is_none() => {
                self.store_until = Some(now.after(ASK_AGAIN_AFTER));
                return Some(ScaleLimit::Store);
            }
            // It is judged once: later the rate may fall for other reasons.
            Some(StepVerdict::Raised) => self.step_up = None,
            _ => {}
        }
        if live >= settings.max {
            return Some(ScaleLimit::Max);
        }
        (live >= active).then_some(ScaleLimit::Partitions)
    }

    fn judge_calm(&mut self, facts: &Facts<'_>, settings: &ScaleSettings, now: Timestamp) {
        let live = facts.evidence.live;
        if facts.stopped > 0 && facts.lagging.is_empty() && facts.gate.is_none() {
            let limit = ScaleLimit::Stopped;
            self.stay(limit, &words::limit(limit, self, facts, settings));
        } else if self.limited_by.take().is_some() {
            self.why = words::relieved(self.wanted);
        }
        if self.wanted < live && facts.load_of(self.wanted) > FULL_PERMILLE {
            let why = words::no_longer_fits(self.wanted, facts);
            return self.change(settings.bound(live), now, &why);
        }
        let calm_for = self.calm_since.map(|since| now.since(since)).unwrap_or_default();
        let due = self.calm_since.is_some() && calm_for >= settings.down_after;
        if !due || now.since(self.moved) < SETTLED_AFTER.min(settings.down_after) {
            return;
        }
        // Nodes that were wanted and never came are not needed either.
        let target = if self.wanted > live { live } else { live - 1 };
        let target = settings.bound(target);
        if target < self.wanted {
            self.calm_since = None;
            self.change(target, now, &words::calm(target, calm_for, facts));
        }
    }

    fn change(&mut self, wanted: u64, now: Timestamp, reason: &str) {
        if wanted == self.wanted {
            return;
        }
        self.why = format!("{} → {wanted}: {reason}", self.wanted);
        (self.wanted, self.since, self.limited_by) = (wanted, now, None);
    }

    fn stay(&mut self, limit: ScaleLimit, reason: &str) {
        self.limited_by = Some(limit);
        self.why = format!("stays at {}: {reason}", self.wanted);
    }
}
