//! The HTTP side over real sockets.

mod answers;
mod bounds;
mod client;
mod cluster;
mod documents;
mod express;
mod feeds;
mod framing;
mod gates;
mod half_close;
mod hostile;
mod web;
