//! Decisions about workers, as pure functions: who claims the lead, which slots there should be, and how
//! many readers the load wants. And the supervisor, which carries them out.

pub mod counting;
pub mod elect;
pub mod growth;
pub mod run;
pub mod scale;
mod sight;
#[cfg(test)]
mod tests;
pub mod wanted;
pub mod window;
