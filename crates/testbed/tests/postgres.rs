//! The private PostgreSQL.

use consort_testbed::PostgresServer;

#[tokio::test]
async fn it_answers_and_its_commits_are_synchronous() {
    let server = PostgresServer::start().await;
    let settings =
        server.query("SELECT current_setting('synchronous_commit'), current_setting('fsync')");
    assert_eq!(settings, "on|on");
    server.query("CREATE TABLE t (n int); INSERT INTO t SELECT generate_series(1, 3)");
    assert_eq!(server.query("SELECT sum(n) FROM t"), "6");
}
