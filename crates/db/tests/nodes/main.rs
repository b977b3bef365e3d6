//! Whole nodes with databases in one process, on a store in memory that can be made to fail.

mod bed;
mod faults;
mod gaps;
mod leading;
mod restoring;
mod scaling;
mod schema;
mod snapshots;
