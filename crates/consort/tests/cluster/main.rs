//! Nodes as a cluster: real processes and the commands that people use on them.

mod alone;
mod bed;
mod heartbeats;
mod obstacles;
mod roles;
mod several;
mod stopped;
