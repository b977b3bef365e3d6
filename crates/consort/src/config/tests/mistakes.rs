//! Every mistake in a stream or a view, alone, with its exact message.

use super::declarations::{STREAM, told};

/// What stands in `[stream.x]` below `fields = { a = 'int', b = 'text', c = 'int?' }`, from line 3 on.
const STREAM_MISTAKES: &[(&str, &str)] = &[
    ("kee = 'a'", "3:1: unknown setting 'kee' in [stream.x]; did you mean 'key'?"),
    ("by = ['a']", "3:1: unknown setting 'by' in [stream.x]; it belongs in [view.NAME]"),
    ("password = 'a'", "3:1: unknown setting 'password' in [stream.x]"),
    ("key = 1", "3:7: 'key' in [stream.x] must be text in quotes, not a number"),
    ("key = []", "3:7: 'key' in [stream.x] must name at least one field"),
    ("key = ['a', 1]", "3:13: 'key' in [stream.x] must be text in quotes, not a number"),
    ("key = ['a', 'bb']", "3:13: 'key' in [stream.x]: unknown field 'bb'; there are 'a', 'b', 'c'"),
    ("key = ['a', 'a']", "3:13: 'key' in [stream.x]: 'a' comes twice"),
    (
        "key = 'c'",
        "3:7: 'key' in [stream.x] must be fields that every event has, but 'c' may be absent",
    ),
    (
        "form = 'lines'",
        "3:8: 'form' in [stream.x] must be \"json\" or \"line\" or \"line-loose\", not \"lines\"; did you mean \"line\"?",
    ),
    (
        "form = 'line'\ntime = 'a'",
        "4:1: 'time' in [stream.x]: the time of a line is its timestamp, '_time': leave it out",
    ),
    (
        "form = 'line'\nroute = 'POST /x'",
        "4:1: 'route' in [stream.x]: it takes JSON, and this stream's form is lines, which go to /streams/x",
    ),
    (
        "form = 'line'\namqp = { url = 'amqp://h', queue = 'q' }",
        "4:1: 'amqp' in [stream.x]: messages of queues are JSON, and this stream's form is lines: declare another stream",
    ),
    (
        "udp = '127.0.0.1:8089'",
        "3:1: 'udp' in [stream.x]: datagrams hold lines: add form = \"line\" (or \"line-loose\")",
    ),
    (
        "form = 'line'\nudp = '0.0.0.0:8089'",
        "4:7: 'udp' in [stream.x]: other machines can reach 0.0.0.0:8089, so programs on them could send events; list the networks that may send, as in udp_allow = [\"10.0.0.0/8\"], or listen on 127.0.0.1",
    ),
    (
        "form = 'line'\nudp = '127.0.0.1:8089'\nudp_allow = ['10.0.0.0/40']",
        "5:13: 'udp_allow' in [stream.x] must be a list of networks and addresses, as in [\"10.0.0.0/8\", \"192.168.1.7\"], not \"10.0.0.0/40\"",
    ),
    (
        "form = 'line'\nudp_allow = ['10.0.0.0/8']",
        "4:1: 'udp_allow' in [stream.x]: it has no use without 'udp'",
    ),
    (
        "form = 'line'\nudp = '127.0.0.1:8089'\n[stream.y]\nform = 'line'\nudp = '127.0.0.1:8089'",
        "7:7: 'udp' in [stream.y]: [stream.x] has 127.0.0.1:8089 already",
    ),
    ("id = 'no'", "3:6: 'id' in [stream.x]: unknown field 'no'; there are 'a', 'b', 'c'"),
    ("id = ['a']", "3:6: 'id' in [stream.x] must be text in quotes, not a list"),
    (
        "time = 'b'",
        "3:8: 'time' in [stream.x] must be a field of type int, nanoseconds since the beginning of 1970, but 'b' is text",
    ),
    (
        "ids_for = '8d'",
        "3:11: 'ids_for' in [stream.x] must be a duration from 1m to 7d, such as \"10m\", \"2h\" or \"3d\", not \"8d\"",
    ),
    (
        "retain = 7",
        "3:10: 'retain' in [stream.x] must be a duration from 1m to 3650d, such as \"10m\", \"2h\" or \"3d\", not a number",
    ),
    (
        "gate = 'brekaer'",
        "3:8: 'gate' in [stream.x] must be \"adaptive\" or \"breaker\" or \"off\", not \"brekaer\"; did you mean \"breaker\"?",
    ),
    (
        "unknown_fields = 'drop'",
        "3:18: 'unknown_fields' in [stream.x] must be \"reject\" or \"ignore\", not \"drop\"",
    ),
    (
        "partitions = 0",
        "3:14: 'partitions' in [stream.x] must be a whole number from 1 to 1024, not 0",
    ),
    (
        "route = '/x'",
        "3:9: 'route' in [stream.x]: write a method and a path, as in \"GET /resorts/{resort}/skiers\"",
    ),
    (
        "route = 'PUT /x'",
        "3:9: 'route' in [stream.x]: 'PUT' cannot be the method of a route: use GET for views and POST for streams",
    ),
    (
        "route = 'GET /x'",
        "3:9: 'route' in [stream.x] must begin with POST, not GET: a stream takes events",
    ),
    (
        "route = 'POST /x/{d}'",
        "3:9: 'route' in [stream.x]: unknown field 'd'; there are 'a', 'b', 'c'",
    ),
    (
        "route = 'POST /views/{a}'",
        "3:9: 'route' in [stream.x] cannot begin with '/views': such paths are Consort's own",
    ),
    (
        "amqp = 'amqp://h'",
        "3:8: 'amqp' in [stream.x] must be a table, as in { url = \"amqp://host\", queue = \"rides\" }, not text",
    ),
    (
        "amqp = { queue = 'q' }",
        "3:1: [stream.x.amqp] needs 'url': the RabbitMQ that has the queue (where [engine] has a 'broker', that is the default)",
    ),
    (
        "amqp = { url = 'amqp://h' }",
        "3:1: [stream.x.amqp] needs 'queue': the queue that the stream reads",
    ),
    (
        "amqp = { url = 'amqp://h', qeue = 'q' }",
        "3:28: unknown setting 'qeue' in [stream.x.amqp]; did you mean 'queue'?",
    ),
    (
        "[stream.x.amqp]\nurl = 'http://h'\nqueue = 'q'",
        "4:7: 'url' in [stream.x.amqp] must be a URL that begins with amqp:// or amqps://",
    ),
    (
        "[stream.x.amqp]\nurl = 'amqp://h'\nqueue = ''",
        "5:9: 'queue' in [stream.x.amqp] must be a name of 1 to 255 bytes, not of 0",
    ),
];

