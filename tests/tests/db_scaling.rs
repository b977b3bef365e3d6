//! The readers of a database follow its reads, and a worker that crashes is replaced meanwhile.

use consort_tests::db::scaling::DbScalingTrial;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reads_take_the_readers_from_one_to_five_and_silence_takes_them_back() {
    let program = env!("CARGO_BIN_EXE_consort-under-test");
    DbScalingTrial { name: "db_scaling", program }.run().await;
}
