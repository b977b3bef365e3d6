//! The write path of a leader: jobs, groups, and the outcomes of their commits.

pub mod batch;
pub mod commit;
pub mod group;
pub mod job;
pub mod keys;
pub mod queue;
pub mod schema_file;
mod schema_job;
pub(crate) mod statement;
mod text;
pub mod transaction;
