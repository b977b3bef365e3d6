//! Deliverers at work, on the memory engine: with sinks of the tests' own, and with real servers.

mod alarms;
mod bed;
mod influx;
mod order;
mod takeover;
mod webhook;
