//! What web pages, strange hosts and half-closed connections get from a whole node.

mod bed;
mod browser;
mod half_close;
mod page;
mod routes;
