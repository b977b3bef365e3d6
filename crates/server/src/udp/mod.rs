//! Datagrams of lines.

pub use ipnet::IpNet;
