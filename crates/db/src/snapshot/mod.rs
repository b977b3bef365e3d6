//! Snapshots: a file of SQLite cut into chunks that are named by their contents, and the manifest that
//! lists them.

pub mod backup;
mod base;
pub mod chunks;
mod files;
pub mod import;
pub mod load;
pub mod loading;
pub mod make;
pub mod making;
pub mod manifest;
pub mod publish;
pub mod resolve;
pub mod restore;
pub(crate) mod sight;
pub mod sweep;
pub mod sweep_list;
#[cfg(test)]
mod tests;
pub mod trim;
pub mod upload;
pub mod verify;
pub(crate) mod wish;
