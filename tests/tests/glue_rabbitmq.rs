//! Three nodes on Redis and RabbitMQ behind a balancer, killed, paused, added and retired while pieces of JSON and XML documents
//! come in: no piece is lost, doubled or out of order.

use consort_tests::glue::GlueTrial;
use consort_tests::lifts::servers::Upon;

#[tokio::test(flavor = "multi_thread")]
async fn documents_on_rabbitmq_hold_each_acknowledged_piece_once_and_in_order_whatever_is_killed() {
    let program = env!("CARGO_BIN_EXE_consort-under-test");
    GlueTrial { name: "glue_rabbitmq", program, upon: Upon::RabbitMq }.run().await;
}
