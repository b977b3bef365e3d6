//! The plan of a collection, through the worker's own planner.

mod bombs;
mod bounds;
mod fuzz;
mod owners;
mod properties;
mod stage;
