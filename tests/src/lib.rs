//! What the end-to-end tests share.
//!
//! The hammer is a process that works on an engine until it is killed: [`work`] says what it does, as plain
//! functions, so that the process and whoever checks on it cannot disagree; [`record`] is what it told
//! before it died; [`check`] compares what the engine holds afterwards with it.
//!
//! The tally is a part of a node: [`tally`] says what it counts, and [`cluster`] runs nodes with it, hurts
//! them and their servers, and counts again by itself.
//!
//! [`lifts`] does the same with the whole program: `consort serve` with the lift rides of the examples, several
//! nodes behind a balancer, and clients that speak HTTP.
//!
//! [`glue`] sends ordered pieces to such nodes, under the same faults, and folds the feed's rows by itself.
//!
//! [`once`] asks three such nodes for the same thing at the same moment, and counts at the upstream how often it
//! was computed.
//!
//! [`rideshare`] runs the example application on a node, makes every call of its contract, and writes while the
//! database's workers crash.
//!
//! [`db`] has clients write to databases, under the same faults and some of its own, and [`lin`] judges the histories of
//! their calls.

pub mod check;
pub mod cluster;
pub mod db;
pub mod events;
pub mod glue;
pub mod hammer;
pub mod late;
pub mod lifts;
pub mod lin;
pub mod once;
pub mod record;
pub mod rideshare;
pub mod scaling;
pub mod seed;
pub mod tally;
pub mod work;
