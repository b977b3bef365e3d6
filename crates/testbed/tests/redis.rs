//! A private Redis server: its data, its ports, its pauses.

use std::time::Duration;

use consort_testbed::{Fsync, RedisOptions, RedisServer, Reply, Tls, eventually};

fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}

#[tokio::test]
async fn data_survive_a_restart_and_not_an_empty_one() {
    let mut server = RedisServer::start(RedisOptions::new().fsync(Fsync::Always)).await;
    let (url, pid) = (server.url(), server.pid());
    assert_eq!(server.call(&["SET", "key", "value"]).await.unwrap(), text("OK"));

    server.restart().await;
    assert_eq!(server.call(&["GET", "key"]).await.unwrap(), text("value"));
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);

    server.restart_empty().await;
    assert_eq!(server.call(&["GET", "key"]).await.unwrap(), Reply::Nil);
    assert_eq!(server.url(), url);
}

#[tokio::test]
async fn a_stopped_server_can_be_started_again() {
    let mut server = RedisServer::start(RedisOptions::new()).await;
    server.call(&["SET", "key", "value"]).await.unwrap();
    server.stop().await;
    assert!(server.call(&["PING"]).await.is_err());
    assert!(
        server.output().contains("Redis is now ready to exit"),
        "it ended by itself: {}",
        server.output()
    );
    server.restart().await;
    assert_eq!(server.call(&["GET", "key"]).await.unwrap(), text("value"));
}

#[tokio::test]
async fn a_killed_server_refuses_connections() {
    let mut server = RedisServer::start(RedisOptions::new()).await;
    server.kill().await;
    assert!(server.call(&["PING"]).await.is_err());
}

#[tokio::test]
async fn a_volatile_server_forgets() {
    let mut server = RedisServer::start(RedisOptions::new().volatile()).await;
    server.call(&["SET", "key", "value"]).await.unwrap();
    server.restart().await;
    assert_eq!(server.call(&["GET", "key"]).await.unwrap(), Reply::Nil);
}

#[tokio::test]
async fn a_paused_server_answers_once_it_is_resumed() {
    let mut server = RedisServer::start(RedisOptions::new()).await;
    let mut connection = server.connect().await.unwrap();
    server.pause();
    let ping = connection.call(&["PING"]);
    tokio::pin!(ping);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut ping).await;
    assert!(early.is_err(), "a paused server answered {early:?}");
    server.resume();
    assert_eq!(ping.await.unwrap(), text("PONG"));
}

#[tokio::test]
async fn a_paused_server_can_be_restarted() {
    let mut server = RedisServer::start(RedisOptions::new()).await;
    server.call(&["SET", "key", "value"]).await.unwrap();
    server.pause();
    server.restart().await;
    assert_eq!(server.call(&["GET", "key"]).await.unwrap(), text("value"));
}

#[tokio::test]
async fn options_reach_the_server() {
    let options = RedisOptions::new()
        .password("secret-1")
        .maxmemory("32mb")
        .maxmemory_policy("allkeys-lru")
        .fsync(Fsync::No)
        .line("hz 50");
    let server = RedisServer::start(options).await;
    assert_eq!(server.url(), format!("redis://:secret-1@127.0.0.1:{}/0", server.port()));
    for (setting, value) in [
        ("requirepass", "secret-1"),
        ("maxmemory", "33554432"),
        ("maxmemory-policy", "allkeys-lru"),
        ("appendonly", "yes"),
        ("appendfsync", "no"),
        ("hz", "50"),
    ] {
        let told = server.call(&["CONFIG", "GET", setting]).await.unwrap();
        assert_eq!(told.items(), [text(setting), text(value)]);
    }
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_can_use_tls() {
    let tls = Tls::new();
    let server = RedisServer::start(RedisOptions::new().tls(&tls).password("secret-1")).await;
    assert!(server.url().starts_with("rediss://:secret-1@127.0.0.1:"), "{}", server.url());
    rustls::crypto::ring::default_provider().install_default().unwrap();

    let trusting = redis::Client::build_with_tls(
        server.url(),
        redis::TlsCertificates {
            client_tls: None,
            root_cert: Some(std::fs::read(tls.ca()).unwrap()),
        },
    );
    let mut connection = trusting.unwrap().get_multiplexed_async_connection().await.unwrap();
    let pong: String = redis::cmd("PING").query_async(&mut connection).await.unwrap();
    assert_eq!(pong, "PONG");

    let stranger = Tls::new();
    let distrusting = redis::Client::build_with_tls(
        server.url(),
        redis::TlsCertificates {
            client_tls: None,
            root_cert: Some(std::fs::read(stranger.ca()).unwrap()),
        },
    );
    assert!(distrusting.unwrap().get_multiplexed_async_connection().await.is_err());
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = RedisServer::start(RedisOptions::new()).await;
    let port = server.port();
    drop(server);
    let refused =
        || async move { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() };
    eventually("its port refuses connections", Duration::from_secs(5), refused).await;
}
