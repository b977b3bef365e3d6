//! Two databases on one node with the embedded engine, which is killed, paused and stopped, and whose workers crash.
//! Registers are linearizable, no money is made or lost, and all workers are equal.

use consort_tests::db::DbTrial;
use consort_tests::db::stores::DbUpon;

#[tokio::test(flavor = "multi_thread")]
async fn databases_on_one_node_keep_every_acknowledged_write_in_order_whatever_is_killed() {
    let program = env!("CARGO_BIN_EXE_consort-under-test");
    DbTrial { name: "db_embedded", program, upon: DbUpon::Embedded }.run().await;
}
