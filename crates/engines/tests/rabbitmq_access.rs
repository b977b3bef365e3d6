//! Getting in to RabbitMQ: passwords, TLS, permissions, and what is said when it fails.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use consort_engines::OpenError;
use consort_engines::rabbitmq::RabbitLog;
use consort_kernel::{
    AppendError, Cursor, Fault, Frame, FrameKind, Log, LogEntry, Most, Name, Partition, Producer,
    ReadError, Timestamp,
};
use consort_testbed::{RabbitOptions, RabbitServer, Tls, eventually};
use tempfile::NamedTempFile;

const PATIENCE: Duration = Duration::from_secs(60);

fn partition(stream: &str) -> Partition {
    Partition::new(Name::new(stream).expect("a name"), 0)
}

fn frame(sequence: u64, bytes: usize) -> Frame {
    Frame {
        kind: FrameKind::Events,
        producer: Producer(1),
        sequence,
        time: Timestamp(1_700_000_000_000),
        records: vec![Bytes::from(vec![sequence as u8; bytes])].into(),
    }
}

async fn refused(url: &str, ca: Option<&std::path::Path>) -> String {
    let error = RabbitLog::open(url, "access", ca).await.expect_err("not let in");
    match &error {
        OpenError::Unreachable { .. } | OpenError::Unusable { .. } => {}
        other => panic!("{other:?}"),
    }
    format!("{error} {error:?}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_trusted_by_its_authority_alone() {
    let tls = Tls::new();
    let server = RabbitServer::start(RabbitOptions::new().tls(&tls)).await;
    let ca = tls.ca();
    let log = RabbitLog::open(&server.tls_url(), "access", Some(&ca)).await.expect("let in");
    let at = partition("secret");
    log.append(&at, &frame(1, 10)).await.expect("append");
    let page = log.read(&at, &Cursor::START, Most::default(), PATIENCE).await.expect("read");
    assert_eq!(page[0].frame, frame(1, 10));

    let stranger = Tls::new();
    for ca in [Some(stranger.ca()), None] {
        let said = refused(&server.tls_url(), ca.as_deref()).await;
        assert!(said.contains("certificate"), "{said}");
    }
    let key = tls.key();
    let said = refused(&server.tls_url(), Some(&key)).await;
    assert!(said.contains("holds no certificate"), "{said}");
    let said = refused(&server.tls_url(), Some(&tls.folder().join("absent.pem"))).await;
    assert!(said.contains("absent.pem"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_holds_a_password() {
    let server = RabbitServer::shared().await;
    let log = RabbitLog::open(&server.url(), "access", None).await.expect("let in");
    assert!(!format!("{log:?}").contains("guest:"), "{log:?}");
    let wrong = server.url().replace("guest:guest@", "guest:open-sesame@");
    let said = refused(&wrong, None).await;
    assert!(said.contains("ACCESS_REFUSED"), "{said}");
    assert!(!said.contains("sesame"), "{said}");
    for url in [
        "amqp://guest:open-sesame@127.0.0.1:1/%2f",
        "amqp://guest:open-sesame@127.0.0.1:x/",
        "guest:open-sesame@127.0.0.1",
        "http://guest:open-sesame@127.0.0.1/?password=sesame",
    ] {
        let said = refused(url, None).await;
        assert!(said.contains("127.0.0.1") && !said.contains("sesame"), "{said}");
    }
}

/// A broker whose definitions are read when it starts: users, permissions and policies, which need
/// tools that a private broker does not have.
async fn start_defined(definitions: &str) -> (RabbitServer, NamedTempFile) {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(definitions.as_bytes()).expect("the definitions are written");
    let line = format!("load_definitions = {}", file.path().display());
    (RabbitServer::start(RabbitOptions::new().line(&line)).await, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_and_refused_access_are_told() {
    let definitions = r#"{
        "vhosts": [{"name": "/"}],
        "users": [
            {"name": "guest", "password": "guest", "tags": "administrator"},
            {"name": "nobody", "password": "open-sesame", "tags": ""}
        ],
        "permissions": [
            {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
            {"user": "nobody", "vhost": "/", "configure": "^$", "write": "^$", "read": "^$"}
        ],
        "policies": [{
            "vhost": "/", "name": "short", "pattern": "short", "apply-to": "queues",
            "definition": {"max-length-bytes": 200000, "stream-max-segment-size-bytes": 50000}
        }]
    }"#;
    let (server, _definitions) = start_defined(definitions).await;

    let nobody = server.url().replace("guest:guest@", "nobody:open-sesame@");
    let log = RabbitLog::open(&nobody, "access", None).await.expect("let in");
    let refused = log.append(&partition("short"), &frame(0, 10)).await;
    assert!(
        matches!(&refused, Err(AppendError::Engine(Fault::Fatal(said))) if said.contains("ACCESS_REFUSED")),
        "{refused:?}"
    );

    let log = RabbitLog::open(&server.url(), "access", None).await.expect("let in");
    let at = partition("short");
    log.append(&at, &frame(0, 10_000)).await.expect("append");
    let old = log.read(&at, &Cursor::START, Most::default(), PATIENCE).await.expect("read");
    let mut sequence = 1;
    let first = eventually("the oldest entries go", PATIENCE, || {
        let (log, at, frame) = (log.clone(), at.clone(), frame(sequence, 10_000));
        sequence += 1;
        async move {
            log.append(&at, &frame).await.expect("append");
            Some(log.first(&at).await.expect("first")).filter(|first| *first > 1)
        }
    })
    .await;
    // It may have gone further since.
    for cursor in [Cursor::START, Cursor::at(1), old[0].cursor()] {
        let log = RabbitLog::open(&server.url(), "access", None).await.expect("let in");
        let answer = log.read(&at, &cursor, Most::default(), PATIENCE).await;
        assert!(
            matches!(answer, Err(ReadError::Trimmed { cursor: c, first: f }) if c == cursor && f >= first),
            "{answer:?}"
        );
    }
    let first = log.first(&at).await.expect("first");
    let page = log.read(&at, &Cursor::at(first), Most::default(), PATIENCE).await.expect("read");
    assert_eq!(page.first().map(|entry: &LogEntry| entry.offset), Some(first));
}
