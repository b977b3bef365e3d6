//! Upstreams that fail, are slow, huge, empty or elsewhere: each failure is one for all, and says what to do.

use consort_testbed::eventually;
use futures::future::join_all;

use crate::bed::{Bed, LASTING, PATIENCE};

#[tokio::test]
async fn each_failure_of_an_upstream_is_told_with_what_to_do() {
    let settings = format!(
        "{LASTING}timeout = '500ms'\nmax_value = '4KiB'\n\
         [once.nowhere]\nupstream = 'http://127.0.0.1:1/{{path}}'\nerrors_for = '1h'\n\
         [once.silent]\nupstream = 'http://SILENT/{{path}}'\nerrors_for = '1h'\ntimeout = '500ms'\n"
    );
    // It accepts connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let silent = silent.local_addr().map(|address| (silent, address)).expect("an address");
    let bed = Bed::start(&settings.replace("SILENT", &silent.1.to_string())).await;
    let mut caller = bed.caller();
    let place = format!("http://{}", bed.upstream_address());
    for (path, status, kind, words) in [
        ("items/a?status=500", 502, "upstream-refused", &[&*place, "answered 500"][..]),
        ("items/first?fail=1", 502, "upstream-refused", &["answered 503", "as it was told to"]),
        ("items/a?status=401", 502, "upstream-refused", &["answered 401"]),
        ("items/a?status=429", 502, "upstream-refused", &["answered 429"]),
        ("items/a?status=206", 502, "upstream-refused", &["answered 206"]),
        (
            "items/a?redirect=http://169.254.169.254/",
            502,
            "upstream-refused",
            &[
                "answered 302",
                "redirects are not followed (it leads to http://169.254.169.254/)",
                "set 'upstream'",
            ],
        ),
        (
            "items/a?status=304",
            502,
            "upstream-refused",
            &["answered 304", "redirects are not followed"],
        ),
        (
            "items/a?delay=10s",
            504,
            "upstream-timeout",
            &["within 500ms", "raise 'timeout' in [once.items]"],
        ),
        (
            "items/a?size=5KiB",
            502,
            "upstream-too-large",
            &["more than 4096 bytes", "raise 'max_value' in [once.items]"],
        ),
        ("items/a?size=1GiB", 502, "upstream-too-large", &["more than 4096 bytes"]),
        ("items/a?broken=1", 502, "upstream-malformed", &["broke off its answer"]),
        (
            "nowhere/a",
            502,
            "upstream-unreachable",
            &[
                "http://127.0.0.1:1 cannot be reached",
                "refused",
                "mend 'upstream' in [once.nowhere]",
            ],
        ),
        ("silent/a", 504, "upstream-timeout", &["did not answer within 500ms"]),
    ] {
        let answer = caller.get(&format!("/once/{path}")).await;
        answer.is_problem(status, kind, words);
        let after: u64 = answer.header("retry-after").parse().expect("when to come again");
        assert!((1..=3600).contains(&after), "{path}: {after}");
    }
    drop(silent);
}

#[tokio::test]
async fn a_failure_is_one_for_all_and_kept() {
    let bed = Bed::start(LASTING).await;
    let asking = (0..10).map(|_| {
        let mut caller = bed.caller();
        async move { caller.get("/once/items/a?delay=300ms&status=500").await }
    });
    for answer in join_all(asking).await {
        answer.is_problem(502, "upstream-refused", &["answered 500"]);
    }
    let later = bed.caller().get("/once/items/a?delay=300ms&status=500").await;
    later.is_problem(502, "upstream-refused", &["answered 500"]);
    assert_eq!(bed.calls("a").await, 1);
}

#[tokio::test]
async fn a_failure_is_forgotten_after_its_time() {
    let bed = Bed::start("errors_for = '10ms'\n").await;
    let mut caller = bed.caller();
    caller.get("/once/items/a?fail=1").await.is_problem(502, "upstream-refused", &["503"]);
    let heals = || async { bed.caller().get("/once/items/a?fail=1").await.status() == 200 };
    eventually("it is asked again", PATIENCE, heals).await;
    assert_eq!(bed.calls("a").await, 2);
}

#[tokio::test]
async fn what_an_upstream_says_of_the_thing_itself_is_an_answer() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    for status in [400, 403, 404, 410, 422] {
        let path = format!("/once/items/a{status}?status={status}");
        let first = caller.get(&path).await;
        let second = caller.get(&path).await;
        assert_eq!((first.status(), second.status()), (status, status));
        assert_eq!(first.generation(), second.generation());
        assert_eq!(first.header("content-type"), "application/json");
        assert_eq!(first.header("cache-control"), "max-age=3600", "it is kept as errors are");
        assert_eq!(bed.calls(&format!("a{status}")).await, 1);
    }
    let empty = caller.good("/once/items/b?empty=1").await;
    assert_eq!(empty.0.body.len(), 0);
    assert_eq!(caller.good("/once/items/b?empty=1").await.generation(), empty.generation());
    assert_eq!(caller.get("/once/items/b?empty=1&status=204").await.status(), 204);
    let text = caller.good("/once/items/c?size=3B&type=text/csv").await;
    assert_eq!((text.text().as_str(), text.header("content-type")), ("xxx", "text/csv"));
    let large = caller.good("/once/items/c?size=1MiB").await;
    assert_eq!(large.0.body.len(), 1 << 20, "max_value is the largest body, headers aside");
}

#[tokio::test]
async fn who_waits_too_long_is_told_and_the_computation_goes_on() {
    let bed = Bed::start(&format!("{LASTING}wait = '100ms'\n")).await;
    let late = bed.caller().get("/once/items/a?delay=1s").await;
    late.is_problem(
        504,
        "deadline",
        &["within 100ms", "'wait' in [once.items]", "the computation goes on"],
    );
    assert!(!late.header("retry-after").is_empty());
    let there = || async { bed.caller().get("/once/items/a?delay=1s").await.status() == 200 };
    eventually("it is there", PATIENCE, there).await;
    assert_eq!(bed.calls("a").await, 1);
}

#[tokio::test]
async fn who_finds_too_many_waiting_is_turned_away() {
    for bound in ["waiters = 1", "waiters_per_key = 1"] {
        turned_away(&format!("{LASTING}[once]\n{bound}\n")).await;
    }
}

async fn turned_away(settings: &str) {
    let bed = Bed::start(settings).await;
    let path = "/once/items/a?delay=2s";
    let mut first = bed.caller();
    let waiting = tokio::spawn(async move { first.get(path).await });
    let asked = || async { bed.calls("a").await == 1 };
    eventually("one is waiting", PATIENCE, asked).await;
    let refused = bed.caller().get(path).await;
    refused.is_problem(503, "too-many-waiters", &["'waiters' and 'waiters_per_key' in [once]"]);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(waiting.await.expect("it ends").status(), 200);
    assert_eq!(bed.calls("a").await, 1);
}
