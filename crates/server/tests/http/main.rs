//! The HTTP side over real sockets.

mod answers;
mod bounds;
mod client;
mod cluster;
mod express;
mod feeds;
mod gates;
mod hostile;
