//! stub
/// stub
pub async fn supervise(
    _: crate::db::Database,
    mut t: consort_cluster::Tenure,
) -> consort_cluster::Ended {
    t.ready();
    t.ending().await;
    consort_cluster::Ended::Drained
}
