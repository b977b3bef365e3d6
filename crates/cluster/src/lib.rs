//! Many nodes share the work with no coordinator: leases, membership, ownership, and the worker that
//! folds a partition of the log into the store exactly once.
//!
//! Everything here is built on [`Log`](consort_kernel::Log) and [`Store`](consort_kernel::Store) alone, so
//! it runs on every engine. Leases make it fast: they say who *should* work. Compare-and-commit makes it
//! right: two owners at once are slow, never wrong.
//!
//! Tasks and timers come from a [`Runtime`] that is handed in, and every choice is made in a fixed order,
//! so that a simulation can run the same code twice in the same way. Therefore: `select!` only `biased`,
//! no iteration over hash maps, no clock but the store's and the runtime's.

pub mod agreement;
pub mod appender;
mod change;
pub mod collector;
pub mod drain;
pub mod format;
mod formats;
pub mod frames_in_flight;
mod join;
pub mod keys;
pub mod lag;
pub mod lease;
pub mod load;
pub mod member;
pub mod mutation;
pub mod node;
pub mod observer;
pub mod ownership;
pub mod queue_consumer;
mod rates;
pub mod reconcile;
pub mod refusal;
pub mod report;
pub mod retention;
pub mod role;
pub mod roster;
pub mod runtime;
pub mod scaling;
pub mod status;
pub mod store_time;
pub mod tenure;
pub mod worker;

pub use agreement::{Agreed, Agreement, AgreementError};
pub use appender::{Appender, Place};
pub use collector::{
    Appending, Collector, NotStored, PartitionQueue, SubmitError, SubmitOptions, Ticket,
};
pub use drain::{DrainError, request_drain};
pub use formats::FORMATS;
pub use frames_in_flight::FramesInFlight;
pub use join::JoinError;
pub use lag::Lag;
pub use lease::{Holder, Lease};
pub use load::{NodeLoad, StreamInput, UnmeasuredLoad};
pub use member::Member;
pub use node::{ClusterNode, Handle, Health, Left, Options};
pub use observer::{Observer, Unobserved};
pub use report::{Pause, PauseCause};
pub use role::Role;
pub use roster::Roster;
pub use runtime::{ApartRuntime, Runtime, Task, TokioRuntime};
pub use scaling::{ScaleSettings, Scaler, ScalingStatus};
pub use status::ClusterStatus;
pub use store_time::StoreTime;
pub use tenure::{Ended, Gauge, Part, Tenure};
