//! The write path of a leader: jobs, groups, and the outcomes of their commits.

pub mod commit;