#[test]
fn every_mistake_in_a_stream_is_told() {
    for (text, expected) in STREAM_MISTAKES {
        let text = format!("[stream.x]\nfields = {{ a = 'int', b = 'text', c = 'int?' }}\n{text}");
        assert_eq!(told(&text), [*expected], "in\n{text}");
    }
}

/// Whole files.
const DECLARATION_MISTAKES: &[(&str, &str)] = &[
    ("stream = 1", "1:1: 'stream' must be tables: write [stream.NAME] for each stream"),
    (
        "[stream]\nkey = 'a'",
        "2:1: 'key' in [stream] must be a table: give the stream a name and write [stream.NAME] above it",
    ),
    ("[[view.x]]", "1:8: 'x' in [view] must be a table: write [view.x] on a line of its own"),
    (
        "[stream.'a b']\nfields.a = 'int'",
        "1:9: the name of a stream must be 1 to 64 characters of letters, digits, '_' and '-', not \"a b\"",
    ),
    (
        "[stream.x]",
        "1:9: [stream.x] needs 'fields': what each event has, as in fields = { user = \"int\", name = \"text\" }",
    ),
    (
        "[stream.x]\nfeilds = { a = 'int' }",
        "2:1: unknown setting 'feilds' in [stream.x]; did you mean 'fields'?",
    ),
    ("[stream.x]\nfields = {}", "2:10: 'fields' in [stream.x] must have at least one field"),
    (
        "[stream.x]\nfields = ['a']",
        "2:10: 'fields' in [stream.x] must be a table of names and types, as in { user = \"int\", name = \"text\" }, not a list",
    ),
    (
        "[stream.x]\nfields = { a = 'integer' }",
        "2:16: 'fields' in [stream.x]: the type of 'a': 'integer' is no type: use int, text, bool or decimal(DIGITS)",
    ),
    (
        "[stream.x]\nfields = { a = 'int 5..1' }",
        "2:16: 'fields' in [stream.x]: the type of 'a': the range 5..1 is empty: its end comes before its beginning",
    ),
    (
        "[stream.x]\nfields = { a = 1 }",
        "2:16: 'fields' in [stream.x]: the type of 'a' must be text in quotes, not a number",
    ),
    (
        "[stream.x]\nfields = { 'a b' = 'int' }",
        "2:12: 'fields' in [stream.x]: the name of a field must be 1 to 64 characters of letters, digits, '_', '-' and '.', not \"a b\"",
    ),
    (
        "[view.v]\nfrom = 'x'\ncount = true",
        "2:8: 'from' in [view.v]: no stream is called 'x'; declare it with [stream.x]",
    ),
];

