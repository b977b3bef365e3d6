//! `[glue.NAME]`, `[tenant.NAME]` and `[glue]`: what they come to, and every mistake in them.

use std::time::Duration;

use consort_glue::{Absent, DocumentFormat, FeedContent, OnGap, OnReject};

use super::*;
use crate::config::{CollectionSettings, Gate};

const TOKEN: &str = "0123456789abcdef";

fn collections(text: &str) -> Vec<CollectionSettings> {
    let config = Config::resolve(&file(text)).unwrap_or_else(|problems| panic!("{problems}"));
    config.glue().collections.clone()
}

#[track_caller]
fn told(text: &str, expected: &str) {
    let problems = problems(text);
    let first = problems.lines().next().unwrap_or_default();
    assert_eq!(first, format!("consort.toml:{expected}"), "in\n{text}");
}

#[test]
fn a_format_is_all_that_a_collection_needs() {
    let all = collections("[glue.content]\nformat = 'json'");
    let [CollectionSettings { definition, gate, queues, sinks }] = &all[..] else {
        panic!("{all:?}")
    };
    let expected = consort_glue::Collection::new("content", DocumentFormat::Json, 4);
    assert_eq!(*definition, expected);
    assert_eq!((*gate, queues.len(), sinks.len()), (Gate::Adaptive, 0, 0));
}

#[test]
fn every_setting_is_read() {
    let text = "[sink.rows]\nkind = 'file'\npath = 'rows'\n[engine]\nbroker = 'amqp://h/v'\nurl = 'redis://h'\n\
        [glue.guides]\nformat = 'xml'\npartitions = 7\nretain = '2d'\nmax_document = '64KiB'\nabsent = 'reject'\n\
        template = '<g/>'\nrevive = true\non_reject = 'halt'\non_gap = 'reject'\ngap_for = '5s'\nids_for = '2h'\n\
        history = 9\nfeed = 'document'\nfeed_keep = '2h'\nfeed_bytes = '2MiB'\ntombstones = '3d'\n\
        tenant_pieces = 50\ntenant_bytes = '3MiB'\ngate = 'off'\nsink = ['rows']\n\
        amqp = [{ queue = 'q', tenant = 'a' }, { queue = 'r', url = 'amqp://other/v' }]\n[glue]\ncache = '16MiB'";
    let config = Config::resolve(&file(text)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.glue().cache, 16 << 20);
    let CollectionSettings { definition, gate, queues, sinks } = &config.glue().collections[0];
    assert_eq!((definition.format, definition.partitions), (DocumentFormat::Xml, 7));
    assert_eq!(definition.retain, Duration::from_secs(2 * 86_400));
    assert_eq!((definition.max_document, definition.absent), (64 << 10, Absent::Reject));
    assert_eq!(definition.template.as_deref(), Some(&b"<g/>"[..]));
    assert_eq!(
        (definition.revive, definition.on_reject, definition.on_gap),
        (true, OnReject::Halt, OnGap::Reject)
    );
    assert_eq!(
        (definition.gap_for, definition.ids_for),
        (Duration::from_secs(5), Duration::from_secs(7200))
    );
    assert_eq!((definition.history, definition.feed), (9, FeedContent::Document));
    assert_eq!((definition.feed_keep, definition.feed_bytes), (Duration::from_secs(7200), 2 << 20));
    assert_eq!((definition.tenant_pieces, definition.tenant_bytes), (50, 3 << 20));
    assert_eq!((*gate, &sinks[..]), (Gate::Off, &["rows".to_owned()][..]));
    let shown: Vec<_> =
        queues.iter().map(|one| (&*one.queue, one.tenant.as_str(), one.url.reveal())).collect();
    assert_eq!(shown, [("q", "a", "amqp://h/v"), ("r", "default", "amqp://other/v")]);
    let lines = config.declared();
    assert!(lines.contains(&"glue 'guides': XML documents up to 64KiB, 7 partitions, pieces kept for 2d, 9 old versions, from q, r, to rows".to_owned()), "{lines:?}");
}

#[test]
fn documents_in_rows_have_a_lower_bound() {
    let all = collections("[glue.content]\nformat = 'json'\nfeed = 'document'");
    assert_eq!(all[0].definition.max_document, 256 << 10);
    told(
        "[glue.content]\nformat = 'json'\nfeed = 'document'\nmax_document = '1MiB'",
        "4:16: 'max_document' in [glue.content] must be a size from 1KiB to 256KiB, such as \"64KiB\" or \"8MiB\", not \"1MiB\"",
    );
}

