//! What a node answers: health, readiness with reasons, metrics, problems, and the demand for a
//! token.

use crate::client::{options, start};
use consort_server::prometheus_client::metrics::counter::Counter;
use consort_server::{BindError, Probe, Server, Tokens};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

#[tokio::test]
async fn a_living_process_is_healthy_even_when_it_is_not_ready() {
    let mut options = options();
    options.probes = vec![
        Probe::new("log", || async { Ok(()) }),
        Probe::new("store", || async { Err("connection refused by 127.0.0.1:6379".to_owned()) }),
    ];
    let server = start(options).await;
    let healthy = server.ask(&get("/healthz")).await;
    assert_eq!((healthy.status, healthy.body.as_str()), (200, r#"{"status":"ok"}"#));
    let ready = server.ask(&get("/readyz")).await;
    assert_eq!(ready.status, 503);
    assert_eq!(
        ready.problem(),
        ("not-ready".into(), "store: connection refused by 127.0.0.1:6379".into())
    );
}

#[tokio::test]
async fn a_probe_that_does_not_answer_counts_as_not_ready_and_all_reasons_are_given() {
    let mut options = options();
    options.probes = vec![
        Probe::new("log", std::future::pending),
        Probe::new("store", || async { Err("gone".to_owned()) }),
    ];
    let server = start(options).await;
    let ready = server.ask(&get("/readyz")).await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.problem().1, "log: no answer within 1s; store: gone");
}

#[tokio::test]
async fn a_node_whose_engines_answer_is_ready() {
    let mut options = options();
    options.probes = vec![Probe::new("log", || async { Ok(()) })];
    let server = start(options).await;
    let ready = server.ask(&get("/readyz")).await;
    assert_eq!((ready.status, ready.body.as_str()), (200, r#"{"status":"ready"}"#));
}

#[tokio::test]
async fn an_unknown_path_and_a_wrong_method_are_problems_that_name_them() {
    let server = start(options()).await;
    let missing = server.ask(&get("/nowhere/to/be?found=1")).await;
    assert_eq!(missing.status, 404);
    assert_eq!(
        missing.problem(),
        (
            "not-found".into(),
            "nothing is served at '/nowhere/to/be'; GET / lists what this node serves".into()
        )
    );

    let wrong = server.ask("DELETE /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(wrong.status, 405);
    assert_eq!(wrong.header("allow"), Some("get,head"));
    let (kind, detail) = wrong.problem();
    assert_eq!(kind, "method-not-allowed");
    assert!(detail.contains("'/healthz' does not take DELETE"), "{detail}");
    // The parts' own routes answer in the same way.
    assert_eq!(server.ask(&get("/echo")).await.problem().0, "method-not-allowed");
}

#[tokio::test]
async fn a_panicking_handler_costs_its_request_and_nothing_else() {
    let server = start(options()).await;
    let mut client = server.connect().await;
    client.send(&get("/panic")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.problem().0.as_str()), (500, "defect"));
    client.send(&get("/healthz")).await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn metrics_tell_what_was_answered() {
    let mut options = options();
    options.metrics.describe_engine("embedded", "embedded");
    let own: Counter = Counter::default();
    options.metrics.registry().register("things", "Things counted by another crate", own.clone());
    own.inc_by(7);
    let server = start(options).await;
    server.ask(&get("/healthz")).await;
    server.ask(&get("/nowhere")).await;
    server.ask("BREW /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;

    let answer = server.ask(&get("/metrics")).await;
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let samples = parse(&answer.body);
    for (name, value) in [
        (r#"consort_build_info{version="1.2.3"}"#, "1"),
        (r#"consort_engine_info{log="embedded",store="embedded"}"#, "1"),
        (r#"consort_http_requests_total{route="/healthz",method="GET",status="2xx"}"#, "1"),
        (r#"consort_http_requests_total{route="unmatched",method="GET",status="4xx"}"#, "1"),
        (r#"consort_http_requests_total{route="/healthz",method="other",status="4xx"}"#, "1"),
        (r#"consort_http_request_seconds_count{route="/healthz"}"#, "2"),
        ("consort_things_total", "7"),
    ] {
        let found = samples.iter().find(|(sample, _)| sample == name);
        assert_eq!(
            found.map(|(_, value)| value.as_str()),
            Some(value),
            "{name} in\n{}",
            answer.body
        );
    }
    for name in ["consort_uptime_seconds", "consort_http_connections_open"] {
        let found = samples.iter().find(|(sample, _)| sample == name).expect(name);
        assert!(found.1.parse::<f64>().unwrap() >= 0.0, "{found:?}");
    }
}

#[tokio::test]
async fn with_tokens_only_the_probes_are_open_to_all() {
    let mut options = options();
    options.listen = "0.0.0.0:0".parse().unwrap();
    options.tokens = Tokens::new(vec!["correct-horse-battery".into()]).unwrap();
    let server = start(options).await;
    for (path, token, expected) in [
        ("/healthz", None, 200),
        ("/readyz", None, 200),
        ("/metrics", None, 401),
        ("/nowhere", None, 401),
        ("/metrics", Some("wrong-horse-battery!!"), 401),
        ("/metrics", Some("correct-horse-battery"), 200),
        ("/nowhere", Some("correct-horse-battery"), 404),
    ] {
        let bearer =
            token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
        let answer =
            server.ask(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\n")).await;
        assert_eq!(answer.status, expected, "{path} {token:?}");
        if expected == 401 {
            assert_eq!(answer.problem().0, "no-access");
            assert!(answer.header("www-authenticate").unwrap().starts_with("bearer realm="));
            assert!(!answer.body.contains("horse"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_tokens() {
    let mut options = options();
    options.listen = "0.0.0.0:0".parse().unwrap();
    let error = Server::bind(options).await.unwrap_err();
    assert!(matches!(error, BindError::NeedsTokens(_)));
    assert!(error.to_string().contains("[http] tokens"), "{error}");
}

/// Reads OpenMetrics text: every line is a comment or a sample with a number, every sample's family
/// was announced by a TYPE line before it, and the last line is the end mark.
fn parse(text: &str) -> Vec<(String, String)> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut families = Vec::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            families.push(declared.split(' ').next().unwrap().to_owned());
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(families.iter().any(|family| name.starts_with(family.as_str())), "{line}");
            samples.push((name.to_owned(), value.to_owned()));
        }
    }
    samples
}