#[test]
fn every_mistake_around_declarations_is_told() {
    for (text, expected) in DECLARATION_MISTAKES {
        assert_eq!(told(text), [*expected], "in\n{text}");
    }
}

/// What stands in `[view.v]`, from line 4 on.
const VIEW_MISTAKES: &[(&str, &str)] = &[
    (
        "from = 'rids'\ncount = true",
        "4:8: 'from' in [view.v]: no stream is called 'rids'; did you mean 'rides'?",
    ),
    (
        "from = 'payments'\ncount = true",
        "4:8: 'from' in [view.v]: no stream is called 'payments'; there are 'rides'",
    ),
    (
        "from = 'rides'\ncount = true\ngrace = '1s'",
        "6:1: 'grace' in [view.v]: it is for windows, and there is no 'window', as in window = \"1m\"",
    ),
    (
        "from = 'rides'\ncount = true\nwindow = '1m'\nlate = 'ammend'",
        "7:8: 'late' in [view.v] must be \"amend\" or \"list\", not \"ammend\"; did you mean \"amend\"?",
    ),
    (
        "from = 'rides'\ncount = true\nwindow = '1m'\nsink = 'influx'",
        "7:8: 'sink' in [view.v]: no sink is called 'influx'; declare it with [sink.influx]",
    ),
    (
        "from = 'rides'\ncount = true\nwindow = '1m'\nsink = 'influx1'\n[sink.influx]\nkind = 'file'\npath = 'a'",
        "7:8: 'sink' in [view.v]: no sink is called 'influx1'; did you mean 'influx'?",
    ),
    (
        "from = 'rides'\ncount = true\nwindows = '1m'",
        "6:1: unknown setting 'windows' in [view.v]; did you mean 'window'?",
    ),
    ("from = 1\ncount = true", "4:8: 'from' in [view.v] must be text in quotes, not a number"),
    ("count = true", "3:7: [view.v] needs 'from': the stream that it is kept of"),
    (
        "from = 'rides'",
        "3:7: [view.v] needs one of 'count', 'sum', 'min', 'max', 'last', 'distinct', 'set', 'distinct_approx'",
    ),
    (
        "from = 'rides'\ndistict = 'lift'",
        "5:1: unknown setting 'distict' in [view.v]; did you mean 'distinct'?",
    ),
    (
        "from = 'rides'\ncount = true\nkey = 'lift'",
        "6:1: unknown setting 'key' in [view.v]; it belongs in [stream.NAME]",
    ),
    (
        "from = 'rides'\ncount = true\nsum = 'lift'",
        "6:1: 'sum' in [view.v]: there is 'count' already; a view keeps one of them: declare another view",
    ),
    (
        "from = 'rides'\ncount = false",
        "5:9: 'count' in [view.v] must be true; leave it out otherwise",
    ),
    ("from = 'rides'\ncount = 'lift'", "5:9: 'count' in [view.v] must be true or false, not text"),
    (
        "from = 'rides'\nsum = 'season'",
        "5:7: 'sum' in [view.v] must be of type int or decimal, but 'season' is text",
    ),
    (
        "from = 'rides'\nsum = 'lfit * 10'",
        "5:7: 'sum' in [view.v]: unknown field 'lfit'; there are 'lift', 'season', 'skier', 'vip', 'wait'; did you mean 'lift'?",
    ),
    (
        "from = 'rides'\nsum = 'lift * season'",
        "5:7: 'sum' in [view.v]: '*' cannot be applied to int and text",
    ),
    ("from = 'rides'\nsum = ['lift']", "5:7: 'sum' in [view.v] must be text in quotes, not a list"),
    (
        "from = 'rides'\ndistinct = []",
        "5:12: 'distinct' in [view.v] must name at least one expression",
    ),
    (
        "from = 'rides'\ndistinct = ['lift', 'skir']",
        "5:21: 'distinct' in [view.v]: unknown field 'skir'; there are 'lift', 'season', 'skier', 'vip', 'wait'; did you mean 'skier'?",
    ),
    (
        "from = 'rides'\ncount = true\nwhere = 'lift'",
        "6:9: 'where' in [view.v] must be of type bool, but 'lift' is int",
    ),
    (
        "from = 'rides'\ncount = true\nwhere = 'size(vip) > 1'",
        "6:9: 'where' in [view.v]: 'size' cannot be applied to bool",
    ),
    (
        "from = 'rides'\ncount = true\nby = 'skier'",
        "6:6: 'by' in [view.v] must be a list of fields, as in [\"user\", { hour = \"time / 60\" }], not text",
    ),
    (
        "from = 'rides'\ncount = true\nby = ['season', 'skeir']",
        "6:17: 'by' in [view.v]: unknown field 'skeir'; there are 'lift', 'season', 'skier', 'vip', 'wait'; did you mean 'skier'?",
    ),
    (
        "from = 'rides'\ncount = true\nby = ['lift / 60']",
        "6:7: 'by' in [view.v]: unknown field 'lift / 60'; there are 'lift', 'season', 'skier', 'vip', 'wait'; an expression needs a name: { name = \"lift / 60\" }",
    ),
    (
        "from = 'rides'\ncount = true\nby = ['lift', { lift = 'skier / 2' }]",
        "6:15: 'by' in [view.v]: 'lift' comes twice",
    ),
    (
        "from = 'rides'\ncount = true\nby = [{ a = 'lift', b = 'skier' }]",
        "6:7: 'by' in [view.v] must have tables of one name each, as in { hour = \"time / 60\" }",
    ),
    ("from = 'rides'\ncount = true\nby = [{ a = 'lift +' }]", "6:13: 'by' in [view.v]: "),
    (
        "from = 'rides'\ncount = true\nby = [{ a = 1 }]",
        "6:13: 'by' in [view.v] must be text in quotes, not a number",
    ),
    (
        "from = 'rides'\ncount = true\nby = [['lift']]",
        "6:7: 'by' in [view.v] must not have a list in its list",
    ),
    (
        "from = 'rides'\ncount = true\nroute = 'POST /x'",
        "6:9: 'route' in [view.v] must begin with GET, not POST: a view is asked",
    ),
    (
        "from = 'rides'\ncount = true\nroute = 'GET /x/{lift}'",
        "6:9: 'route' in [view.v]: 'lift' is not in 'by'; there is no 'by'",
    ),
    (
        "from = 'rides'\ncount = true\nby = ['season', 'lift']\nroute = ['GET /x', 'GET /x/{lfit}']",
        "7:20: 'route' in [view.v]: 'lfit' is not in 'by'; did you mean 'lift'?",
    ),
    (
        "from = 'rides'\ncount = true\nby = ['season', 'lift']\nroute = 'GET /x/{wait}'",
        "7:9: 'route' in [view.v]: 'wait' is not in 'by'; there are 'season', 'lift'",
    ),
    (
        "from = 'rides'\ncount = true\nby = ['season', 'lift']\nroute = 'GET /x/{lift}'",
        "7:9: 'route' in [view.v]: 'season' is left out of the path: groups are ordered by 'season', 'lift', so give the first of them, or all",
    ),
    (
        "from = 'rides'\ncount = true\nanswer = 'value'",
        "6:1: 'answer' in [view.v]: it is the shape of answers on routes, and there is no 'route'",
    ),
    (
        "from = 'rides'\ncount = true\nroute = 'GET /x'\nanswer = 'count'",
        "7:10: 'answer' in [view.v] must be \"value\", or a table of names to \"value\" or fields of 'by', as in { total = \"value\" }",
    ),
    (
        "from = 'rides'\ncount = true\nroute = 'GET /x'\nanswer = {}",
        "7:10: 'answer' in [view.v] must be \"value\", or a table of names to \"value\" or fields of 'by', as in { total = \"value\" }",
    ),
    (
        "from = 'rides'\ncount = true\nby = ['lift']\nroute = 'GET /x'\nanswer = { n = 'value', l = 'lfit' }",
        "8:29: 'answer' in [view.v]: 'lfit' is not in 'by'; did you mean 'lift'?",
    ),
];

#[test]
fn every_mistake_in_a_view_is_told() {
    for (text, expected) in VIEW_MISTAKES {
        let text = format!("{STREAM}[view.v]\n{text}");
        match told(&text).as_slice() {
            [one] if expected.ends_with(": ") => assert!(one.starts_with(expected), "{one}"),
            all => assert_eq!(all, [*expected], "in\n{text}"),
        }
    }
}
