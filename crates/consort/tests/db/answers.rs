//! What writes and reads answer, good and bad.

use std::time::{Duration, Instant};

use consort_client::Method;
use serde_json::{Value, json};

use crate::bed::{Caller, DbNode, body};

/// Path, body, headers, and what the problem says: status, kind, statement, code.
type Refusal<'a> = (&'a str, Value, &'a [(&'static str, &'a str)], u16, &'a str, Value, Value);

async fn refuses(caller: &mut Caller, refusals: &[Refusal<'_>]) {
    for (path, sent, headers, status, kind, statement, code) in refusals {
        let reply = caller.send(Method::POST, path, headers, sent.to_string()).await;
        let problem = body(&reply);
        let told = (reply.status.as_u16(), problem["type"].as_str().unwrap_or_default());
        let urn = format!("urn:consort:problem:{kind}");
        assert_eq!(told, (*status, urn.as_str()), "{sent}: {problem}");
        assert_eq!(problem["outcome"], "not stored", "{sent}: {problem}");
        assert_eq!(
            (&problem["statement"], &problem["code"]),
            (statement, code),
            "{sent}: {problem}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refused_write_says_why_and_that_nothing_is_stored() {
    let node = DbNode::start("max_rows = 3").await;
    let mut caller = node.caller();
    caller
        .write(json!([[
            "INSERT INTO notes VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)"
        ]]))
        .await;
    let write = |statements: Value| json!({ "statements": statements });
    let path = "/db/notes/write";
    let insert = "INSERT INTO notes (title) VALUES (?)";
    let none = || Value::Null;
    let update = json!({ "sql": "UPDATE notes SET stars = 0 WHERE id = 99", "changes": 1 });
    let key = &[("idempotency-key", "k")];
    caller.send(Method::POST, path, key, write(json!([[insert, "keyed"]])).to_string()).await;
    refuses(
        &mut caller,
        &[
            (path, json!({}), &[], 400, "db-request", none(), none()),
            (path, write(json!([])), &[], 400, "db-request", none(), none()),
            (
                path,
                write(json!([["SELECT"]])),
                &[],
                400,
                "db-request",
                json!(0),
                json!("SQLITE_ERROR"),
            ),
            (
                path,
                write(json!([[insert, "x"], [insert]])),
                &[],
                400,
                "db-request",
                json!(1),
                none(),
            ),
            (
                path,
                write(json!([["SELECT 1; SELECT 2"]])),
                &[],
                400,
                "db-request",
                json!(0),
                none(),
            ),
            (path, write(json!([["BEGIN"]])), &[], 400, "db-request", json!(0), none()),
            (path, write(json!([["ATTACH 'x' AS y"]])), &[], 400, "db-request", json!(0), none()),
            (
                "/db/none/write",
                write(json!([["SELECT 1"]])),
                &[],
                404,
                "db-not-found",
                none(),
                none(),
            ),
            (
                path,
                write(json!([[insert, "x"], [insert, "a"]])),
                &[],
                409,
                "db-constraint",
                json!(1),
                json!("SQLITE_CONSTRAINT_UNIQUE"),
            ),
            (
                path,
                write(json!([["INSERT INTO tags VALUES (99, 'x')"]])),
                &[],
                409,
                "db-constraint",
                json!(0),
                json!("SQLITE_CONSTRAINT_FOREIGNKEY"),
            ),
            (
                path,
                write(json!([[insert, "x"], update])),
                &[],
                409,
                "db-expectation",
                json!(1),
                none(),
            ),
            (
                path,
                write(json!([["x".repeat(1 << 21)]])),
                &[],
                413,
                "db-too-large",
                json!(0),
                none(),
            ),
            (path, write(json!([[insert, "z"]])), key, 422, "db-key-reused", none(), none()),
            (
                path,
                write(json!([["SELECT * FROM notes"]])),
                &[],
                422,
                "db-answer-too-large",
                json!(0),
                none(),
            ),
            (
                path,
                write(json!([["CREATE TABLE t (k TEXT PRIMARY KEY)"]])),
                &[],
                422,
                "db-schema",
                none(),
                none(),
            ),
        ],
    )
    .await;
    let titles = caller.rows("SELECT count(*), sum(title IN ('x', 'z')) FROM notes").await;
    assert_eq!(titles, json!([[5, 0]]), "of the refused requests nothing is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_back_as_they_were_sent() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    caller.write(json!([["CREATE TABLE odd (id INTEGER PRIMARY KEY, v)"]])).await;
    let values = [
        json!(null),
        json!(i64::MIN),
        json!(9_007_199_254_740_993_i64),
        json!(0.1),
        json!(-0.0),
        json!({ "real": "inf" }),
        json!({ "real": "-inf" }),
        json!("\u{0}größe\n\""),
        json!({ "text": "/w==" }),
        json!({ "blob": "AAH/" }),
        json!({ "blob": "" }),
    ];
    let mut statements = Vec::new();
    for value in &values {
        statements.push(json!(["INSERT INTO odd (v) VALUES (?) RETURNING v", value]));
    }
    let written = caller.write(json!(statements)).await;
    let read = caller.rows("SELECT v FROM odd ORDER BY id").await;
    for (n, value) in values.iter().enumerate() {
        assert_eq!(written["results"][n]["rows"][0][0], *value);
        assert_eq!(read[n][0], *value);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_with_its_key_gets_the_first_answer() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    let sent = r#"{"statements": [["INSERT INTO notes (title) VALUES ('once') RETURNING id"]]}"#;
    // White space and order within an object do not make it another request.
    let again =
        r#"{ "statements":[ ["INSERT INTO notes (title) VALUES ('once') RETURNING id"] ] }"#;
    let mut answers = Vec::new();
    for sent in [sent, again, sent] {
        let key = [("idempotency-key", "write-1")];
        let reply = caller.send(Method::POST, "/db/notes/write", &key, sent).await;
        assert_eq!(reply.header("consort-position"), Some("1-2"));
        answers.push(body(&reply));
    }
    assert_eq!(
        answers[0]["results"],
        json!([{ "changes": 1, "last_id": 1, "columns": ["id"], "rows": [[1]] }])
    );
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(caller.rows("SELECT count(*) FROM notes").await, json!([[1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_as_new_as_it_asks() {
    let node = DbNode::start("wait = '300ms'").await;
    let mut caller = node.caller();
    for n in 1..=20 {
        let written =
            caller.write(json!([["INSERT INTO notes (title) VALUES (?)", format!("n{n}")]])).await;
        let position = written["position"].as_str().expect("a position");
        let query = r#"{"query": ["SELECT count(*) FROM notes"]}"#;
        let after = [("consort-after", position)];
        let reply = caller.send(Method::POST, "/db/notes/read", &after, query).await;
        assert_eq!(body(&reply)["rows"], json!([[n]]), "it reads its own write");
        assert_eq!(caller.rows("SELECT count(*) FROM notes").await, json!([[n]]));
    }
    let both = r#"{"queries": [["SELECT count(*) FROM notes"], ["SELECT ? AS x", 7]], "consistency": "leader"}"#;
    let both = body(&caller.send(Method::POST, "/db/notes/read", &[], both).await);
    let results =
        json!([{ "columns": ["count(*)"], "rows": [[20]] }, { "columns": ["x"], "rows": [[7]] }]);
    assert_eq!(both["results"], results);

    let query = json!({ "query": ["SELECT 1"] });
    let path = "/db/notes/read";
    let began = Instant::now();
    refuses(
        &mut caller,
        &[
            (
                path,
                query.clone(),
                &[("consort-after", "1-999")],
                503,
                "db-no-worker",
                Value::Null,
                Value::Null,
            ),
            (
                path,
                query.clone(),
                &[("consort-after", "0-1")],
                409,
                "db-era",
                Value::Null,
                Value::Null,
            ),
            (
                path,
                query.clone(),
                &[("consort-after", "17")],
                400,
                "db-request",
                Value::Null,
                Value::Null,
            ),
            (
                path,
                json!({ "query": ["DELETE FROM notes"] }),
                &[],
                400,
                "db-request",
                json!(0),
                Value::Null,
            ),
        ],
    )
    .await;
    assert!(began.elapsed() < Duration::from_secs(10), "a wait has an end");
    let reply = caller
        .send(Method::POST, "/db/notes/read?consistency=strong", &[], query.to_string())
        .await;
    assert_eq!(reply.status, 400, "a promise in the wrong place is not taken for none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_shown_with_its_workers() {
    let node = DbNode::start("").await;
    let mut caller = node.caller();
    let list = caller.get("/db").await;
    assert_eq!(
        (&list["databases"][0]["name"], &list["databases"][0]["state"]),
        (&json!("notes"), &json!("led"))
    );
    let status = caller.get("/db/notes").await;
    assert_eq!(
        (&status["position"], &status["era"], &status["epoch"]),
        (&json!("1-1"), &json!(1), &json!(1))
    );
    let workers = caller.get("/db/notes/workers").await;
    assert_eq!((&workers["wanted"], &workers["workers"]), (&json!(2), &status["workers"]));
    let first = &workers["workers"][0];
    assert_eq!(
        (&first["id"], &first["role"], &first["lag"]),
        (&json!(1), &json!("leader"), &json!(0))
    );
    let home = caller.get("/").await;
    assert!(home.to_string().contains("\"/db/notes\""), "{home}");
}
