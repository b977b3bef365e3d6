//! Two databases on three nodes with one Redis: their leaders, readers and supervisors are killed, paused, crashed, cut off
//! and drained, and Redis is restarted. Registers are linearizable, no money is made or lost, and all workers are equal.

use consort_tests::db::DbTrial;
use consort_tests::db::stores::DbUpon;

#[tokio::test(flavor = "multi_thread")]
async fn databases_on_redis_keep_every_acknowledged_write_in_order_whatever_is_killed() {
    let program = env!("CARGO_BIN_EXE_consort-under-test");
    DbTrial { name: "db_redis", program, upon: DbUpon::Redis }.run().await;
}
