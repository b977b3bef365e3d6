//! For how long answers are used: what the upstream says, and what the settings say where it says nothing.

use consort_testbed::eventually;

use crate::bed::{Bed, LASTING, PATIENCE};

#[tokio::test]
async fn the_upstreams_cache_control_is_honoured() {
    // What is not to be used again is not used as a stale answer either.
    let bed = Bed::start(&format!("{LASTING}stale_for = '1h'\nstale_if_error = '1h'\n")).await;
    let mut caller = bed.caller();
    for (cache, said) in [
        ("max-age=100", "max-age=100"),
        ("max-age=100,%20s-maxage=50", "max-age=50"),
        ("public", "max-age=3600"),
    ] {
        let path = format!("/once/items/a?cache={cache}");
        let first = caller.good(&path).await;
        assert_eq!(first.header("cache-control"), said);
        assert_eq!(caller.good(&path).await.generation(), first.generation(), "{cache}");
    }
    assert_eq!(bed.calls("a").await, 3);
    for (cache, said) in [
        ("cache=no-store", "no-store"),
        ("cache=private", "no-store"),
        ("cache=max-age=0", "max-age=0"),
        ("cache=no-cache", "max-age=0"),
        ("cookie=session", "max-age=0"),
    ] {
        let path = format!("/once/items/b?{cache}");
        let first = caller.good(&path).await;
        assert_eq!(first.header("cache-control"), said, "{cache}");
        assert_eq!(first.header("set-cookie"), "", "a cookie is for one");
        assert_ne!(caller.good(&path).await.generation(), first.generation(), "{cache}");
    }
    assert_eq!(bed.calls("b").await, 10);
}

#[tokio::test]
async fn where_it_is_not_to_be_honoured_the_settings_decide() {
    let bed = Bed::start(&format!("{LASTING}honour = false\n")).await;
    let mut caller = bed.caller();
    for cache in ["no-store", "max-age=0", "private", "max-age=100"] {
        let path = format!("/once/items/a?cache={cache}");
        let first = caller.good(&path).await;
        assert_eq!(first.header("cache-control"), "max-age=3600", "{cache}");
        assert_eq!(caller.good(&path).await.generation(), first.generation(), "{cache}");
    }
}

#[tokio::test]
async fn even_what_may_not_be_kept_is_one_answer_for_those_who_wait() {
    let bed = Bed::start(LASTING).await;
    let asking = (0..10).map(|_| {
        let mut caller = bed.caller();
        async move { caller.good("/once/items/a?delay=500ms&cache=no-store").await.generation() }
    });
    let generations = futures::future::join_all(asking).await;
    assert!(generations.iter().all(|one| *one == generations[0]), "{generations:?}");
    assert_eq!(bed.calls("a").await, 1);
}

#[tokio::test]
async fn what_is_stale_is_served_while_one_refreshes() {
    let settings = "fresh_for = '100ms'\nstale_for = '1h'\nrefresh_early = false\n";
    stale_while_refreshed(settings, "/once/items/a?delay=200ms").await;
}

#[tokio::test]
async fn so_it_is_where_the_upstream_allows_it() {
    let path = "/once/items/a?delay=200ms&cache=max-age=1,stale-while-revalidate=3600";
    stale_while_refreshed("fresh_for = '1h'\nrefresh_early = false\n", path).await;
}

async fn stale_while_refreshed(settings: &str, path: &str) {
    let bed = Bed::start(settings).await;
    let mut caller = bed.caller();
    let first = caller.good(path).await.generation();
    // Whoever begins the refresh does not wait for it.
    let mut stale = false;
    loop {
        let answer = caller.good(path).await;
        if answer.generation() != first {
            break;
        }
        stale |= answer.header("cache-status").ends_with("-stale");
    }
    assert!(stale, "a stale answer was served");
}

#[tokio::test]
async fn what_is_stale_is_served_when_the_upstream_is_away() {
    let mut bed = Bed::start("refresh_early = false\n").await;
    let mut caller = bed.caller();
    let path = "/once/items/a?cache=max-age=1,stale-if-error=3600";
    let bare = "/once/items/b?cache=max-age=1";
    let first = caller.good(path).await.generation();
    caller.good(bare).await;
    bed.upstream.kill().await;
    let failed = || async { bed.caller().get(bare).await.status() == 502 };
    eventually("what may not be used stale is gone", PATIENCE, failed).await;
    let aged = || async {
        let answer = bed.caller().get(path).await;
        assert_eq!(
            (answer.status(), answer.generation()),
            (200, first.clone()),
            "{}",
            answer.text()
        );
        answer.header("cache-control") == "max-age=0"
    };
    eventually("it is stale", PATIENCE, aged).await;
}

#[tokio::test]
async fn what_is_asked_for_all_the_time_is_refreshed_before_its_end_and_nobody_waits() {
    let bed = Bed::start("fresh_for = '5s'\n").await;
    let mut caller = bed.caller();
    // In the last tenth of its life. A machine that stands still just then misses the moment, and tries again.
    for number in 1..=10 {
        let path = format!("/once/items/{number}?delay=100ms");
        let first = caller.good(&path).await.generation();
        loop {
            let said = caller.good(&path).await;
            if !said.header("cache-status").contains("hit") {
                break;
            }
            if said.generation() != first {
                assert_eq!(bed.calls(&number.to_string()).await, 2);
                return;
            }
        }
    }
    panic!("each time somebody had to wait for the new answer");
}
