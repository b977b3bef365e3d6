//! What tasks and scenarios hold of the executor: the time, their tasks, nodes and the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::dice::Dice;
use crate::runtime::Sleep;
use crate::trace::Trace;

/// The most steps of a run unless another bound is set: some seconds of real time when optimised.
const MOST_STEPS: u64 = 5_000_000;

/// Whose a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Nobody's: it goes on whatever happens to nodes.
    World,
    /// A node's: it stands still and dies with it.
    Node(u32),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::World => f.write_str("the world"),
            Owner::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// What tasks and scenarios hold of the executor.
#[derive(Clone)]
pub struct Handle {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) ready: Arc<Mutex<BTreeSet<u64>>>,
}

pub(crate) struct State {
    pub(crate) now: Duration,
    pub(crate) steps: u64,
    pub(crate) most_steps: u64,
    pub(crate) dice: Dice,
    pub(crate) tasks: BTreeMap<u64, TaskSlot>,
    pub(crate) next_task: u64,
    pub(crate) timers: BTreeMap<(Duration, u64), Waker>,
    pub(crate) next_timer: u64,
    pub(crate) paused: BTreeSet<u32>,
    pub(crate) lives: BTreeMap<u32, u64>,
    pub(crate) trace: Trace,
    pub(crate) closed: bool,
}

pub(crate) struct TaskSlot {
    pub(crate) owner: Owner,
    pub(crate) name: String,
    /// Taken out while it is polled.
    pub(crate) future: Option<BoxFuture<'static, ()>>,
    pub(crate) waker: Waker,
    /// Its next step drops it.
    pub(crate) aborted: bool,
}

struct TaskWaker {
    task: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.lock().insert(self.task);
    }
}

impl Handle {
    pub(crate) fn new(seed: u64) -> Self {
        Handle { state: Arc::new(Mutex::new(State::new(seed))), ready: Arc::default() }
    }

    /// Virtual time since the run began.
    pub fn now(&self) -> Duration {
        self.state.lock().now
    }

    /// Starts a task of the world.
    pub fn spawn(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> u64 {
        self.add(Owner::World, 0, name, work.boxed())
    }

    /// Starts a task of `node` in its life number `life`; what a dead one starts is dropped unrun.
    pub(crate) fn spawn_on(
        &self,
        node: u32,
        life: u64,
        name: &str,
        work: BoxFuture<'static, ()>,
    ) -> u64 {
        self.add(Owner::Node(node), life, name, work)
    }

    fn add(&self, owner: Owner, life: u64, name: &str, work: BoxFuture<'static, ()>) -> u64 {
        let mut state = self.state.lock();
        let task = state.next_task;
        state.next_task += 1;
        if state.closed || matches!(owner, Owner::Node(node) if state.life(node) != life) {
            // The lock first: what is dropped may come back here.
            drop((state, work));
            return task;
        }
        let waker = Waker::from(Arc::new(TaskWaker { task, ready: Arc::clone(&self.ready) }));
        let name = name.to_string();
        let slot = TaskSlot { owner, name, future: Some(work), waker, aborted: false };
        state.tasks.insert(task, slot);
        self.ready.lock().insert(task);
        task
    }

    /// Ends a task: its next step drops it.
    pub fn abort(&self, task: u64) {
        if let Some(slot) = self.state.lock().tasks.get_mut(&task) {
            slot.aborted = true;
            self.ready.lock().insert(task);
        }
    }

    /// Returns after `time`. Even when that is none, others may run first.
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::new(self.clone(), self.now().saturating_add(time))
    }

    /// Stops a node as SIGSTOP does: time passes and timers run out, but it does nothing until it is
    /// resumed, and then goes on as if nothing had been.
    pub fn pause(&self, node: u32) {
        self.state.lock().paused.insert(node);
        self.note(format_args!("node {node} is paused"));
    }

    /// Lets a paused node go on.
    pub fn resume(&self, node: u32) {
        self.state.lock().paused.remove(&node);
        self.note(format_args!("node {node} is resumed"));
    }

    /// Kills a node: all its tasks are dropped at once. Whatever it starts from now on begins a new life
    /// with a new [`NodeRuntime`](crate::NodeRuntime); the old one starts nothing any more.
    pub fn crash(&self, node: u32) {
        self.note(format_args!("node {node} crashes"));
        let dead: Vec<TaskSlot> = {
            let mut state = self.state.lock();
            state.paused.remove(&node);
            *state.lives.entry(node).or_default() += 1;
            let its = |slot: &mut TaskSlot| slot.owner == Owner::Node(node);
            state.tasks.extract_if(.., |_, slot| its(slot)).map(|(_, slot)| slot).collect()
        };
        // Without the lock: what is dropped may look at the time or end other tasks.
        drop(dead);
    }

    /// How often a node has died.
    pub fn life(&self, node: u32) -> u64 {
        self.state.lock().life(node)
    }

    /// Whether a node stands still.
    pub fn is_paused(&self, node: u32) -> bool {
        self.state.lock().paused.contains(&node)
    }

    /// How many tasks an owner has.
    pub fn tasks(&self, owner: Owner) -> usize {
        self.state.lock().tasks.values().filter(|slot| slot.owner == owner).count()
    }

    /// Sets the most steps of the run.
    pub fn set_most_steps(&self, steps: u64) {
        self.state.lock().most_steps = steps;
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Puts an event into the trace.
    pub fn note(&self, event: impl fmt::Display) {
        let event = event.to_string();
        let mut state = self.state.lock();
        let now = state.now;
        state.trace.note(now, event);
    }

    /// The hash of all that happened: the same for the same seed.
    pub fn trace_hash(&self) -> u64 {
        self.state.lock().trace.hash()
    }

    /// Keeps the last `events` as text from now on.
    pub fn keep_trace(&self, events: usize) {
        self.state.lock().trace.keep(events);
    }

    /// The last events as text, as many as are kept.
    pub fn trace(&self) -> Vec<String> {
        self.state.lock().trace.text()
    }

    /// Wakes `waker` at `at`, once.
    pub(crate) fn set_timer(&self, at: Duration, waker: Waker) -> (Duration, u64) {
        let mut state = self.state.lock();
        let key = (at, state.next_timer);
        state.next_timer += 1;
        state.timers.insert(key, waker);
        key
    }

    /// Changes whom a timer wakes; false if it has run out.
    pub(crate) fn reset_timer(&self, key: (Duration, u64), waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let timer = state.timers.get_mut(&key);
        timer.map(|timer| timer.clone_from(waker)).is_some()
    }

    pub(crate) fn clear_timer(&self, key: (Duration, u64)) {
        let timer = self.state.lock().timers.remove(&key);
        drop(timer);
    }
}

impl State {
    fn new(seed: u64) -> Self {
        State {
            now: Duration::ZERO,
            steps: 0,
            most_steps: MOST_STEPS,
            dice: Dice::new(seed, "schedule"),
            tasks: BTreeMap::new(),
            next_task: 0,
            timers: BTreeMap::new(),
            next_timer: 0,
            paused: BTreeSet::new(),
            lives: BTreeMap::new(),
            trace: Trace::default(),
            closed: false,
        }
    }

    fn life(&self, node: u32) -> u64 {
        self.lives.get(&node).copied().unwrap_or(0)
    }
}

impl TaskSlot {
    pub(crate) fn label(&self) -> String {
        format!("{} of {}", self.name, self.owner)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
