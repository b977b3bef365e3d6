//! Three nodes on RabbitMQ and Redis behind a balancer, killed, paused, added and retired while rides come in: all views
//! hold what was acknowledged, each ride once.

use consort_tests::lifts::Trial;
use consort_tests::lifts::servers::Upon;

#[tokio::test(flavor = "multi_thread")]
async fn the_views_on_rabbitmq_hold_each_acknowledged_ride_once_whatever_is_killed() {
    let program = env!("CARGO_BIN_EXE_consort-under-test");
    Trial { name: "views_rabbitmq", program, upon: Upon::RabbitMq }.run().await;
}
