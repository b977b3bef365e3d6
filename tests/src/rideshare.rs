//! RideShare under test: its processes on a real Consort, the calls of its contract, and clients that write while
//! workers crash.

pub mod calls;
pub mod contract;
pub mod deployment;
pub mod up;
pub mod writers;
