//! Snapshots in a store, with calls stopped and commits failed in between.

mod loading;
mod publishing;
mod sweeping;
