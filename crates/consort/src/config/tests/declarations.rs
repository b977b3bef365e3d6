//! Streams and views: what is read of them, how mistakes in several places go together, and what is never
//! shown.

use consort_views::{Aggregate, Answer, Method, Unknown, view::Shown};

use super::*;

pub(super) const STREAM: &str = "[stream.rides]\nfields = { skier = 'int 1..9', lift = 'int', season = 'text', wait = 'int?', vip = 'bool' }\n";

fn good(text: &str) -> Config {
    Config::resolve(&file(text)).unwrap_or_else(|problems| panic!("{problems}\nin\n{text}"))
}

/// The messages without the excerpts below them.
pub(super) fn told(text: &str) -> Vec<String> {
    let told = problems(text);
    let first = told.lines().filter_map(|line| line.strip_prefix("consort.toml:"));
    first.map(str::to_owned).collect()
}

#[test]
fn the_example_of_the_lifts_is_good() {
    let config = good(include_str!("../../../../../examples/lifts.toml"));
    assert_eq!(config.engine.url.reveal(), "embedded:./lifts-data");
    let expected = [
        "stream 'lift_rides': 7 fields, 4 partitions, key skier, POST /skiers/{resort}/seasons/{season}/days/{day}/skiers/{skier}",
        "view 'skier_days': distinct(day) by skier, season",
        "view 'skier_vertical': sum(liftID * 10) by skier, season, day",
        "view 'skier_lifts': set(liftID) by skier, season, day",
        "view 'resort_skiers': distinct(skier) by resort, season, day, GET /resorts/{resort}/seasons/{season}/days/{day}/skiers, GET /resorts/{resort}/seasons/{season}/day/{day}/skiers",
        "view 'lift_rides_per_day': count by liftID, season, day",
        "view 'rides_per_hour': count by season, day, hour = time / 60",
        "view 'resort_skier_vertical': sum(liftID * 10) by resort, season, day, skier, GET /skiers/{resort}/seasons/{season}/days/{day}/skiers/{skier}",
    ];
    assert_eq!(config.declared(), expected);
}

