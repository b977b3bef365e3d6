//! The rules on hosts and web pages, for every kind of route and by every way.

use consort_server::{Limits, Options, Tokens, WebPolicy};

use crate::client::{Answer, Running, options, start};

const TOKEN: &str = "a-token-of-this-test";

/// A path of each kind: with a handler, the server's own, and none.
const ROUTES: [(&str, &str); 6] = [
    ("POST", "/echo"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("DELETE", "/echo"),
    ("OPTIONS", "/echo"),
    ("GET", "/nowhere"),
];

async fn server(tokens: &[&str]) -> Running {
    let policy = WebPolicy {
        advertised: Some("node-a.example.org:7400".into()),
        hosts: vec!["consort.example.org".parse().unwrap()],
        origins: vec!["https://app.example.org".parse().unwrap()],
    };
    let tokens = Tokens::new(tokens.iter().map(|token| (*token).to_owned()).collect()).unwrap();
    start(Options { web: policy, tokens, limits: Limits::default(), ..options() }).await
}

async fn ask(server: &Running, (method, path): (&str, &str), headers: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\n{headers}content-length: 0\r\n\r\n");
    server.ask(&request).await
}

/// The status of a request that no rule refuses.
fn usual((method, path): (&str, &str)) -> u16 {
    match (method, path) {
        (_, "/nowhere") => 404,
        ("DELETE" | "OPTIONS", _) => 405,
        _ => 200,
    }
}

#[tokio::test]
async fn without_tokens_only_known_hosts_name_the_node() {
    let server = server(&[]).await;
    let listening = server.handle.address().to_string();
    let good = [
        listening.as_str(),
        "localhost",
        "LOCALHOST:1",
        "tour.localhost:7400",
        "127.9.9.9",
        "[::1]:7400",
        "consort.example.org",
        "Consort.Example.Org:8443",
        "node-a.example.org",
        "node-a.example.org:7400",
    ];
    let foreign = [
        "evil.example",
        "localhost.evil.example:7400",
        "10.0.0.1",
        "0.0.0.0:7400",
        "[::]",
        "x.consort.example.org",
        "example.org",
    ];
    for route in ROUTES {
        for host in good {
            let answer = ask(&server, route, &format!("host: {host}\r\n")).await;
            assert_eq!(answer.status, usual(route), "{route:?} {host}");
        }
        for host in foreign {
            let answer = ask(&server, route, &format!("host: {host}\r\n")).await;
            let (kind, detail) = answer.problem();
            assert_eq!((answer.status, kind.as_str()), (421, "misdirected"), "{route:?} {host}");
            assert!(detail.contains("'hosts' in [http]"), "{detail}");
        }
    }
}

#[tokio::test]
async fn a_host_that_is_missing_repeated_or_malformed_is_400_with_and_without_tokens() {
    for tokens in [&[][..], &[TOKEN]] {
        let server = server(tokens).await;
        for route in ROUTES {
            for headers in [
                "",
                "host: localhost\r\nhost: localhost\r\n",
                "host: localhost\r\nHost: evil.example\r\n",
                "host:\r\n",
                "host: a b\r\n",
                "host: localhost, localhost\r\n",
                "host: user@localhost\r\n",
                "host: localhost:port\r\n",
                "host: localhost:99999\r\n",
                "host: http://localhost\r\n",
                "host: localhost/\r\n",
                "host: [::1\r\n",
                "host: ::1\r\n",
            ] {
                let token = format!("{headers}authorization: Bearer {TOKEN}\r\n");
                let answer = ask(&server, route, &token).await;
                assert_eq!(answer.status, 400, "{route:?} {headers}");
                assert_eq!(answer.problem().0, "bad-host", "{route:?} {headers}");
            }
        }
    }
}

#[tokio::test]
async fn with_tokens_any_host_may_name_the_node() {
    let server = server(&[TOKEN]).await;
    let headers = format!("host: evil.example\r\nauthorization: Bearer {TOKEN}\r\n");
    for route in ROUTES {
        assert_eq!(ask(&server, route, &headers).await.status, usual(route), "{route:?}");
    }
    assert_eq!(ask(&server, ("GET", "/metrics"), "host: evil.example\r\n").await.status, 401);
}

#[tokio::test]
async fn the_host_of_an_absolute_target_counts() {
    let server = server(&[]).await;
    for (target, host, status) in [
        ("http://localhost/healthz", "host: localhost\r\n", 200),
        ("http://localhost/healthz", "host: evil.example\r\n", 200),
        ("http://evil.example/healthz", "host: localhost\r\n", 421),
        ("http://user@localhost/healthz", "host: localhost\r\n", 400),
        ("http://localhost/healthz", "", 400),
        ("http://localhost/healthz", "host: a b\r\n", 400),
        ("http://localhost/healthz", "host: localhost\r\nhost: localhost\r\n", 400),
    ] {
        let answer = server.ask(&format!("GET {target} HTTP/1.1\r\n{host}\r\n")).await;
        assert_eq!(answer.status, status, "{target} {host}");
    }
}

#[tokio::test]
async fn http_1_0_may_leave_its_host_out_and_may_not_give_a_wrong_one() {
    let server = server(&[]).await;
    for (headers, status) in [
        ("", 200),
        ("host: localhost\r\n", 200),
        ("host: evil.example\r\n", 421),
        ("host: localhost\r\nhost: localhost\r\n", 400),
        ("host: a b\r\n", 400),
        ("origin: http://localhost\r\n", 403),
    ] {
        let answer = server.ask(&format!("GET /healthz HTTP/1.0\r\n{headers}\r\n")).await;
        assert_eq!(answer.status, status, "{headers}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused_on_every_route() {
    let own = "origin: http://localhost:7400\r\n";
    let cases = [
        ("", true),
        (own, true),
        ("sec-fetch-site: same-origin\r\n", true),
        ("sec-fetch-site: none\r\nsec-fetch-mode: navigate\r\n", true),
        ("origin: http://localhost:7401\r\n", false),
        ("origin: http://127.0.0.1:7400\r\n", false),
        ("origin: https://localhost:7400\r\n", false),
        ("origin: http://localhost\r\n", false),
        ("origin: https://evil.example\r\n", false),
        ("origin: null\r\n", false),
        ("origin:\r\n", false),
        ("origin: http://localhost:7400\r\norigin: http://localhost:7400\r\n", false),
        ("origin: http://localhost:7400\r\nsec-fetch-site: same-site\r\n", false),
        ("sec-fetch-site: cross-site\r\n", false),
        ("sec-fetch-site: same-site\r\n", false),
        ("sec-fetch-site: Cross-Site\r\n", false),
        ("sec-fetch-site: same-origin\r\nsec-fetch-site: cross-site\r\n", false),
        ("sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n", false),
    ];
    for tokens in [&[][..], &[TOKEN]] {
        let server = server(tokens).await;
        for route in ROUTES {
            for (headers, passes) in cases {
                let bare = format!("host: localhost:7400\r\n{headers}");
                let with_token = format!("{bare}authorization: Bearer {TOKEN}\r\n");
                let answer = ask(&server, route, &bare).await;
                let open = tokens.is_empty() || route.1 == "/healthz";
                let status = match (passes, open) {
                    (false, _) => 403,
                    (true, true) => usual(route),
                    (true, false) => 401,
                };
                assert_eq!(answer.status, status, "{route:?} {headers}");
                if !passes {
                    let (kind, detail) = answer.problem();
                    assert_eq!(kind, "foreign-origin");
                    assert!(detail.contains("'origins' in [http]"), "{detail}");
                    assert_eq!(answer.header("access-control-allow-origin"), None);
                }
                // A token lets a page in where there are tokens. Without, anything would pass for one.
                let lets_in = passes || !tokens.is_empty();
                let status = if lets_in { usual(route) } else { 403 };
                let answer = ask(&server, route, &with_token).await;
                assert_eq!(answer.status, status, "{route:?} {headers} with a token");
                assert_eq!(answer.header("access-control-allow-origin"), None);
            }
        }
    }
}

#[tokio::test]
async fn a_page_of_a_listed_origin_may_read_and_send() {
    let listed =
        "host: localhost\r\norigin: https://app.example.org\r\nsec-fetch-site: cross-site\r\n";
    let preflight = format!(
        "{listed}access-control-request-method: POST\r\n\
         access-control-request-headers: content-type,idempotency-key\r\n"
    );
    for tokens in [&[][..], &[TOKEN]] {
        let server = server(tokens).await;
        for route in ROUTES {
            let answer = ask(&server, route, listed).await;
            let open = tokens.is_empty() || route.1 == "/healthz";
            assert_eq!(answer.status, if open { usual(route) } else { 401 }, "{route:?}");
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!(allowed, Some("https://app.example.org"), "{route:?}");
            assert_eq!(answer.header("access-control-expose-headers"), Some("*"));
            assert_eq!(answer.header("vary"), Some("origin"));
        }
        // A browser sends no token with a preflight.
        for path in ["/echo", "/metrics", "/nowhere"] {
            let answer = ask(&server, ("OPTIONS", path), &preflight).await;
            assert_eq!(answer.status, 204, "{path}");
            for (name, value) in [
                ("access-control-allow-origin", "https://app.example.org"),
                ("access-control-allow-methods", "get, head, post, delete"),
                ("access-control-allow-headers", "content-type,idempotency-key"),
                ("vary", "origin"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{path} {name}");
            }
        }
        for origin in ["https://evil.example", "http://app.example.org", "null"] {
            let foreign = preflight.replace("https://app.example.org", origin);
            let answer = ask(&server, ("OPTIONS", "/echo"), &foreign).await;
            assert_eq!(answer.status, 403, "{origin}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
        // An answer for no page at all may not be kept for one.
        let open = ask(&server, ("GET", "/healthz"), "host: localhost\r\n").await;
        assert_eq!(open.header("vary"), Some("origin"));
    }
}
