//! Sinks: what is read of them, every mistake with its exact message, and what is never shown.

use consort_feeds::Payload;
use consort_kernel::Change;

use super::declarations::told;
use super::*;
use crate::config::declared::Declaration;
use crate::config::feeds::{Sinks, read_sinks};
use crate::config::reader::Reader;

const ALL: &str = "\
[engine]
url = 'redis://h'
broker = 'amqp://u:s3cret@broker/v'
[sink.one]
kind = 'influx'
url = 'http://h:8086'
database = 'events'
retention = 'week'
user = 'u'
password = 's3cret'
[sink.two]
kind = 'influx'
url = 'https://h'
org = 'o'
bucket = 'b'
token = 's3cret'
[sink.hook]
kind = 'webhook'
url = 'https://example.org/s3cret?key=s3cret'
secret = '0123456789 s3cret'
allow_private = true
[sink.broker]
kind = 'amqp'
exchange = 'x'
routing_key = 'rows'
[sink.other]
kind = 'amqp'
url = 'amqps://u:s3cret@other'
routing_key = 'queue'
[sink.file]
kind = 'file'
path = '/var/rows'
[sink.lines]
kind = 'file'
path = 'rows'
format = 'line'
";

#[test]
fn every_kind_of_sink_is_read_and_shown_without_secrets() {
    let config = Config::resolve(&file(ALL)).unwrap_or_else(|problems| panic!("{problems}"));
    let expected = [
        "sink 'one': influx at http://h:8086, database events",
        "sink 'two': influx at https://h, bucket b of o",
        "sink 'hook': webhook at https://example.org, signed",
        "sink 'broker': amqp at amqp://u:***@broker/v, exchange 'x', routing key 'rows'",
        "sink 'other': amqp at amqps://u:***@other, exchange '', routing key 'queue'",
        "sink 'file': file /var/rows, NDJSON",
        "sink 'lines': file rows, line protocol",
    ];
    assert_eq!(config.declared(), expected);
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
}

/// What stands below `[sink.x]`, from line 2 on.
const MISTAKES: &[(&str, &str)] = &[
    (
        "url = 'http://h'",
        "1:7: [sink.x] needs 'kind': \"influx\", \"webhook\", \"amqp\" or \"file\"",
    ),
    (
        "kind = 'influxdb'",
        "2:8: 'kind' in [sink.x] must be \"influx\" or \"webhook\" or \"amqp\" or \"file\", not \"influxdb\"; did you mean \"influx\"?",
    ),
    ("kind = 'file'\npaht = 'a'", "3:1: unknown setting 'paht' in [sink.x]; did you mean 'path'?"),
    ("kind = 'file'", "1:7: [sink.x] needs 'path': the file that rows are appended to"),
    (
        "kind = 'file'\npath = 'a'\ntoken = 's3cret'",
        "4:1: 'token' in [sink.x] has no use in a sink of kind \"file\", which has 'kind', 'path', 'format', 'send'",
    ),
    (
        "kind = 'file'\npath = 'a'\nsend = 'all'",
        "4:8: 'send' in [sink.x] must be \"pieces\" or \"states\", not \"all\"",
    ),
    (
        "kind = 'file'\npath = 'a'\nformat = 'csv'",
        "4:10: 'format' in [sink.x] must be \"ndjson\" or \"line\", not \"csv\"",
    ),
    (
        "kind = 'influx'\ndatabase = 'd'",
        "1:7: [sink.x] needs 'url': where InfluxDB is, such as \"http://127.0.0.1:8086\"",
    ),
    (
        "kind = 'influx'\nurl = 'http://h'",
        "1:7: [sink.x] needs 'database' (InfluxDB 1), or 'org', 'bucket' and 'token' (InfluxDB 2)",
    ),
    (
        "kind = 'influx'\nurl = 'http://h'\ndatabase = 'd'\nbucket = 'b'",
        "5:1: 'bucket' in [sink.x]: 'org', 'bucket' and 'token' are those of InfluxDB 2, and 'database', 'retention', 'user' and 'password' those of InfluxDB 1: give the one or the other",
    ),
    (
        "kind = 'influx'\nurl = 'http://h'\nbucket = 'b'\norg = 'o'",
        "1:7: [sink.x] needs 'token': what lets Consort write there",
    ),
    (
        "kind = 'influx'\nurl = 'http://h'\ndatabase = 'd'\nuser = 'u'",
        "1:7: [sink.x] needs 'password' beside 'user'",
    ),
    (
        "kind = 'influx'\nurl = 'h:8086'\ndatabase = 'd'",
        "3:7: 'url' in [sink.x] must be an http:// or https:// address, such as \"https://example.org/rows\"",
    ),
    (
        "kind = 'influx'\nurl = 'http://u:s3cret@h'\ndatabase = 'd'",
        "3:7: 'url' in [sink.x] must be without user and password: give those in settings of their own",
    ),
    (
        "kind = 'influx'\nurl = 'http://h/?db=d'\ndatabase = 'd'",
        "3:7: 'url' in [sink.x] must be without a query: 'database' or 'bucket' say where to write",
    ),
    (
        "kind = 'webhook'\nurl = 'http://h'\nsecret = 's3cret'",
        "4:10: 'secret' in [sink.x] must have at least 16 characters (`openssl rand -hex 32` makes one)",
    ),
    (
        "kind = 'amqp'\nrouting_key = 'r'",
        "1:7: [sink.x] needs 'url': the RabbitMQ to publish to (where [engine] has a 'broker', that is the default)",
    ),
    (
        "kind = 'amqp'\nurl = 'amqp://h'",
        "1:7: [sink.x] needs 'routing_key': what the exchange routes by; without an 'exchange', the name of the queue",
    ),
];

