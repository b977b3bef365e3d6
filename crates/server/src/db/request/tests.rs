//! Bodies by table: those that are read, and the words for those that are not.

use futures::executor::block_on;
use serde_json::json;

use super::*;

fn write(body: &str) -> Result<Vec<JobStatement>, String> {
    let read = block_on(read_write(body.as_bytes()));
    read.map_err(|problem| problem.detail().to_owned())
}

fn read(body: &str) -> Result<ReadRequest, String> {
    let read = block_on(read_read(body.as_bytes()));
    read.map_err(|problem| problem.detail().to_owned())
}

fn positional(sql: &str, values: Vec<SqlValue>) -> JobStatement {
    JobStatement { sql: sql.into(), args: JobArgs::Positional(values), changes: None }
}

#[test]
fn a_statement_is_a_list_or_an_object() {
    let named =
        JobArgs::Named(vec![("n".into(), SqlValue::Integer(5)), (":id".into(), "x".into())]);
    for (body, expected) in [
        (r#"{"statements": [["A"]]}"#, vec![positional("A", vec![])]),
        (
            r#"{"statements": [["A", 1, "x", null], {"sql": "B"}]}"#,
            vec![
                positional("A", vec![SqlValue::Integer(1), "x".into(), SqlValue::Null]),
                positional("B", vec![]),
            ],
        ),
        (
            r#"{"statements": [{"changes": 1, "args": [2], "sql": "B"}]}"#,
            vec![JobStatement { changes: Some(1), ..positional("B", vec![SqlValue::Integer(2)]) }],
        ),
        (
            r#"{"statements": [{"sql": "B", "args": {"n": 5, ":id": "x"}}]}"#,
            vec![JobStatement { args: named, ..positional("B", vec![]) }],
        ),
    ] {
        assert_eq!(write(body), Ok(expected), "{body}");
    }
}

#[test]
fn what_is_wrong_with_a_write_is_told_with_its_statement() {
    for (body, told) in [
        ("", "must be {\"statements\": [STATEMENT, …]}"),
        ("[]", "must be {\"statements\""),
        (r#"{"statements": []}"#, "1 to 1000 statements, not 0"),
        (r#"{"statements": {}}"#, "expected a list of statements"),
        (r#"{"statements": [["A"]], "key": "k"}"#, "unknown field `key`"),
        (r#"{"statements": [["A"], []]}"#, "statement 1 cannot be read: invalid length 0"),
        (r#"{"statements": ["A"]}"#, "statement 0 cannot be read: invalid type"),
        (r#"{"statements": [[1]]}"#, "expected a string"),
        (r#"{"statements": [["A", [1]]]}"#, "expected null, a number, a text"),
        (r#"{"statements": [{"args": []}]}"#, "missing field `sql`"),
        (r#"{"statements": [{"sql": "A", "sql": "B"}]}"#, "'sql' came twice"),
        (r#"{"statements": [{"sql": "A", "arg": []}]}"#, "unknown field `arg`"),
        (r#"{"statements": [{"sql": "A", "changes": -1}]}"#, "invalid value: integer `-1`"),
        (r#"{"statements": [{"sql": "A", "args": 1}]}"#, "expected a list of arguments"),
    ] {
        let error = write(body).unwrap_err();
        assert!(error.contains(told), "{body}: {error}");
    }
    let second = block_on(read_write(br#"{"statements": [["A"], []]}"#));
    assert_eq!(second.unwrap_err().member("statement"), Some(&json!(1)));
}

#[test]
fn every_bound_of_a_request_is_kept() {
    let statements = |count: usize| json!({ "statements": vec![["A"]; count] }).to_string();
    assert_eq!(write(&statements(STATEMENTS_MOST)).map(|all| all.len()), Ok(STATEMENTS_MOST));
    assert!(write(&statements(STATEMENTS_MOST + 1)).unwrap_err().contains("at most 1000"));
    let arguments = |count: usize| {
        let list: Vec<_> = [json!("A")].into_iter().chain(vec![json!(1); count]).collect();
        json!({ "statements": [list] }).to_string()
    };
    assert!(write(&arguments(ARGUMENTS_MOST)).is_ok());
    assert!(write(&arguments(ARGUMENTS_MOST + 1)).unwrap_err().contains("at most 32000"));
    let sql = |length: usize| json!({ "statements": [["x".repeat(length)]] }).to_string();
    assert!(write(&sql(SQL_MOST)).is_ok());
    let long = block_on(read_write(sql(SQL_MOST + 1).as_bytes())).unwrap_err();
    assert_eq!(long.kind(), problems::DB_TOO_LARGE);
}

#[test]
fn a_read_has_one_query_or_several_and_a_promise() {
    let query = |sql: &str| positional(sql, vec![]);
    for (body, queries, is_single, consistency) in [
        (r#"{"query": ["A"]}"#, vec![query("A")], true, Consistency::Any),
        (r#"{"query": ["A"], "consistency": "any"}"#, vec![query("A")], true, Consistency::Any),
        (
            r#"{"query": {"sql": "A"}, "consistency": "strong"}"#,
            vec![query("A")],
            true,
            Consistency::Strong,
        ),
        (
            r#"{"queries": [["A"], ["B"]], "consistency": "leader"}"#,
            vec![query("A"), query("B")],
            false,
            Consistency::Strong,
        ),
    ] {
        let job = ReadJob { queries };
        assert_eq!(read(body), Ok(ReadRequest { job, is_single, consistency }), "{body}");
    }
    for (body, told) in [
        ("{}", "either of the two"),
        (r#"{"query": ["A"], "queries": []}"#, "either of the two"),
        (r#"{"queries": []}"#, "not 0"),
        (r#"{"query": ["A"], "consistency": "weak"}"#, "unknown variant `weak`"),
        (r#"{"query": {"sql": "A", "changes": 1}}"#, "'changes' is an expectation of a write"),
        (r#"{"query": ["A"], "after": "1-17"}"#, "unknown field `after`"),
    ] {
        let error = read(body).unwrap_err();
        assert!(error.contains(told), "{body}: {error}");
    }
}

#[test]
fn a_key_is_visible_ascii_and_comes_once() {
    let job = |keys: &[&str]| {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append(KEY, key.parse().unwrap());
        }
        let job = write_job(vec![positional("A", vec![])], &headers);
        job.map(|job| job.key.map(|key| key.key)).map_err(|problem| problem.detail().to_owned())
    };
    assert_eq!(job(&[]), Ok(None));
    let longest = "k".repeat(KEY_MOST);
    for key in ["6c1f3a", "!~", &longest] {
        assert_eq!(job(&[key]), Ok(Some(key.to_owned())));
    }
    for keys in [&[""][..], &["a b"], &["\u{e4}"], &[&format!("{longest}k")]] {
        assert!(job(keys).unwrap_err().contains("visible ASCII"), "{keys:?}");
    }
    assert!(job(&["a", "a"]).unwrap_err().contains("twice"));
}

#[test]
fn the_hash_of_statements_is_the_same_in_every_release() {
    let values = vec![
        SqlValue::Null,
        SqlValue::Integer(7),
        SqlValue::Real(0.5),
        "x".into(),
        SqlValue::Blob(bytes::Bytes::from_static(b"\0")),
    ];
    let named = JobArgs::Named(vec![("n".into(), SqlValue::Integer(5))]);
    let statements =
        [positional("A", values), JobStatement { sql: "B".into(), args: named, changes: Some(1) }];
    let hash: String =
        statements_hash(&statements).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, "0d15495856782f31274e296fb4f46bf00e90c3514ee5f21db5c60eb7e7c8a73d");
}

#[test]
fn different_statements_have_different_hashes() {
    let hash = |body: &str| statements_hash(&write(body).unwrap());
    let all = [
        r#"{"statements": [["A"]]}"#,
        r#"{"statements": [["A"], ["A"]]}"#,
        r#"{"statements": [["A", "A"]]}"#,
        r#"{"statements": [["A", {"blob": "QQ=="}]]}"#,
        r#"{"statements": [["A", 1]]}"#,
        r#"{"statements": [["A", 1.0]]}"#,
        r#"{"statements": [{"sql": "A", "args": {"A": 1}}]}"#,
        r#"{"statements": [{"sql": "A", "changes": 1}]}"#,
    ];
    for (n, one) in all.iter().enumerate() {
        assert_eq!(hash(one), hash(&one.replace(' ', "  ")));
        all[n + 1..].iter().for_each(|other| assert_ne!(hash(one), hash(other), "{one} {other}"));
    }
}
