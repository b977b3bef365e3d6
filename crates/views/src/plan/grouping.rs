//! Views of a stream that tell their groups apart by the same. The group of an event is then looked for once for
//! all of them.

use std::sync::Arc;

use consort_kernel::{Key, Part};

use super::memo::GroupingMemo;
use super::planned::Planned;
use super::{StreamPlan, Untakable, ViewPlan};
use crate::part::Rules;
use crate::view::View;

/// The views.
#[derive(Debug)]
pub(super) struct Grouping {
    /// At least one.
    pub(super) views: Vec<ViewPlan>,
}

impl Grouping {
    /// All of these views, each with those that it is like.
    pub(super) fn all<'v>(views: impl Iterator<Item = &'v Arc<View>>, rules: Rules) -> Vec<Self> {
        let mut all: Vec<Grouping> = Vec::new();
        for view in views {
            let plan = ViewPlan::new(Arc::clone(view), rules);
            match all.iter_mut().find(|grouping| alike(&grouping.views[0].view, view)) {
                Some(grouping) => grouping.views.push(plan),
                None => all.push(Grouping { views: vec![plan] }),
            }
        }
        all
    }

    /// Whether their groups are kept by windows.
    pub(super) fn has_windows(&self) -> bool {
        self.views[0].windowed.is_some()
    }

    /// The slot of the groups that the event belongs to; none if it does not count, or has no group.
    pub(super) fn place(
        &self,
        event: &Planned<'_>,
        plan: &StreamPlan,
        memo: &mut GroupingMemo,
    ) -> Result<Option<u32>, Untakable> {
        let view = &*self.views[0].view;
        if let Some(condition) = &view.condition
            && !condition.holds(event.event())?
        {
            return Ok(None);
        }
        let start = view.windows.as_ref().map(|windows| windows.start_of(plan.moment(event)));
        memo.sought.clear();
        if let Some(start) = start {
            Key::push(&mut memo.sought, Part::Number(start.0.into()));
        }
        if !event.push(&mut memo.sought, view.by.iter().map(|field| &field.expression))? {
            return Ok(None);
        }
        let common = self.views.iter().map(|view| &view.groups);
        Ok(Some(memo.slot(start, plan.shards, common)))
    }
}

/// Whether two views have the same groups of the same events.
fn alike(one: &View, other: &View) -> bool {
    let length = |view: &View| view.windows.as_ref().map(|windows| windows.length);
    let by = |view: &View| view.by.len();
    let pairs = one.by.iter().zip(&other.by);
    length(one) == length(other)
        && one.condition == other.condition
        && by(one) == by(other)
        && pairs.into_iter().all(|(one, other)| one.expression == other.expression)
}
