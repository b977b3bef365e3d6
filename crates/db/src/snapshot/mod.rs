//! Snapshots: a file of SQLite cut into chunks that are named by their contents, and the manifest that
//! lists them.

pub mod chunks;
pub mod load;
pub mod loading;
pub mod make;
pub mod making;
pub mod manifest;
pub(crate) mod wish;
