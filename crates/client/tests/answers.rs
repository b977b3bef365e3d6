//! The client over real sockets: what is answered well, badly, too slowly or not at all.

use std::time::Duration;

use consort_client::{Client, ClientError, From};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Answers one request with `answer`, then closes; gives the request.
async fn node(answer: &'static str) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_whole(&request) {
            if stream.read_buf(&mut request).await.unwrap() == 0 {
                break;
            }
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (Client::new(&url, Some("0123456789abcdef")).unwrap(), served)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

#[tokio::test]
async fn a_decision_is_sent_with_the_token_and_its_outcome_read() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\n{\"era\":2,\"offset\":17}\n";
    let (client, served) = node(answer).await;
    let role = "worker:rides/7".parse().unwrap();
    let resolved = client.resolve(&role, From::Offset(17)).await.unwrap();
    assert_eq!((resolved.era, resolved.offset), (2, 17));
    let request = served.await.unwrap();
    assert!(
        request.starts_with("POST /cluster/roles/worker:rides%2F7/resolve HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("authorization: Bearer 0123456789abcdef\r\n"), "{request}");
    assert!(request.ends_with("{\"from\":17}"), "{request}");
}

#[tokio::test]
async fn a_problem_comes_back_in_the_nodes_words() {
    let answer = "HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n\
        {\"type\":\"urn:consort:problem:last-node\",\"title\":\"Conflict\",\"status\":409,\"detail\":\"'a' is the last\"}";
    let (client, _served) = node(answer).await;
    let error = client.drain("a").await.unwrap_err();
    assert_eq!(error.kind(), Some("last-node"));
    assert_eq!(error.to_string(), "'a' is the last");
}

#[tokio::test]
async fn an_answer_of_something_else_is_told_apart() {
    let (client, _served) = node("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    let error = client.cluster().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreadable { .. }), "{error:?}");
    assert!(error.to_string().contains("'hello'"), "{error}");

    let (client, _served) = node("SSH-2.0-OpenSSH_9.2\r\n").await;
    let error = client.cluster().await.unwrap_err();
    assert!(matches!(error, ClientError::NoAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&listener.local_addr().unwrap().to_string(), None).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        stream.write_all(head).await.unwrap();
        // Until the client has had enough.
        while stream.write_all(&[b' '; 65536]).await.is_ok() {}
    });
    let error = client.cluster().await.unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_node_that_is_not_there_or_silent_is_told() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let client = Client::new(&closed.to_string(), None).unwrap();
    let error = client.cluster().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(&format!("cannot reach http://{closed}")), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&silent.local_addr().unwrap().to_string(), None).unwrap();
    // From here on time passes only where everybody waits; the connection is made by the kernel.
    let asked = tokio::spawn(async move { client.cluster().await });
    let (_held, _) = silent.accept().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    let error = asked.await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::NoAnswer { .. }), "{error:?}");
    assert!(error.to_string().contains("nothing came within 15s"), "{error}");
}
