//! An upstream over TLS: asked if the system trusts its certificate, and else not.

use std::net::SocketAddr;

use consort_testbed::Tls;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::bed::Bed;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\nconnection: close\r\n\r\n[7]";

/// Answers every request with the same list.
async fn serve(tls: &Tls) -> SocketAddr {
    let acceptor = tls.acceptor();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust us ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok() && stream.write_all(ANSWER).await.is_ok() {
                let _ = stream.shutdown().await;
            }
        }
    });
    address
}

#[tokio::test]
async fn an_upstream_over_tls_is_asked_if_its_certificate_is_trusted() {
    let tls = Tls::new();
    let port = serve(&tls).await.port();
    let settings = format!("[once.safe]\nupstream = 'https://localhost:{port}/{{path}}'\n");
    let authority = tls.ca().display().to_string();
    let trusting = Bed::start_with(&settings, &[("SSL_CERT_FILE", &authority)]).await;
    let answer = trusting.caller().good("/once/safe/a?position=0").await;
    assert_eq!(answer.text(), "7");
    let wary = Bed::start(&settings).await;
    let refused = wary.caller().get("/once/safe/a").await;
    refused.is_problem(502, "upstream-unreachable", &["cannot be reached", "certificate"]);
}
