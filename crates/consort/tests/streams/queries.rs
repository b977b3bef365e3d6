//! Asking views: one group, pages of groups, CSV, shapes, and what is told to those who ask wrongly.

use serde_json::{Value, json};

use crate::bed::Here;
use crate::caller::{Caller, is_problem, json, text};

const VIEWS: &str = r#"
[stream.rides]
key = "skier"
partitions = 4
fields = { skier = "int", season = "text", day = "int", price = "decimal(2)", night = "bool" }

[view.rides_of]
from = "rides"
by = ["skier", "season", "day"]
count = true
route = ["GET /rides/{skier}/{season}", "GET /rides/{skier}/{season}/{day}"]
answer = { rides = "value", on = "day", by = "skier" }

[view.days]
from = "rides"
by = ["season"]
set = "day"
route = ["GET /days/{season}", "GET /rides/{season}"]
answer = "value"

[view.prices]
from = "rides"
by = [{ euros = "price * 2" }, "night", "season"]
min = "day"

[view.total]
from = "rides"
sum = "price"
route = "GET /total"
"#;

async fn ride(caller: &mut Caller, skier: i64, season: &str, day: i64) {
    let event = json!({"skier": skier, "season": season, "day": day, "price": "1.25", "night": day % 2 == 0});
    caller.accept("/streams/rides", event.to_string()).await;
}

/// All groups, page by page.
async fn paged(caller: &mut Caller, path: &str, limit: usize) -> (Vec<Value>, usize) {
    let (mut groups, mut pages) = (Vec::new(), 0);
    let mut after = String::new();
    loop {
        let page = caller.json(&format!("{path}limit={limit}{after}")).await;
        let rows = page["groups"].as_array().expect("groups");
        assert!(rows.len() <= limit, "{page}");
        groups.extend(rows.iter().cloned());
        pages += 1;
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (groups, pages),
        }
    }
}

#[tokio::test]
async fn groups_are_listed_by_any_leading_part_in_order_and_in_pages() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    let mut expected = Vec::new();
    for skier in [-5, 2, 10] {
        for season in ["2020", "2020 b", "21"] {
            for day in [-1, 3, 20, 100] {
                ride(&mut caller, skier, season, day).await;
                expected.push(
                    json!({"group": {"skier": skier, "season": season, "day": day}, "value": 1}),
                );
            }
        }
    }
    ride(&mut caller, 2, "21", 20).await;
    expected[22]["value"] = json!(2);
    // Numbers are ordered as numbers, below zero as well; texts as texts.
    for limit in [1, 5, 36, 1000] {
        let (groups, pages) = paged(&mut caller, "/views/rides_of?", limit).await;
        assert_eq!(groups, expected, "in pages of {limit}");
        assert_eq!(pages, 36usize.div_ceil(limit), "in pages of {limit}");
        let (groups, _) = paged(&mut caller, "/views/rides_of?skier=2&", limit).await;
        assert_eq!(groups, expected[12..24]);
        let (groups, _) = paged(&mut caller, "/views/rides_of?season=2020+b&skier=2&", limit).await;
        assert_eq!(groups, expected[16..20]);
    }
    let whole = caller.json("/views/rides_of?skier=2&season=2020").await;
    assert_eq!(whole, json!({"view": "rides_of", "groups": expected[12..16], "next": null}));
    let nobody = caller.json("/views/rides_of?skier=3").await;
    assert_eq!(nobody, json!({"view": "rides_of", "groups": [], "next": null}));
    let one = caller.json("/views/rides_of?day=20&season=21&skier=2").await;
    let group = json!({"skier": 2, "season": "21", "day": 20});
    assert_eq!(one, json!({"view": "rides_of", "group": group, "value": 2}));
}

#[tokio::test]
async fn members_of_a_set_come_in_pages_too() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    for day in (0..7).chain(2..5) {
        ride(&mut caller, day, "2020", 10 * day).await;
    }
    let first = caller.json("/views/days?season=2020&limit=4").await;
    assert_eq!(first["value"], json!([0, 10, 20, 30]));
    let next = first["next"].as_str().expect("there is more");
    let rest = caller.json(&format!("/views/days?season=2020&limit=4&after={next}")).await;
    assert_eq!(rest["value"], json!([40, 50, 60]));
    assert_eq!(rest.get("next"), None, "{rest}");
    assert_eq!(
        caller.json("/views/days?season=2020").await["value"].as_array().map(Vec::len),
        Some(7)
    );
    let never = json!({"view": "days", "group": {"season": "x"}, "value": []});
    assert_eq!(caller.json("/views/days?season=x").await, never);
}

