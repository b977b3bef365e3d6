//! Deliverers and subscribers at work, on the memory engine: with sinks of the tests' own, and with real servers.

mod alarms;
mod bed;
mod documents;
mod influx;
mod order;
mod parked_documents;
mod states;
mod subscribers;
mod takeover;
mod webhook;
