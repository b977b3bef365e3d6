//! Taking messages out of a queue of RabbitMQ, in peace and while connection and broker fail.
//!
//! What is left in a queue is counted by a connection of the test's own, once the inlet is gone: what
//! it held unsettled is back then.

mod faults;
mod owner;
mod peace;
