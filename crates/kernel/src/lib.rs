//! The ground everything stands on: the two contracts [`Log`] and [`Store`], and the few things both
//! are made of — keys, frames, digests, cursors, clocks and errors. [`Inlet`] is for
//! queues of others that streams are filled from, [`Publisher`] for brokers of others that are told.
//!
//! It names no engine but one: [`memory`], which is the model the others are compared with. It opens no
//! file and no socket. It calls the system for three things only, each of which is handed in where it is
//! used: the time ([`SystemClock`]), random numbers ([`SystemEntropy`]), and how soon a thread is scheduled
//! ([`Turns`], on Linux).

pub mod budget;
pub mod change;
pub mod clock;
pub mod commit;
#[cfg(feature = "contract")]
pub mod contract;
pub mod cursor;
pub mod digest;
pub mod entropy;
pub mod error;
pub mod format_version;
pub mod frame;
pub mod hash;
pub mod inlet;
pub mod key;
pub mod limits;
pub mod log;
pub mod memory;
pub mod moment;
pub mod name;
pub mod poison;
pub mod publisher;
pub mod records;
pub mod sketch;
pub mod store;
pub mod turns;
pub mod wake;

pub use budget::Budget;
pub use change::{Change, ChangeError};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use commit::{Cell, Commit, Committed, Expect, Kind, Lane, Note, Operation, Value};
pub use cursor::{Cursor, sound};
pub use digest::Digest;
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use error::{AppendError, CommitError, Fault, QueryError, ReadError, Refusal};
pub use format_version::FormatVersion;
pub use frame::{Frame, FrameError, FrameKind, Producer};
pub use hash::{partition_of, shard_of};
pub use inlet::{Inlet, Message, Tag};
pub use key::{Element, Key, KeyError, Part};
pub use log::{Log, LogEntry, Partition};
pub use moment::Moment;
pub use name::{Name, NameError};
pub use poison::Poison;
pub use publisher::{Outgoing, Publisher};
pub use records::{Records, RecordsMut};
pub use sketch::Sketch;
pub use store::{FeedEntry, Most, Shard, Store};
pub use turns::Turns;
pub use wake::{Topic, Wake, Wakes, read_or_wait};
