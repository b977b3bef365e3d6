//! A cluster in a bottle: production code on the memory engine, where a seed decides who runs next, how
//! long everything takes and what goes wrong.
//!
//! One thread, virtual time. The same seed gives the same run, told by the hash of its trace. For that,
//! nothing here and nothing that runs here may depend on real time, threads, addresses or the order of a
//! hash map; `select!` must be `biased`. Tokio's channels are fine: whom they wake first does not matter,
//! since the seed picks among all tasks that are ready. Within one task it does matter to a
//! `FuturesUnordered` (and to what is built on it, as `buffer_unordered` and large `join_all`s are), which
//! polls in the order of wakes: it must not hold several waiters of one `watch`.
//!
//! From the ground up: the [`Executor`] picks who runs; a [`World`] is an engine that nodes reach over links
//! that lose and delay things as [`Faults`] has drawn; a [`Scenario`] is a run of one [`Shape`], with
//! producers, owners and an operator. While it runs, a [`witness`] sees every commit; now and then, and at
//! the end, the state is compared with the [`fold`] of the log, which shares nothing with the worker. Rules
//! can be broken on purpose by a [`Twist`], to see that it is noticed.

mod assigned;
mod check;
pub mod clock;
pub mod compare;
mod crew;
pub mod dice;
pub mod event;
pub mod executor;
pub mod faults;
pub mod fold;
pub mod glue;
pub mod handle;
mod leased;
mod ledger;
mod link;
pub mod log;
mod loss;
mod min;
pub mod outcome;
mod producer;
pub mod runtime;
pub mod scenario;
pub mod shape;
mod station;
pub mod store;
pub mod tally;
mod trace;
pub mod windows;
pub mod witness;
pub mod world;

pub use clock::SimClock;
pub use dice::Dice;
pub use executor::{Executor, Halt};
pub use faults::{FaultKind, Faults};
pub use handle::{Handle, Owner};
pub use log::SimLog;
pub use outcome::{Coverage, Outcome, Violation, run};
pub use runtime::NodeRuntime;
pub use scenario::Scenario;
pub use shape::{Ownership, Shape, Twist};
pub use store::SimStore;
pub use world::{World, at_once};
