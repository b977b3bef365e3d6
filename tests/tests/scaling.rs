//! `consort up` follows a load that rises from one node to three and falls to one again, with a node killed at the
//! peak: no post that was acknowledged is lost or counts twice, on Redis and with the log on RabbitMQ.

use consort_tests::lifts::servers::Upon;
use consort_tests::scaling::ScalingTrial;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capped-consort");

#[tokio::test(flavor = "multi_thread")]
async fn nodes_follow_the_load_up_and_down_on_redis_and_every_ride_and_piece_counts_once() {
    let trial = ScalingTrial { name: "scaling-redis", program: PROGRAM, upon: Upon::Redis };
    trial.run_with_pieces().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_follow_the_load_up_and_down_with_the_log_on_rabbitmq_and_every_ride_counts_once() {
    ScalingTrial { name: "scaling-rabbitmq", program: PROGRAM, upon: Upon::RabbitMq }.run().await;
}