#[tokio::test]
async fn groups_of_all_types_are_asked_for_and_written() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    ride(&mut caller, 1, "a/b & \"c\", é", 4).await;
    ride(&mut caller, 1, "a/b & \"c\", é", 2).await;
    let reply =
        caller.get("/views/prices?euros=2.5&night=true&season=a%2Fb+%26+%22c%22,+%C3%A9").await;
    let group = r#"{"euros":2.50,"night":true,"season":"a/b & \"c\", é"}"#;
    assert_eq!(text(&reply), format!(r#"{{"view":"prices","group":{group},"value":2}}"#));
    let other = caller.value("/views/prices?euros=2.50&night=false&season=x").await;
    assert_eq!(other, json!(null));
    assert_eq!(
        text(&caller.get("/views/total").await),
        r#"{"view":"total","group":{},"value":2.50}"#
    );
}

#[tokio::test]
async fn csv_is_for_those_who_accept_it() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    ride(&mut caller, 1, "say \"x\", y", 5).await;
    ride(&mut caller, 1, "z", 6).await;
    ride(&mut caller, 2, "z", 7).await;
    let csv = [("accept", "text/csv")];
    let reply = caller.get_with("/views/rides_of?limit=2", &csv).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    let expected = "skier,season,day,value\r\n1,\"say \"\"x\"\", y\",5,1\r\n1,z,6,1\r\n";
    assert_eq!(text(&reply), expected);
    let next = reply.header("consort-next").expect("there is more").to_owned();
    let rest = caller.get_with(&format!("/views/rides_of?limit=2&after={next}"), &csv).await;
    assert_eq!(text(&rest), "skier,season,day,value\r\n2,z,7,1\r\n");
    assert_eq!(rest.header("consort-next"), None);
    for (accept, is_csv) in [
        ("text/csv, application/json", true),
        ("application/json, text/csv", false),
        ("text/html, text/csv;q=0.9", true),
        ("application/json;q=0.1, text/csv", true),
        ("text/csv;q=0, */*", false),
        ("*/*", false),
        ("Text/CSV", true),
    ] {
        let reply = caller.get_with("/views/total", &[("accept", accept)]).await;
        assert_eq!(text(&reply) == "value\r\n3.75\r\n", is_csv, "{accept}: {}", text(&reply));
    }
    let set = caller.get_with("/views/days?season=z", &csv).await;
    assert_eq!(text(&set), "season,value\r\nz,\"[6,7]\"\r\n");
    let never = caller.get_with("/views/prices?euros=1&night=true&season=z", &csv).await;
    assert_eq!(text(&never), "euros,night,season,value\r\n1.00,true,z,\r\n");
}

