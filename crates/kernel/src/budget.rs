//! How much work a task does before it lets others run.
//!
//! A tokio task that never waits holds its thread. Code that loops over the lines, items or rows of someone else's
//! data counts each of them here, and yields when the budget of a step is spent.

/// What one step may cost. Parsing reads some hundred megabytes a second and takes about a microsecond for an
/// event, so a step takes about half a millisecond.
pub const STEP_COST: usize = 64 * 1024;

/// What an item costs beside its bytes. An empty line costs this much too: a million of them must not be free.
pub const ITEM_COST: usize = 128;

/// The work that is left of a step.
#[derive(Debug)]
pub struct Budget {
    left: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { left: STEP_COST }
    }
}

impl Budget {
    /// Counts an item of so many bytes, and yields to other tasks if the step is over.
    #[inline]
    pub async fn spend(&mut self, bytes: usize) {
        if self.is_over_with(bytes) {
            tokio::task::yield_now().await;
        }
    }

    /// Counts an item of so many bytes. True if the step is over: the caller yields, and the next step begins.
    #[inline]
    pub fn is_over_with(&mut self, bytes: usize) -> bool {
        let cost = bytes.saturating_add(ITEM_COST);
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                false
            }
            None => {
                self.left = STEP_COST;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many items of so many bytes fit in the first step.
    fn items_in_a_step(bytes: usize) -> usize {
        let mut budget = Budget::default();
        (0..).take_while(|_| !budget.is_over_with(bytes)).count()
    }

    #[test]
    fn empty_items_end_a_step_too() {
        assert_eq!(items_in_a_step(0), STEP_COST / ITEM_COST);
        assert_eq!(items_in_a_step(STEP_COST / 2), 1);
        assert_eq!(items_in_a_step(usize::MAX), 0);
    }

    #[tokio::test]
    async fn another_task_runs_after_each_step() {
        let (stop, mut turns) = (std::sync::Arc::new(()), 0);
        let other = {
            let stop = stop.clone();
            tokio::spawn(async move {
                let mut polls = 0;
                while std::sync::Arc::strong_count(&stop) > 1 {
                    polls += 1;
                    tokio::task::yield_now().await;
                }
                polls
            })
        };
        let mut budget = Budget::default();
        for _ in 0..10 * STEP_COST / ITEM_COST {
            budget.spend(0).await;
            turns += 1;
        }
        assert_eq!(turns, 10 * STEP_COST / ITEM_COST);
        drop(stop);
        assert!(other.await.unwrap() >= 9);
    }
}