#[test]
fn every_setting_of_a_stream_is_read() {
    let text = "\
[engine]
url = 'redis://h'
broker = 'amqp://u:pw@broker/v'
partitions = 7
[stream.all]
fields = { b = 'int', a = 'text 1..3', c = 'decimal(2)?' }
key = ['b', 'a']
id = 'a'
ids_for = '7d'
time = 'b'
retain = '90m'
route = 'POST /x/{a}/{b}'
gate = 'breaker'
unknown_fields = 'ignore'
partitions = 3
[stream.all.amqp]
queue = 'q'
[stream.few]
fields.x = 'int'
gate = 'off'
amqp = { url = 'amqps://other', queue = 'r' }
";
    let config = good(text);
    let all = config.definitions().stream("all").unwrap();
    let names: Vec<&str> = all.schema.fields().iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["a", "b", "c"], "the order does not depend on the file's");
    assert_eq!(
        (&all.key[..], all.id, all.time, all.partitions),
        (&[1, 0][..], Some(0), Some(1), 3)
    );
    assert_eq!(
        (all.ids_for, all.retain),
        (Duration::from_secs(604_800), Duration::from_secs(5400))
    );
    let route = all.route.as_ref().unwrap();
    assert_eq!((route.method, route.fields.len()), (Method::Post, 2));
    assert!(all.schema.take(br#"{"a":"x","b":1,"more":2}"#).is_ok(), "{:?}", Unknown::Ignore);
    let settings = &config.streams()["all"];
    assert_eq!(settings.gate, Gate::Breaker);
    let source = settings.amqp.as_ref().unwrap();
    assert_eq!((source.url.reveal(), &*source.queue), ("amqp://u:pw@broker/v", "q"));

    let few = config.definitions().stream("few").unwrap();
    assert_eq!((few.partitions, few.key.len(), few.id, few.time), (7, 0, None, None));
    assert_eq!(
        (few.ids_for, few.retain),
        (Duration::from_secs(3600), Duration::from_secs(604_800))
    );
    assert!(few.schema.take(br#"{"x":1,"more":2}"#).is_err());
    let settings = &config.streams()["few"];
    assert_eq!(settings.gate, Gate::Off);
    assert_eq!(settings.amqp.as_ref().unwrap().url.reveal(), "amqps://other");
    assert_eq!(good(STREAM).streams()["rides"], StreamSettings::default());
}

#[test]
fn every_setting_of_a_view_is_read() {
    let text = format!(
        "{STREAM}
[view.total]
from = 'rides'
count = true
[view.one]
from = 'rides'
by = []
last = 'lift'
route = 'GET /last'
[view.full]
from = 'rides'
by = ['season', {{ half = 'lift / 2' }}, 'skier']
distinct_approx = ['lift', 'vip']
where = \"vip && season == 'x'\"
route = ['GET /a/{{half}}/{{season}}', 'GET /b/{{skier}}/{{half}}/{{season}}', 'GET /c']
answer = {{ z = 'value', a = 'half' }}
[view.bare]
from = 'rides'
max = 'season'
route = 'GET /max'
answer = 'value'
"
    );
    let config = good(&text);
    let view = |name| config.definitions().view(name).unwrap();
    assert!(view("total").by.is_empty() && view("one").by.is_empty());
    assert_eq!(view("total").aggregate, Aggregate::Count);
    let full = view("full");
    assert_eq!(full.by[1].name, "half");
    assert_eq!(full.routes.len(), 3);
    let shape = vec![("z".to_owned(), Shown::Value), ("a".to_owned(), Shown::Group(1))];
    assert_eq!(full.answer, Some(Answer::Object(shape)));
    assert_eq!(view("bare").answer, Some(Answer::Bare));
    let line = "view 'full': distinct_approx(lift, vip) by season, half = lift / 2, skier where vip && season == 'x', GET /a/{half}/{season}, GET /b/{skier}/{half}/{season}, GET /c";
    assert!(config.declared().iter().any(|declared| declared == line), "{:?}", config.declared());
}

#[test]
fn routes_that_are_in_each_others_way_are_told_with_both() {
    let view = |name: &str, route: &str| {
        format!(
            "[view.{name}]\nfrom = 'rides'\nby = ['lift', 'skier']\ncount = true\nroute = {route}\n"
        )
    };
    let post = format!("{STREAM}route = 'POST /x/{{lift}}'\n");
    good(&format!(
        "{post}{}",
        view("a", "['GET /x/{lift}', 'GET /x', 'GET /x/{lift}/y', 'GET /x/y']")
    ));
    good(&format!("{STREAM}{}{}", view("a", "'GET /{lift}'"), view("b", "'GET /{lift}/{skier}'")));
    // Other names at the same place, where the paths go on differently.
    let other =
        "[view.b]\nfrom = 'rides'\nby = ['skier']\ncount = true\nroute = 'GET /x/{skier}/b'\n";
    good(&format!("{STREAM}{}{other}", view("a", "['GET /x/{lift}', 'GET /x/{lift}/{skier}']")));
    let same = told(&format!("{STREAM}{}{}", view("a", "'GET /x'"), view("b", "'GET /x'")));
    assert_eq!(same, ["12:9: 'route' in [view.b]: [view.a] has 'GET /x' already"]);
    let renamed =
        "[view.b]\nfrom = 'rides'\nby = ['skier']\ncount = true\nroute = 'GET /x/{skier}'\n";
    let alike = told(&format!("{STREAM}{}{renamed}", view("a", "'GET /x/{lift}'")));
    let expected =
        "12:9: 'route' in [view.b]: [view.a] has 'GET /x/{lift}' already, which is the same";
    assert_eq!(alike, [expected]);
    let twice = told(&format!("{STREAM}{}", view("a", "['GET /x', 'GET /x']")));
    assert_eq!(twice, ["7:20: 'route' in [view.a]: [view.a] has 'GET /x' already"]);
    for own in ["healthz", "cluster/nodes", "streams/{lift}", "console"] {
        let told = told(&format!("{STREAM}{}", view("a", &format!("'GET /{own}'"))));
        assert!(told.len() == 1 && told[0].contains("such paths are Consort's own"), "{told:?}");
    }
}

#[test]
fn all_mistakes_are_told_and_none_twice() {
    let text = "\
[stream.rides]
fields = { lift = 'itn', skier = 'int', season = 'text' }
key = 'lift'
gaet = 'off'
[view.a]
from = 'rides'
by = ['lift', 'skeir', { x = 'lift / 60' }]
sum = 'lift * season'
where = 'season > skier'
route = 'GET /{lift}/{skier}'
[view.b]
from = 'ridse'
by = ['anything']
sum = 'what + ever'
route = 'GET /b/{anything}'
[view.c]
from = 'rides'
bby = ['lift']
count = true
rout = 'GET /c'
answer = { a = 'lift' }
[view.d]
from = 'rides'
by = ['lift', 'skier']
count = true
route = 'GET /{lift}/{y}/d'
";
    let expected = [
        "2:19: 'fields' in [stream.rides]: the type of 'lift': 'itn' is no type: use int, text, bool or decimal(DIGITS)",
        "4:1: unknown setting 'gaet' in [stream.rides]; did you mean 'gate'?",
        "7:15: 'by' in [view.a]: unknown field 'skeir'; there are 'season', 'skier'; did you mean 'skier'?",
        "9:9: 'where' in [view.a]: '>' cannot be applied to text and int",
        "12:8: 'from' in [view.b]: no stream is called 'ridse'; did you mean 'rides'?",
        "18:1: unknown setting 'bby' in [view.c]; did you mean 'by'?",
        "20:1: unknown setting 'rout' in [view.c]; did you mean 'route'?",
        "26:9: 'route' in [view.d]: 'y' is not in 'by'; there are 'lift', 'skier'",
    ];
    assert_eq!(told(text), expected);
}

#[test]
fn a_line_that_is_not_toml_brings_no_other_messages_with_it() {
    for (text, expected) in [
        (
            "[stream.x]\nfields = { a = 'int', b = }\nkey = 'b'\n[view.v]\nfrom = 'x'\nsum = 'b'",
            "2:",
        ),
        ("[stream.x]\nfields = { a = 'int' }\n[view.v]\nfrom = x\nby = ['a']\nsum = 'a'", "4:"),
        ("[stream.x]\nfields = { a = 'int' }\n[view.v]\nfrom = 'x'\nsum = ", "5:"),
        ("[stream.x]\nfields = { a = 'int' }\n[stream.x.amqp]\nurl = amqp://h", "4:"),
    ] {
        let told = told(text);
        assert!(told.iter().all(|line| line.starts_with(expected)), "{told:?} in\n{text}");
        assert!(told[0].contains("not TOML"), "{told:?}");
    }
    let text = format!(
        "{STREAM}[view.v]\nfrom = 'rides\nby = ['skeir']\ncount = true\n[log]\nlevl = 'info'"
    );
    let told = told(&text);
    assert!(told.iter().any(|line| line.starts_with("8:1: unknown setting 'levl'")), "{told:?}");
}

#[test]
fn the_line_is_shown_with_a_mark_under_the_mistake() {
    let text = format!(
        "{STREAM}[view.v]\nfrom = 'rides'\nby = [\n  'season',\n  {{ hour = 'lfit / 60' }}, # of the day\n]\ncount = true"
    );
    let expected = "\
consort.toml:7:12: 'by' in [view.v]: unknown field 'lfit'; there are 'lift', 'season', 'skier', 'vip', 'wait'; did you mean 'lift'?
  7 |   { hour = 'lfit / 60' }, # of the day
    |            ^^^^^^^^^^^";
    assert_eq!(problems(&text), expected);
}

#[test]
fn secrets_of_streams_are_in_no_message() {
    let stream = "[stream.x]\nfields = { a = 'int' }\n";
    for text in [
        "amqp = { url = 'amqp://u:s3cret@h', qeue = 'q' }",
        "amqp = { url = 'amqp://u:s3cret@h', queue = 1 }",
        "amqp = { url = 's3cret', queue = 'q' }",
        "amqp = {\n  url = 'amqp://u:s3cret@',\n  queue = 'q'\n}",
        "amqp = {\n  ulr = 's3cret',\n  queue = 5\n}",
        "amqp = {\n  url = ['s3cret',\n  's3cret', 5],\n  queue = 5\n}",
        "amqp = 's3cret'",
        "amqp = ['s3cret']",
        "amqp = [\n's3cret'\n]",
        "ampq = { url = 's3cret' }",
        "[stream.x.amqp]\nurl = 's3cret'\nqueue = 'q'",
        "[stream.x.amqp]\nurl = \"amqp://u:s3cret@h\nqueue = 'q'",
        "[stream.x.amqp]\nurl = \"amqp://u:s3cret@\"\nqueue = 'q'",
        "key = 'b' # was amqp://u:s3cret@h",
        "password = 's3cret'",
        "route = 'GET /x' amqp.url = 's3cret'",
        "key = ['a',\n[http]\ntokens = ['s3cret']",
        "key = ['a', 5\n[http]\ntokens = [\n's3cret'\n]",
    ] {
        let told = problems(&format!("{stream}{text}"));
        assert!(!told.contains("s3cret"), "{told}\nin\n{text}");
    }
    let inline = "stream.x = { key = 'b', fields = { a = 'int' }, amqp = { url = 'amqp:s3cret', queue = 'q' } }";
    let told = problems(inline);
    assert!(!told.contains("s3cret"), "{told}");
    let config = good(&format!("{stream}amqp = {{ url = 'amqp://u:s3cret@h', queue = 'q' }}"));
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn only_the_file_declares_streams_and_views() {
    let sources = Sources {
        environment: environment(&[("CONSORT_STREAM_X_KEY", "a"), ("CONSORT_VIEW_V_SUM", "a")]),
        flags: vec![Flag::set("stream.x.key=a"), Flag::set("view.v.sum=b")],
        ..file("")
    };
    let told = Config::resolve(&sources).unwrap_err().to_string();
    let expected = "\
CONSORT_STREAM_X_KEY: streams, views, sinks, tenants and databases are declared in the config file
CONSORT_VIEW_V_SUM: streams, views, sinks, tenants and databases are declared in the config file
--set stream.x.key: streams, views, sinks, tenants and databases are declared in the config file
--set view.v.sum: streams, views, sinks, tenants and databases are declared in the config file";
    assert_eq!(told, expected);
}

#[test]
fn an_authority_may_be_for_the_broker_of_a_stream() {
    let stream = "[engine]\ntls_ca = '/nowhere'\n[stream.x]\nfields.a = 'int'\n";
    let secured = told(&format!("{stream}amqp = {{ url = 'amqps://h', queue = 'q' }}"));
    assert!(secured.len() == 1 && secured[0].contains("cannot read /nowhere"), "{secured:?}");
    let plain = told(&format!("{stream}amqp = {{ url = 'amqp://h', queue = 'q' }}"));
    assert!(plain.len() == 1 && plain[0].contains("has no use"), "{plain:?}");
    let wrong = told(&format!("{stream}amqp = {{ url = 'x', queue = 'q' }}"));
    assert!(wrong.len() == 1 && wrong[0].contains("must be a URL"), "{wrong:?}");
}

#[test]
fn fields_of_lines_are_declared_or_those_that_are_used() {
    let text = "\
[stream.events]
form = 'line-loose'
key = ['event_type', 'product']
udp = '127.0.0.1:8089'
[view.unique]
from = 'events'
by = ['event_type', { p = 'product' }]
distinct = ['value', '_time']
[view.hosts]
from = 'events'
by = ['_measurement']
where = '_time > 0'
set = 'host'
[stream.loads]
form = 'line'
fields = { host = 'text?', load = 'decimal(2)' }
key = 'host'
udp = '0.0.0.0:8090'
udp_allow = ['10.0.0.0/8', '192.168.1.7']
udp_buffer = '1MiB'
[view.peak]
from = 'loads'
max = 'load'
[stream.rides]
fields = { at = 'int', who = 'text' }
time = 'at'
[view.times]
from = 'rides'
by = [{ hour = '_time / 3600000000000' }]
distinct = '_time'
";
    let config = good(text);
    let events = config.definitions().stream("events").unwrap();
    let names: Vec<&str> = events.schema.fields().iter().map(|field| &*field.name).collect();
    assert_eq!(names, ["_measurement", "_time", "event_type", "host", "product", "value"]);
    assert!(events.schema.is_inferred());
    assert_eq!((events.time, &events.key[..]), (Some(1), &[2, 4][..]));
    let loads = config.definitions().stream("loads").unwrap();
    assert!(!loads.schema.is_inferred());
    let udp = config.streams()["loads"].udp.as_ref().unwrap();
    assert_eq!((udp.allow.len(), udp.buffer), (2, 1 << 20));
    assert_eq!(config.streams()["events"].udp.as_ref().unwrap().buffer, 8 << 20);
    let times = config.definitions().view("times").unwrap();
    assert_eq!(times.aggregate.expressions()[0].as_field(), Some(0));
}

#[test]
fn a_field_that_is_not_declared_can_only_be_compared() {
    let stream = "[stream.e]\nform = 'line'\n[view.u]\nfrom = 'e'\ndistinct = 'value'\n[view.v]\nfrom = 'e'\n";
    let cases = [
        ("sum = 'value'", "8:7: 'sum' in [view.v]"),
        ("max = 'value'", "8:7: 'max' in [view.v]"),
        ("distinct = 'value + 1'", "8:12: 'distinct' in [view.v]"),
        ("count = true\nwhere = 'value == \"x\"'", "9:9: 'where' in [view.v]"),
        ("count = true\nby = [{ x = 'value + \"y\"' }]", "9:13: 'by' in [view.v]"),
    ];
    for (view, place) in cases {
        let told = told(&format!("{stream}{view}"));
        let expected = format!(
            "{place}: 'value' is not declared: without 'fields' in the stream, 'key', 'id', 'by', 'distinct', \
             'set' and 'last' can name a field, which is a text; for more, declare all fields there, as in \
             fields = {{ value = \"int?\" }}"
        );
        assert_eq!(told, [expected], "{view}");
    }
}
