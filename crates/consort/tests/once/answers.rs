//! What an answer is: one for all, with what a cache says of it, whole or by position, and the conditions on it.

use consort_client::Method;
use futures::future::join_all;
use serde_json::json;

use crate::bed::{Bed, LASTING};

#[tokio::test]
async fn requests_at_the_same_moment_are_one_call_and_one_generation() {
    let bed = Bed::start(LASTING).await;
    let asking = (0..20).map(|number| {
        let mut caller = bed.caller();
        async move {
            let position = number % 5;
            let path = format!("/once/items/today?delay=300ms&position={position}");
            (position, caller.good(&path).await)
        }
    });
    let answers = join_all(asking).await;
    let generation = answers[0].1.generation();
    let call = answers[0].1.json()["call"].clone();
    for (position, answer) in &answers {
        assert_eq!(answer.generation(), generation);
        let item = answer.json();
        assert_eq!(item["position"], json!(position));
        assert_eq!(item["call"], call);
    }
    assert_eq!(bed.calls("today").await, 1);
}

#[tokio::test]
async fn an_answer_says_what_a_cache_says_of_it() {
    let bed = Bed::start("fresh_for = '60s'\nrefresh_early = false\n").await;
    let mut caller = bed.caller();
    let first = caller.good("/once/items/a").await;
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.header("cache-control"), "max-age=60");
    assert_eq!(first.header("cache-status"), "consort; fwd=miss");
    assert_eq!(first.header("etag"), format!("\"{}\"", first.generation()));
    let age: u64 = first.header("age").parse().expect("an age");
    assert!(age <= 60, "{age}");
    let second = caller.good("/once/items/a").await;
    assert!(second.header("cache-status").starts_with("consort; hit; detail="), "{second:?}");
    assert_eq!(second.generation(), first.generation());
    assert_eq!(second.0.body, first.0.body);

    let head = caller.send(Method::HEAD, "/once/items/a", &[], "").await;
    assert_eq!((head.status(), head.0.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), first.0.body.len().to_string());
    assert_eq!(head.generation(), first.generation());
    assert_eq!(bed.calls("a").await, 1);
}

#[tokio::test]
async fn who_has_it_already_is_told_so() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    let whole = caller.good("/once/items/a").await.header("etag").to_owned();
    let element = caller.good("/once/items/a?position=2").await.header("etag").to_owned();
    assert_ne!(whole, element);
    let weak = format!("\"other\", W/{whole}");
    for (path, tag, status) in [
        ("/once/items/a", whole.as_str(), 304),
        ("/once/items/a", "*", 304),
        ("/once/items/a", &weak, 304),
        ("/once/items/a", "\"other\"", 200),
        ("/once/items/a", &element, 200),
        ("/once/items/a?position=2", &element, 304),
        ("/once/items/a?position=2", &whole, 200),
        ("/once/items/a?position=1", &element, 200),
    ] {
        let answer = caller.get_with(path, &[("if-none-match", tag)]).await;
        assert_eq!(answer.status(), status, "{path} {tag}");
        assert_eq!(answer.0.body.is_empty(), status == 304, "{path} {tag}");
        assert!(!answer.header("etag").is_empty() && !answer.header("cache-control").is_empty());
        answer.generation();
    }
    // What is not there has no tag to be compared with.
    caller.get("/once/items/none?status=404").await;
    let none = caller.get_with("/once/items/none?status=404", &[("if-none-match", "*")]).await;
    assert_eq!(none.status(), 404);
}

