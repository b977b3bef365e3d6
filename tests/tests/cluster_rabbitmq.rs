//! Three nodes with their store on Redis and their log on RabbitMQ, hurt more than sixty times: the state is
//! what was acknowledged, and at most what ended unknown, each once and in order.

use consort_tests::cluster::Trial;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_on_redis_and_rabbitmq_counts_each_record_once_whatever_is_killed() {
    let node = env!("CARGO_BIN_EXE_tally-node");
    Trial { name: "cluster_rabbitmq", node, broker: true }.run().await;
}
