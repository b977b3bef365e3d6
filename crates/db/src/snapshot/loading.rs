//! stub
use crate::head::DbHead;
use crate::local::FileState;
use crate::store::DatabaseStore;
use std::path::Path;
/// stub
pub async fn load_newest(
    _: &DatabaseStore,
    _: &DbHead,
    _: &Path,
) -> Result<Option<FileState>, std::io::Error> {
    Ok(None)
}
