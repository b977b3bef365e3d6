//! What is kept of the events: every aggregate, exact, and what cannot be taken is listed.

use serde_json::{Value, json};

use crate::bed::Here;
use crate::caller::{Caller, json, text};

const VIEWS: &str = r#"
[stream.sales]
key = "shop"
partitions = 4
fields = { shop = "text", item = "text", pieces = "int", price = "decimal(2)", paid = "bool", note = "text?", at = "int?" }

[view.count]
from = "sales"
by = ["shop"]
where = "paid"
count = true

[view.sum]
from = "sales"
by = ["shop"]
where = "item != 'gift' && pieces > 0"
sum = "price"

[view.worth]
from = "sales"
by = ["shop"]
sum = "price * pieces"

[view.pieces]
from = "sales"
by = ["shop"]
sum = "pieces"

[view.min]
from = "sales"
by = ["shop"]
min = "price"

[view.max]
from = "sales"
by = ["shop"]
max = "item"

[view.last]
from = "sales"
by = ["shop"]
last = "note"

[view.distinct]
from = "sales"
by = ["shop"]
distinct = ["item", "pieces"]

[view.set]
from = "sales"
by = ["shop"]
set = "price"

[view.approx]
from = "sales"
by = ["shop"]
where = "shop == 'large'"
distinct_approx = "pieces"

[view.each]
from = "sales"
by = ["shop"]
where = "item == 'pack'"
sum = "100 / pieces"

[view.guarded]
from = "sales"
by = ["shop"]
where = "pieces != 0 && 100 / pieces > 9"
count = true

[view.either]
from = "sales"
by = ["shop"]
where = "pieces == 0 || 100 / pieces > 9"
count = true

[view.tenfold]
from = "sales"
by = ["shop"]
where = "item == 'ten'"
sum = "pieces * 10"
"#;

fn sale(shop: &str, item: &str, pieces: i64, price: &str, paid: bool) -> Value {
    json!({"shop": shop, "item": item, "pieces": pieces, "price": price, "paid": paid})
}

async fn sell(caller: &mut Caller, sale: &Value) {
    caller.accept("/streams/sales", sale.to_string()).await;
}

/// The value of a shop as the answer writes it: a JSON library would round decimals.
async fn written(caller: &mut Caller, view: &str, shop: &str) -> String {
    let reply = caller.get(&format!("/views/{view}?shop={shop}")).await;
    assert_eq!(reply.status, 200, "{}", text(&reply));
    let said = text(&reply);
    let value = said.rsplit_once("\"value\":").expect("a value").1;
    value.strip_suffix('}').expect("an object").to_owned()
}

#[tokio::test]
async fn every_aggregate_is_exact() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    for (item, pieces, price, paid, note) in [
        ("nut", 3, "0.10", true, json!("first")),
        ("nut", 3, "0.20", true, json!("Grüße, \"you\"")),
        ("gift", 1, "99.99", true, json!(null)),
        ("bolt", 2, "-5", false, json!("third")),
        ("bolt", 0, "0.1", true, json!(null)),
    ] {
        let mut sale = sale("a", item, pieces, price, paid);
        sale["note"] = note;
        sell(&mut caller, &sale).await;
        // One frame after the other, so that it is certain which is the last.
        caller.value("/views/count?shop=a").await;
    }
    for (view, value, nothing) in [
        ("count", "4", "0"),
        ("sum", "-4.70", "0.00"),
        ("worth", "90.89", "0.00"),
        ("pieces", "9", "0"),
        ("min", "-5.00", "null"),
        ("max", "\"nut\"", "null"),
        ("last", "\"third\"", "null"),
        ("distinct", "4", "0"),
        ("set", "[-5.00,0.10,0.20,99.99]", "[]"),
        ("approx", "0", "0"),
        ("guarded", "4", "0"),
        ("either", "5", "0"),
    ] {
        assert_eq!(written(&mut caller, view, "a").await, value, "{view}");
        assert_eq!(written(&mut caller, view, "nowhere").await, nothing, "{view}");
    }
}

