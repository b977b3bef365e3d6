//! One node with streams and views, from the outside: events in by HTTP and by a queue, queries out, across
//! kills and restarts.

mod aggregates;
mod amqp;
mod bed;
mod bench;
mod caller;
mod datagrams;
mod definitions;
mod events;
mod example;
mod gates;
mod killed;
mod lines;
mod pages;
mod points;
mod positions;
mod queries;
mod repeats;
mod secure;
mod windows;
