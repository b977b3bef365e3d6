//! The wish for a snapshot behind an entry that a worker cannot apply (C8).

use consort_kernel::{Expect, Operation};

use crate::db::Database;

/// Asks for a snapshot of `index` or later. The wish stays in the wanted cell until there is one. If it cannot be
/// written now, the caller asks again.
pub(crate) async fn wish_snapshot(db: &Database, index: u64) {
    let Ok(sight) = db.store().sight().await else { return };
    let Some(wanted) = sight.wanted else { return };
    let Some(next) = wanted.with_snapshot(index) else { return };
    let key = db.store().cells().wanted();
    let expect = Expect::Bytes(key.clone(), Some(wanted.encode()));
    let put = Operation::Put { key, value: next.encode() };
    let answer = db.store().commit([expect], vec![put]).await;
    tracing::debug!(database = db.name(), index, ?answer, "a snapshot is asked for");
}
