//! Databases, from the outside: statements in, rows, positions and reasons out, of a real node.

mod answers;
mod bed;
mod drill;
mod example;
mod feed;
