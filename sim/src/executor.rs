//! The scheduler: one thread, virtual time, and a seed that picks who runs next.
//!
//! What is ready is kept ordered by task and not by who was woken first: tokio's channels wake their
//! waiters in no fixed order. Time moves by a little with every step, and jumps to the next timer when
//! nothing is ready.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::handle::{Handle, Owner, State, TaskSlot};

/// What a step takes: so little that it hides no race, but a task that only spins does see time pass.
const STEP_TIME: Duration = Duration::from_micros(1);

/// How many waiting tasks a deadlock names.
const WAITING_NAMED: usize = 20;

/// Why a run could not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// It took more steps than it may.
    #[error("the run does not finish: it took {steps} steps")]
    Unfinished {
        /// How many it took.
        steps: u64,
    },
    /// Tasks wait, but nothing is ready and no timer runs.
    #[error("deadlock: nothing will ever wake {}", .waiting.join("; "))]
    Deadlock {
        /// Who waits; the first few.
        waiting: Vec<String>,
    },
    /// A task panicked.
    #[error("{task} panicked: {reason}")]
    Panicked {
        /// Which.
        task: String,
        /// What it said.
        reason: String,
    },
    /// What was waited for did not come to hold.
    #[error("it did not happen within {bound:?}")]
    Late {
        /// How long was waited.
        bound: Duration,
    },
}

/// Runs tasks. When it is dropped, so are they.
#[derive(Debug)]
pub struct Executor {
    handle: Handle,
}

/// What came of one turn.
enum Turn {
    Ran,
    TimeIsUp,
}

impl Executor {
    /// An executor whose choices come from `seed`.
    pub fn new(seed: u64) -> Self {
        Executor { handle: Handle::new(seed) }
    }

    /// What tasks and scenarios hold of it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs for `time`.
    pub fn run_for(&self, time: Duration) -> Result<(), Halt> {
        let until = self.handle.now().saturating_add(time);
        while let Turn::Ran = self.turn(until)? {}
        Ok(())
    }

    /// Runs until `condition` holds, which is looked at after every step; for `bound` at most.
    pub fn run_until(
        &self,
        mut condition: impl FnMut() -> bool,
        bound: Duration,
    ) -> Result<(), Halt> {
        let until = self.handle.now().saturating_add(bound);
        while !condition() {
            if let Turn::TimeIsUp = self.turn(until)? {
                return Err(Halt::Late { bound });
            }
        }
        Ok(())
    }

    /// Runs until `work`, as a task of the world, gives its result; for `bound` at most.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        bound: Duration,
    ) -> Result<T, Halt> {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let task = self.handle.spawn("run", async move {
            *slot.lock() = Some(work.await);
        });
        let end = self.run_until(|| result.lock().is_some(), bound);
        self.handle.abort(task);
        end?;
        let taken = result.lock().take();
        taken.ok_or(Halt::Late { bound })
    }

    /// Lets one task run until its next await; moves time on if none is ready.
    fn turn(&self, until: Duration) -> Result<Turn, Halt> {
        loop {
            self.fire_timers();
            let mut state = self.handle.state.lock();
            if state.now >= until {
                return Ok(Turn::TimeIsUp);
            }
            if let Some(task) = self.pick(&mut state) {
                drop(state);
                return self.step(task).map(|()| Turn::Ran);
            }
            let next = state.timers.first_key_value().map(|(&(at, _), _)| at);
            // What is ready and was not picked belongs to a paused node: the scenario may resume it.
            let stuck = !state.tasks.is_empty() && self.handle.ready.lock().is_empty();
            if next.is_none() && stuck {
                return Err(Halt::Deadlock { waiting: waiting(&state) });
            }
            state.now = next.map_or(until, |at| at.min(until));
        }
    }

    fn fire_timers(&self) {
        loop {
            let mut state = self.handle.state.lock();
            let now = state.now;
            let due = state.timers.first_entry().filter(|timer| timer.key().0 <= now);
            let Some(waker) = due.map(|timer| timer.remove()) else { return };
            drop(state);
            waker.wake();
        }
    }

    /// The next task to run, out of the ready ones whose node is not paused.
    fn pick(&self, state: &mut State) -> Option<u64> {
        let mut ready = self.handle.ready.lock();
        ready.retain(|task| state.tasks.contains_key(task));
        let runs = |task: &u64| match state.tasks[task].owner {
            Owner::World => true,
            Owner::Node(node) => !state.paused.contains(&node),
        };
        let choices: Vec<u64> = ready.iter().copied().filter(runs).collect();
        let task = state.dice.pick(&choices)?;
        ready.remove(&task);
        Some(task)
    }

    fn step(&self, task: u64) -> Result<(), Halt> {
        let Some((mut future, waker)) = self.begin_step(task)? else { return Ok(()) };
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        let mut state = self.handle.state.lock();
        match polled {
            Ok(Poll::Pending) => match state.tasks.get_mut(&task) {
                Some(slot) => slot.future = Some(future),
                // Its node died by this very step.
                None => drop((state, future)),
            },
            ended => {
                let slot = state.tasks.remove(&task);
                drop((state, future));
                if let Err(panic) = ended {
                    let task = slot.map_or_else(|| format!("task {task}"), |slot| slot.label());
                    return Err(Halt::Panicked { task, reason: text_of(&*panic) });
                }
            }
        }
        Ok(())
    }

    /// Counts the step and takes the task's future out; drops the task if it was ended.
    fn begin_step(&self, task: u64) -> Result<Option<Polled>, Halt> {
        let mut state = self.handle.state.lock();
        if state.steps >= state.most_steps {
            return Err(Halt::Unfinished { steps: state.steps });
        }
        state.steps += 1;
        state.now += STEP_TIME;
        let now = state.now;
        let State { tasks, trace, .. } = &mut *state;
        let Some(slot) = tasks.get_mut(&task) else { return Ok(None) };
        trace.step(now, task, &slot.name);
        if slot.aborted {
            let ended = tasks.remove(&task);
            drop((state, ended));
            return Ok(None);
        }
        Ok(slot.future.take().map(|future| (future, slot.waker.clone())))
    }
}

type Polled = (BoxFuture<'static, ()>, Waker);

impl Drop for Executor {
    fn drop(&mut self) {
        // Tasks hold this state and this state holds tasks: somebody has to let go. What they start
        // while they are dropped is refused.
        let tasks = {
            let mut state = self.handle.state.lock();
            state.closed = true;
            mem::take(&mut state.tasks)
        };
        drop(tasks);
    }
}

fn waiting(state: &State) -> Vec<String> {
    state.tasks.values().take(WAITING_NAMED).map(TaskSlot::label).collect()
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}
