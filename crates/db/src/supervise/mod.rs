//! Decisions about workers, as pure functions: who claims the lead, which slots there should be, and how
//! many readers the load wants.

pub mod counting;
pub mod elect;
pub mod run;
pub mod scale;
pub mod wanted;
