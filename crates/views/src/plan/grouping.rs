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
    let by = one.by.iter().map(|field| &field.expression);
    length(one) == length(other)
        && one.condition == other.condition
        && by.eq(other.by.iter().map(|field| &field.expression))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::expression::Expression;
    use crate::schema::{Field, Schema, Unknown};
    use crate::stream::Stream;
    use crate::view::{Aggregate, GroupField};
    use crate::window::{Late, Windows};

    /// A view of a stream of two numbers.
    fn view(by: &[&str], condition: Option<&str>, seconds: Option<u64>) -> View {
        let fields = ["n", "m"].map(|name| Field { name: name.into(), ty: "int".parse().unwrap() });
        let schema = Schema::new(fields.to_vec(), Unknown::Reject);
        let expression = |text: &str| Expression::parse(text, &schema).unwrap();
        let by =
            by.iter().map(|text| GroupField { name: "g".into(), expression: expression(text) });
        let windows = |seconds| Windows {
            length: Duration::from_secs(seconds),
            grace: Duration::from_secs(5),
            keep: Duration::from_secs(100),
            late: Late::Amend,
        };
        View {
            name: "v".parse().unwrap(),
            number: 7,
            by: by.collect(),
            aggregate: Aggregate::Count,
            condition: condition.map(expression),
            windows: seconds.map(windows),
            from: Arc::new(Stream::plain("s".parse().unwrap(), schema.clone())),
            sinks: Vec::new(),
            routes: Vec::new(),
            answer: None,
        }
    }

    #[test]
    fn views_are_alike_if_they_have_the_same_groups_of_the_same_events() {
        let one = view(&["n", "m"], Some("n > 1"), Some(60));
        assert!(alike(&one, &one));
        let other_name = View { number: 8, aggregate: Aggregate::Count, ..one.clone() };
        assert!(alike(&one, &other_name));
        let others = [
            view(&["n"], Some("n > 1"), Some(60)),
            view(&["m", "n"], Some("n > 1"), Some(60)),
            view(&["n", "m + 1"], Some("n > 1"), Some(60)),
            view(&["n", "m"], Some("n > 2"), Some(60)),
            view(&["n", "m"], None, Some(60)),
            view(&["n", "m"], Some("n > 1"), Some(61)),
            view(&["n", "m"], Some("n > 1"), None),
        ];
        for other in &others {
            assert!(!alike(&one, other) && !alike(other, &one), "{other:?}");
        }
    }
}