#[test]
fn each_mistake_is_told_with_its_place_and_never_with_a_secret() {
    for (settings, expected) in MISTAKES {
        let text = format!("[sink.x]\n{settings}\n");
        assert_eq!(told(&text), [*expected], "{settings}");
        assert!(!problems(&text).contains("s3cret"), "{}", problems(&text));
    }
}

#[test]
fn the_address_of_a_webhook_is_in_no_message() {
    for mistake in ["kind = 'file'\npath = 'x'", "kind = 'webhook'\nsecret = 'short'", "kind = "] {
        let text = format!("[sink.x]\nurl = \"https://example.org/s3cret\"\n{mistake}");
        assert!(!problems(&text).contains("s3cret"), "{}", problems(&text));
    }
    // Passwords alone are hidden where they have a place of their own.
    let told = problems("[sink.x]\nkind = 'file'\npath = 'x'\nurl = \"amqp://u:s3cret@h\"");
    assert!(told.contains("url = \"amqp://u:***@h\""), "{told}");
}

#[test]
fn a_name_that_cannot_be_a_sinks_is_told() {
    let text = "[sink.'a b']\nkind = 'file'\npath = 'x'\n";
    assert!(told(text)[0].contains("the name of a sink must be"), "{:?}", told(text));
    assert!(told("[sinc.x]\nkind = 'file'\n")[0].contains("did you mean [sink]?"));
}

/// A payload without a form in line protocol.
#[derive(Debug)]
struct Notes;

impl Payload for Notes {
    fn name(&self) -> &'static str {
        "note"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(change.revision.to_string())
    }
}

#[test]
fn a_sink_that_cannot_take_the_payload_of_a_feed_is_told_with_its_place() {
    let text = format!("{ALL}[view.notes]\nsink = ['one', 'hook', 'broker',\n'lines', 'file']\n");
    let file = ConfigFile { name: "consort.toml".into(), text };
    let (mut problems, mut found) = (Vec::new(), Vec::new());
    let catalog = Config::default().catalog;
    let document = document::read(&file, &catalog, &mut problems);
    let config = Config::resolve(&super::file(ALL)).unwrap_or_else(|told| panic!("{told}"));
    let read = config.sinks().to_vec();
    let names = read.iter().map(|sink| sink.name.as_str()).collect();
    let known = Sinks { names, read: read.clone() };
    let is_view = |declared: &&Declaration| declared.spec.table == "view";
    let view = document.declarations.iter().find(is_view).unwrap();
    let mut reader = Reader::new(view, &catalog, &document.spots, &mut found);
    assert_eq!(read_sinks(&mut reader, &known, &Notes), ["hook", "broker", "file"]);
    assert_eq!(read_sinks(&mut reader, &known, &crate::rows::Rows).len(), 5);
    let told = Problems::new(found).to_string();
    let why = "writes line protocol: it cannot carry changes of the kind 'note'";
    let one = format!(
        "consort.toml:38:9: 'sink' in [view.notes]: the sink 'one' {why}; name a sink of kind \
         \"webhook\", \"amqp\" or \"file\""
    );
    let lines = format!(
        "consort.toml:39:1: 'sink' in [view.notes]: the sink 'lines' {why}; set 'format' in \
         [sink.lines] to \"ndjson\""
    );
    assert!(told.contains(&one) && told.contains(&lines), "{told}");
}

#[test]
fn a_sink_of_states_takes_no_rows_of_views() {
    let text = "[sink.x]\nkind = 'file'\npath = 'a'\nsend = 'states'\n\
                [stream.s]\nform = 'line'\n[view.v]\nfrom = 's'\ncount = true\nwindow = '1m'\nsink = 'x'\n";
    let expected = "11:8: 'sink' in [view.v]: the sink 'x' takes states: changes of the kind 'row' have none; leave \
                    'send' out in [sink.x], or name another sink";
    assert_eq!(told(text), [expected]);
}