#[tokio::test]
async fn decimals_do_not_round() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    // As numbers and as texts; 0.1 + 0.2 is 0.30 here, and large ones keep their last digit.
    let lines: String = (0..30)
        .map(|n| {
            let price = if n % 2 == 0 { "0.1" } else { "\"0.20\"" };
            format!(
                "{{\"shop\":\"a\",\"item\":\"x\",\"pieces\":1,\"price\":{price},\"paid\":true}}\n"
            )
        })
        .collect();
    assert_eq!(caller.lines("/streams/sales", lines).await.status, 201);
    assert_eq!(written(&mut caller, "sum", "a").await, "4.50");
    for price in ["90071992547409.93", "-0.01", "1.000"] {
        sell(&mut caller, &sale("b", "x", 1, price, true)).await;
    }
    assert_eq!(written(&mut caller, "sum", "b").await, "90071992547410.92");
    assert_eq!(written(&mut caller, "set", "b").await, "[-0.01,1.00,90071992547409.93]");
}

#[tokio::test]
async fn a_sketch_counts_about_right() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    let line = |n: u32| format!("{}\n", sale("large", "x", i64::from(n % 3_000), "1", true));
    let lines: String = (0..6_000).map(line).collect();
    let reply = caller.lines("/streams/sales", lines).await;
    assert_eq!(json(&reply)["accepted"], json!(6_000));
    let about = caller.value("/views/approx?shop=large").await.as_i64().expect("a number");
    assert!((2_850..=3_150).contains(&about), "3000 different ones were counted as {about}");
    assert_eq!(caller.value("/views/distinct?shop=large").await, json!(3_000));
}

#[tokio::test]
async fn a_sum_beyond_64_bits_is_refused_and_listed() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    let shop = "Zürich \"3\"";
    let asked = "/views/pieces?shop=Z%C3%BCrich+%223%22";
    for (pieces, sum) in
        [(i64::MAX, i64::MAX), (1, i64::MAX), (-7, i64::MAX - 7), (8, i64::MAX - 7), (7, i64::MAX)]
    {
        sell(&mut caller, &sale(shop, "x", pieces, "0", true)).await;
        assert_eq!(caller.value(asked).await, json!(sum), "after {pieces}");
    }
    let listed = caller.json("/views/pieces/rejects").await;
    let overflow = json!({"overflow": {"group": json!({"shop": shop}).to_string()}});
    assert_eq!(listed, json!({"view": "pieces", "rejects": [overflow, overflow]}));
    // The other views took these events.
    let empty = json!({"view": "count", "rejects": []});
    assert_eq!(caller.json("/views/count/rejects").await, empty);
    assert_eq!(caller.value("/views/count?shop=Z%C3%BCrich+%223%22").await, json!(5));
    sell(&mut caller, &sale(shop, "x", i64::MIN, "0", true)).await;
    assert_eq!(caller.value(asked).await, json!(-1));
}

#[tokio::test]
async fn an_event_that_an_expression_cannot_take_is_listed_and_left_out_there() {
    let node = Here::start(VIEWS).await;
    let mut caller = node.caller();
    for pieces in [3, 0, 7] {
        sell(&mut caller, &sale("a", "pack", pieces, "1", true)).await;
    }
    for pieces in [i64::MAX, 4] {
        sell(&mut caller, &sale("a", "ten", pieces, "0", true)).await;
    }
    assert_eq!(caller.value("/views/each?shop=a").await, json!(33 + 14));
    assert_eq!(caller.value("/views/tenfold?shop=a").await, json!(40));
    for (view, pieces, reason) in
        [("each", 0, "a division by zero"), ("tenfold", i64::MAX, "a number grew beyond 64 bits")]
    {
        let listed = caller.json(&format!("/views/{view}/rejects")).await;
        let lines = listed["rejects"].as_array().expect("a list");
        assert_eq!(lines.len(), 1, "{view}: {listed}");
        let line = &lines[0]["rejected"];
        assert_eq!(line["reason"], json!(reason), "{view}");
        let event: Value =
            serde_json::from_str(line["event"].as_str().expect("a text")).expect("JSON");
        assert_eq!((&event["pieces"], &event["shop"]), (&json!(pieces), &json!("a")), "{view}");
    }
    // A condition that is decided before it divides decides for all of it.
    for view in ["guarded", "either"] {
        let listed = caller.json(&format!("/views/{view}/rejects")).await;
        assert_eq!(listed["rejects"], json!([]), "{view}");
    }
}
