//! A web server of one page, which tells what became of it, and the browser that shows it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use consort_testbed::Process;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A browser starts slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The server of a page.
pub(crate) struct PageServer(TcpListener);

impl PageServer {
    pub(crate) async fn bind() -> PageServer {
        PageServer(TcpListener::bind("127.0.0.1:0").await.expect("a port"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }

    /// Serves `page` to a browser that asks for it as `host`, and gives what its script posts to `/report`.
    pub(crate) async fn report(&self, host: &str, page: &str) -> Value {
        let browser = Browser::start(&format!("http://{host}:{}/", self.address().port()));
        let reported = async {
            loop {
                let (stream, _) = self.0.accept().await.expect("a connection");
                if let Some(report) = serve(stream, page).await {
                    return report;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, reported).await {
            Ok(report) => serde_json::from_str(&report).expect("JSON"),
            Err(_) => panic!("the page did not report: {}", browser.0.output()),
        }
    }
}

/// Answers one request; the body of a report. A browser that opens connections to spare sends nothing on them.
async fn serve(stream: TcpStream, page: &str) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let line = stream.read_line(&mut head);
        match tokio::time::timeout(Duration::from_secs(2), line).await {
            Ok(Ok(1..)) => {}
            _ => return None,
        }
    }
    let length =
        |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok();
    let mut body = vec![0; head.lines().find_map(length).unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    let (status, text) = match head.split(' ').nth(1) {
        Some("/") => ("200 OK", page),
        Some("/report") => ("200 OK", ""),
        _ => ("404 Not Found", ""),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await.ok()?;
    head.starts_with("POST /report ").then(|| String::from_utf8_lossy(&body).into_owned())
}

/// A headless Chromium with a profile of its own. Its children end with it.
struct Browser(
    Process,
    #[expect(dead_code, reason = "the profile lasts as long as the browser")] TempDir,
);

impl Browser {
    fn start(url: &str) -> Browser {
        let profile = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("chromium");
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--no-proxy-server"])
            // A name that an attacker points at this machine.
            .arg("--host-resolver-rules=MAP evil.test 127.0.0.1")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .env("HOME", profile.path());
        let log = profile.path().join("browser.log");
        Browser(Process::start(&command, &log), profile)
    }
}
