//! The write path of a leader: jobs, groups, and the outcomes of their commits.

pub mod batch;
pub mod batch_run;
pub mod commit;
pub mod control;
pub mod group;
pub mod job;
pub mod keys;
pub mod queue;
pub mod schema_file;
mod schema_job;
pub mod script;
pub(crate) mod statement;
mod steps;
pub(crate) mod text;
pub mod transaction;