#[test]
fn mistakes_are_told_with_their_places_and_the_nearest_right_name() {
    for (text, expected) in [
        (
            "[glue.content]\nhistory = 1",
            "1:7: [glue.content] needs 'format': \"json\" or \"xml\", which its documents are",
        ),
        (
            "[glue.content]\nformat = 'jsn'",
            "2:10: 'format' in [glue.content] must be \"json\" or \"xml\", not \"jsn\"; did you mean \"json\"?",
        ),
        (
            "[glue.content]\nformat = 'json'\non_rejct = 'halt'",
            "3:1: unknown setting 'on_rejct' in [glue.content]; did you mean 'on_reject'?",
        ),
        (
            "[glue.content]\nformat = 'json'\nhistory = 1001",
            "3:11: 'history' in [glue.content] must be a whole number from 0 to 1000, not 1001",
        ),
        (
            "[glue.content]\nformat = 'json'\ntenant_pieces = 3",
            "3:17: 'tenant_pieces' in [glue.content] must be a whole number from 16 to 1000000, not 3",
        ),
        (
            "[glue.content]\nformat = 'json'\nsink = 'none'",
            "3:8: 'sink' in [glue.content]: no sink is called 'none'; declare it with [sink.none]",
        ),
        (
            "[glue.content]\nformat = 'json'\namqp = [{ queue = 'q', url = 'amqp://h/v' }, { queue = 'q', url = 'amqp://h/v' }]",
            "3:46: 'amqp' in [glue.content]: the queue 'q' is read already: one role consumes a queue, alone",
        ),
        ("[glue]\ncach = '8MiB'", "2:1: unknown setting 'cach' in [glue]; did you mean 'cache'?"),
        ("[glu.content]\nformat = 'json'", "1:2: unknown table [glu]; did you mean [glue]?"),
        (
            "[glue.'a.b']\nformat = 'json'",
            "1:7: the name of a collection must be 1 to 80 characters of letters, digits, '_' and '-', not \"a.b\"",
        ),
        (
            "[tenant.other]",
            "1:9: [tenant.other] must have another name: metrics show under it all tenants that are not declared",
        ),
        (
            "[tenant.'a b']",
            "1:9: the name of a tenant must be 1 to 64 characters of letters, digits, '_', '-' and '.', not \"a b\"",
        ),
        ("[tenant.a]\ntokens = []", "2:10: 'tokens' in [tenant.a] must have at least one token"),
        (
            "[tenant.a]\ntokens_file = '/nowhere/t'",
            "2:15: 'tokens_file' in [tenant.a] names /nowhere/t: cannot read it: No such file or directory (os error 2)",
        ),
    ] {
        told(text, expected);
    }
}

#[test]
fn settings_are_checked_together() {
    let wrong = problems("[glue.content]\nformat = 'json'\ntemplate = '<a/>'");
    assert!(
        wrong.starts_with("consort.toml:3:12: 'template' in [glue.content] is no JSON document"),
        "{wrong}"
    );
    let wrong = problems("[glue.content]\nformat = 'json'\ntombstones = '1h'");
    assert!(wrong.contains("'tombstones' in [glue.content] must be at least 'retain'"), "{wrong}");
}

#[test]
fn a_sink_of_line_protocol_cannot_take_rows() {
    let text = "[sink.db]\nkind = 'influx'\nurl = 'http://h'\ndatabase = 'd'\n[glue.content]\nformat = 'json'\nsink = 'db'";
    assert!(problems(text).contains("'sink' in [glue.content]"), "{}", problems(text));
}

#[test]
fn tokens_of_tenants_make_no_operator_and_belong_to_one_caller() {
    let tenant = format!("[tenant.a]\ntokens = ['{TOKEN}']\n");
    let alone = Config::resolve(&file(&tenant)).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(!alone.http.tokens.is_empty() && !alone.http.tokens.has_operator());
    let said = alone.declared().join("\n");
    assert!(said.contains("tenant 'a': 1 access token; the operator has none"), "{said}");
    let same = problems(&format!("[http]\ntokens = ['{TOKEN}']\n{tenant}"));
    assert!(same.contains("access token 1 is also a token of [http]"), "{same}");
    assert!(!same.contains(TOKEN), "{same}");
    let good = format!("[http]\ntokens = ['operator-token-of-sixteen']\n{tenant}[tenant.'b.c']\n");
    let config = Config::resolve(&file(&good)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((config.http.tokens.count(), config.glue().tenants.len()), (2, 2));
    assert!(!format!("{config:?}").contains(TOKEN));
}
