//! Snapshots in a store, with calls stopped and commits failed in between.

mod importing;
mod loading;
mod publishing;
mod sweeping;
mod switching;
