//! Once on real processes: three nodes on a private Redis, an upstream that counts who asks it, herds of clients
//! that ask all nodes at the same moment, and the means to hurt a node while it computes.

pub mod crew;
pub mod effort;
pub mod herd;
pub mod upstream;
