//! stub
/// stub
pub async fn keep_counts(_: crate::db::Database) {}