#[tokio::test]
async fn routes_answer_in_their_own_shape() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    ride(&mut caller, 1, "a b", 5).await;
    ride(&mut caller, 1, "a b", 5).await;
    let one = caller.get("/rides/1/a%20b/5").await;
    assert_eq!(text(&one), r#"{"rides":2,"on":5,"by":1}"#);
    assert_eq!(text(&caller.get("/rides/1/none/5").await), r#"{"rides":0,"on":5,"by":1}"#);
    let several = json(&caller.get("/rides/1/a%20b").await);
    let group = json!({"skier": 1, "season": "a b", "day": 5});
    let expected =
        json!({"view": "rides_of", "groups": [{"group": group, "value": 2}], "next": null});
    assert_eq!(several, expected, "several groups have their usual form");
    assert_eq!(text(&caller.get("/days/a%20b").await), "[5]");
    assert_eq!(text(&caller.get("/rides/a%20b").await), "[5]", "another field in the same place");
    assert_eq!(text(&caller.get("/days/never").await), "[]");
    assert_eq!(text(&caller.get("/total").await), r#"{"view":"total","group":{},"value":2.50}"#);
    assert_eq!(text(&caller.get("/rides/1/a%20b?day=5").await), r#"{"rides":2,"on":5,"by":1}"#);
    let twice = caller.get("/rides/1/a%20b?skier=1").await;
    is_problem(&twice, 400, "invalid-query", &["'skier' is given twice"]);
}

#[tokio::test]
async fn a_wrong_question_is_told_what_could_be_asked() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    ride(&mut caller, 1, "a", 5).await;
    ride(&mut caller, 2, "a", 5).await;
    let cursor = caller.json("/views/rides_of?skier=1&limit=1").await;
    assert_eq!(cursor["next"], json!(null));
    let cursor = caller.json("/views/rides_of?limit=1").await;
    let cursor = cursor["next"].as_str().expect("there is more");
    let elsewhere = format!("skier=2&after={cursor}");
    let on_one = format!("skier=1&season=a&day=5&after={cursor}");
    for (query, words) in [
        ("skeir=1", &["no field 'skeir'", "'skier', 'season', 'day'", "'limit'", "'after'"][..]),
        ("skier=1&euros=1", &["no field 'euros'", "'skier', 'season', 'day'"]),
        ("skier=one", &["'skier' must be a whole number", "not 'one'"]),
        ("skier=", &["'skier' must be a whole number", "not ''"]),
        ("skier=1.5", &["'skier' must be a whole number", "not '1.5'"]),
        ("skier=9223372036854775808", &["'skier' must be a whole number of 64 bits"]),
        ("skier=1&skier=1", &["'skier' is given twice"]),
        ("season=a", &["'season' is given without 'skier'", "'skier', 'season', 'day'"]),
        ("skier=1&day=5", &["'day' is given without 'season'"]),
        ("limit=0", &["'limit' must be a whole number from 1 to", "not '0'"]),
        ("limit=100000000", &["'limit' must be a whole number from 1 to"]),
        ("limit=x", &["'limit' must be a whole number"]),
        ("limit=1&limit=2", &["'limit' is given twice"]),
        ("after=zz", &["'after' is no cursor of this query"]),
        ("after=", &["'after' is no cursor of this query"]),
        ("after=+1", &["'after' is no cursor of this query"]),
        (&elsewhere, &["'after' is no cursor of this query", "'next'"]),
        (&on_one, &["'after' is no cursor of this query"]),
    ] {
        let reply = caller.get(&format!("/views/rides_of?{query}")).await;
        is_problem(&reply, 400, "invalid-query", words);
    }
    for (query, word) in [
        ("euros=1.555", "at most 2 digits behind the point"),
        ("euros=1&night=yes", "true or false"),
    ] {
        let reply = caller.get(&format!("/views/prices?{query}")).await;
        is_problem(&reply, 400, "invalid-query", &[word]);
    }
    for path in ["/views/ride", "/views/ride?skier=1", "/views/ride/rejects"] {
        let words = ["there is no view 'ride'", "'days', 'prices', 'rides_of', 'total'"];
        is_problem(&caller.get(path).await, 404, "no-such-view", &words);
    }
    let bare = Here::start("").await;
    is_problem(&bare.caller().get("/views/x").await, 404, "no-such-view", &["declares none"]);
    assert_eq!(bare.caller().json("/views").await, json!({"views": []}));
}

#[tokio::test]
async fn the_views_are_listed() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    let views = caller.json("/views").await;
    let names: Vec<_> = views["views"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|view| view["view"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["days", "prices", "rides_of", "total"]);
    let rides_of = json!({
        "view": "rides_of", "from": "rides", "by": ["skier", "season", "day"], "aggregate": "count",
        "of": [], "where": null, "window": null, "sinks": [],
        "routes": ["GET /rides/{skier}/{season}", "GET /rides/{skier}/{season}/{day}"],
    });
    assert_eq!(views["views"][2], rides_of);
    assert_eq!(views["views"][1]["by"], json!(["euros", "night", "season"]));
}

#[tokio::test]
async fn a_group_that_no_key_holds_never_occurred() {
    const LONG: &str = r#"
        [stream.rides]
        fields = { season = "text 0..5000", lift = "int" }
        [view.rides_of]
        from = "rides"
        by = ["season", "lift"]
        count = true
        [view.lifts]
        from = "rides"
        by = ["season"]
        set = "lift"
    "#;
    let node = Here::start(LONG).await;
    let mut caller = node.caller();
    let season = "s".repeat(3_000);
    caller.accept("/streams/rides", json!({"season": season, "lift": 1}).to_string()).await;
    // A query waits for what was posted; the list does not.
    assert_eq!(caller.value(&format!("/views/rides_of?season={season}&lift=1")).await, json!(0));
    let rejects = caller.json("/views/rides_of/rejects").await;
    let reason = rejects["rejects"][0]["rejected"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("longer than 1024 bytes"), "{rejects}");
    assert_eq!(caller.value(&format!("/views/lifts?season={season}")).await, json!([]));
    let groups = caller.json(&format!("/views/rides_of?season={season}")).await;
    assert_eq!(groups["groups"], json!([]));
}
