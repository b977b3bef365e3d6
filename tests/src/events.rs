//! The event data service: nodes with the config of `examples/events.toml`, two databases that rows go to, and
//! an independent count of what they must hold.

pub mod crew;
pub mod databases;
pub mod lines;