#[tokio::test]
async fn a_position_picks_one_element() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    let whole = caller.good("/once/items/a").await;
    for position in 0..5 {
        let one = caller.good(&format!("/once/items/a?position={position}")).await;
        assert_eq!(one.json(), whole.json()[position]);
        assert_eq!(one.header("content-type"), "application/json");
        assert_eq!(one.generation(), whole.generation());
    }
    let beyond = caller.get("/once/items/a?position=5").await;
    beyond.is_problem(404, "beyond-the-end", &["no position 5", "has 5 elements"]);
    for wrong in ["-1", "x", "1.5", "", "99999999999999999999999"] {
        let answer = caller.get(&format!("/once/items/a?position={wrong}")).await;
        answer.is_problem(400, "position", &["a whole number from 0"]);
    }
    let twice = caller.get("/once/items/a?position=1&position=1").await;
    twice.is_problem(400, "position", &["comes twice"]);
    for other in ["object=1", "empty=1", "size=10B"] {
        let answer = caller.get(&format!("/once/items/b?{other}&position=0")).await;
        answer.is_problem(400, "not-an-array", &["a JSON array", "ask without it"]);
    }
    // One that says there is no list stands for itself.
    let none = caller.get("/once/items/c?status=404&position=0").await;
    assert_eq!(none.status(), 404);
    assert!(none.json().is_array(), "{}", none.text());
    assert_eq!(bed.calls("a").await, 1);
}

#[tokio::test]
async fn who_insists_on_a_generation_gets_it_or_is_told_that_it_is_gone() {
    let bed = Bed::start(LASTING).await;
    let mut caller = bed.caller();
    let first = caller.good("/once/items/a").await.generation();
    let again = caller.get_with("/once/items/a", &[("consort-generation", &first)]).await;
    assert_eq!((again.status(), again.generation()), (200, first.clone()));
    let gone: &[&str] = &["not there any more", "ask without 'Consort-Generation'"];
    let other = caller.get_with("/once/items/b", &[("consort-generation", &first)]).await;
    other.is_problem(412, "generation-gone", gone);
    assert_eq!(bed.calls("b").await, 0, "a condition computes nothing");
    let malformed = caller.get_with("/once/items/a", &[("consort-generation", "x")]).await;
    malformed.is_problem(400, "generation", &["'x'", "32 hexadecimal digits"]);

    assert_eq!(caller.delete("/once/items/a").await.status(), 200);
    let late = caller.get_with("/once/items/a", &[("consort-generation", &first)]).await;
    late.is_problem(412, "generation-gone", gone);
    assert_ne!(caller.good("/once/items/a").await.generation(), first);
}

#[tokio::test]
async fn elsewhere_there_is_nothing_and_what_there_is_is_named() {
    let bed = Bed::start("[once.others]\nupstream = 'http://UPSTREAM/items/'\n").await;
    let mut caller = bed.caller();
    for path in ["/once/itms/a", "/once/itms", "/once/", "/once//a"] {
        let answer = caller.get(path).await;
        assert_eq!(answer.status(), 404, "{path}: {}", answer.text());
    }
    let unknown = caller.get("/once/itms/a").await;
    unknown.is_problem(404, "no-such-once", &["[once.itms]", "'items', 'others'"]);
    let listed = caller.good("/once").await.json();
    let expected = json!([{"name": "items", "path": "/once/items/"}, {"name": "others", "path": "/once/others/"}]);
    assert_eq!(listed["once"], expected);
    let put = caller.send(Method::PUT, "/once/items/a", &[], "{}").await;
    put.is_problem(405, "method-not-allowed", &["does not take PUT"]);
    // A template without a place takes nothing from the request.
    caller.good("/once/others").await;
    let path = caller.get("/once/others/a").await;
    path.is_problem(400, "path", &["'others' takes no path", "add {path} to 'upstream'"]);
    let query = caller.get("/once/others?a=1").await;
    query.is_problem(400, "query", &["'others' takes no query"]);
    caller.good("/once/others?position=1").await;
    caller.good("/once/others/").await;
    assert_eq!(bed.calls("").await, 1);
}

#[tokio::test]
async fn access_tokens_are_asked_for_and_never_passed_on() {
    let token = "0123456789abcdef-token";
    let settings = format!("{LASTING}headers = ['accept-language']\n");
    let bed = Bed::start_with(&settings, &[("CONSORT_HTTP_TOKENS", token)]).await;
    let mut caller = bed.caller();
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let answer = caller.send(method, "/once/items/a?echo=1", &[], "").await;
        assert_eq!(answer.status(), 401, "{}", answer.text());
    }
    assert_eq!(bed.calls("").await, 0);
    let bearer = format!("Bearer {token}");
    let answer = caller.get_with("/once/items/a?echo=1", &[("authorization", &bearer)]).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert!(!answer.text().contains(token), "{}", answer.text());
}
