//! Requests that try to leave their place in the upstream's address.

use crate::bed::{Bed, Caller, LASTING, raw};

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn what_would_leave_the_templates_place_never_reaches_the_upstream() {
    let bed = Bed::start(LASTING).await;
    for path in [
        "../calls",
        "..",
        "a/../../calls",
        "%2e%2e/calls",
        "%2E%2E%2Fcalls",
        ".%2e/calls",
        "..%2fcalls",
        "..%5ccalls",
        "..\\calls",
        "a/./b",
        "/calls",
        "/169.254.169.254/latest",
        "a//b",
        "a%0d%0aHost:%20evil",
        "a%00",
        "a?position=x",
    ] {
        let (status, body) = raw(bed.address(), &get(&format!("/once/items/{path}"))).await;
        assert_eq!(status, 400, "{path}: {body}");
        assert!(body.contains("urn:consort:problem:"), "{path}: {body}");
    }
    assert_eq!(bed.calls("").await, 0);
}

#[tokio::test]
async fn what_looks_like_another_address_stays_a_path() {
    let bed = Bed::start(LASTING).await;
    for (path, arrived) in [
        ("@evil.example/x", "/items/%40evil.example/x"),
        ("http:%2F%2Fevil.example%2F", "/items/http%3A%2F%2Fevil.example%2F"),
        ("a:80@b", "/items/a%3A80%40b"),
        ("a%23b", "/items/a%23b"),
        ("a%3Fb=1", "/items/a%3Fb%3D1"),
        ("..;/calls", "/items/..%3B/calls"),
        ("%252e%252e/calls", "/items/%252e%252e/calls"),
        ("{query}", "/items/%7Bquery%7D"),
        ("%7Bpath%7D", "/items/%7Bpath%7D"),
    ] {
        let (status, body) = raw(bed.address(), &get(&format!("/once/items/{path}?echo=1"))).await;
        assert_eq!(status, 200, "{path}: {body}");
        assert!(body.contains(&format!("\"path\":\"{arrived}\"")), "{path}: {body}");
    }
    // The host that a request names, in whichever way, is not the upstream's.
    let other = format!("http://{}/once/items/z?echo=1", bed.upstream_address());
    let (status, body) = raw(bed.address(), &get(&other)).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"path\":\"/items/z\""), "{body}");
    let crlf = "/once/items/q?echo=1&a=%0d%0aX-Evil:%201&b=%23";
    let (status, body) = raw(bed.address(), &get(crlf)).await;
    assert_eq!(status, 200, "{body}");
    assert!(
        body.contains("a=%0D%0AX-Evil%3A%201&b=%23&echo=1") && !body.contains("x-evil"),
        "{body}"
    );
    let calls = Caller::of(bed.upstream_address()).get("/calls").await.json();
    let paths = calls["paths"].as_object().expect("paths");
    assert!(paths.keys().all(|path| path.starts_with("/items/")), "{paths:?}");
}
