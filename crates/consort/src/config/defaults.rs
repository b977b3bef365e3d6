//! `consort config --defaults`: the whole table of settings as a config file to start from.

use std::fmt::Write as _;

use super::{Config, schema};

/// A stream and a view with every setting; with the leading "# " taken away it can be used. Only the file
/// declares them.
const EXAMPLE: &str = r#"

# Streams of events and the views that are kept of them: this file declares them, each by a table with
# its name. Take away the '#' and the blank at the beginning of each line below for an example.

# [stream.rides]
# fields = { ride = "text 1..36", rider = "int 1..100000", city = "text 1..64", paid = "decimal(2)", wait = "int?", at = "int" }
#                                        # int, text, bool, decimal(DIGITS); '?': may be absent; a range
# key = "rider"                          # the field, or fields, by which events are spread; default: the whole event
# id = "ride"                            # the field that tells an event from its repeats; default: only Idempotency-Key
# ids_for = "1h"                         # for how long repeats are known: 1m to 7d
# time = "at"                            # an int field with the event's time in nanoseconds since 1970; default: its arrival
# retain = "7d"                          # how long the log keeps what was applied
# route = "POST /cities/{city}/rides"    # a path beside /streams/rides; its fields join the body's
# gate = "adaptive"                      # against overload: "adaptive", "breaker" or "off"
# unknown_fields = "reject"              # or "ignore"
# partitions = 32                        # default: partitions of [engine]; fixed once the stream exists
# amqp = { url = "amqp://user:password@host/vhost", queue = "rides" }  # a RabbitMQ queue to read as well

# [stream.lines]
# form = "line"                          # InfluxDB line protocol; "line-loose" takes bare words too; default: "json"
# key = ["host", "region"]               # tags or fields; without 'fields' those that are named here and in views are texts
# udp = "127.0.0.1:8089"                 # datagrams of lines, beside /streams/lines, /write?db=lines and /api/v2/write?bucket=lines
# udp_allow = ["127.0.0.0/8"]            # who may send; needed where other machines can reach the address
# udp_buffer = "8MiB"                    # what the kernel may hold of a burst

# [view.paid_per_city]
# from = "rides"
# by = ["city", { wait_minutes = "wait / 60" }]   # one value for each group; default: one for all
# sum = "paid"                           # or count = true, min, max, last, distinct, set, distinct_approx
# where = "wait < 3600 && rider != 7"    # which events count; default: all
# route = ["GET /cities/{city}/paid", "GET /cities/{city}/paid/{wait_minutes}"]  # beside /views/paid_per_city
# answer = { total = "value", town = "city" }     # its shape on those routes; "value": just the value

# [once.items]                           # GET /once/items/PATH?QUERY: asked of the upstream once, for all nodes
# upstream = "http://127.0.0.1:9000/items/{path}?{query}"
# fresh_for = "60s"                      # how long an answer is fresh, from its publication on
# stale_for = "0s"                       # how long after that it is served while one request refreshes it
# stale_if_error = "0s"                  # how long it is served if the upstream fails
# errors_for = "1s"                      # how long a failure, or an answer such as 404, is kept for those who ask later
# honour = true                          # the upstream's Cache-Control decides, where it says something
# headers = ["accept-language"]          # headers of requests that the upstream gets, and that split the answers; default: none
# max_value = "1MiB"                     # the largest answer
# timeout = "10s"                        # how long the upstream may take in all
# connect_timeout = "2s"
# wait = "30s"                           # how long a request waits for its answer
# lease = "3s"                           # how long a node that computes may be silent before another takes over
# on_error = "keep"                      # a failure is everybody's; "reelect": on every other node one more tries
# refresh_early = true                   # somewhat before an answer ceases to be fresh, one request refreshes it
"#;

/// A config file with every setting: those with a default set to it, the others commented out.
pub fn commented_defaults() -> String {
    let mut text = String::from(
        "# Consort's settings, each with its default. Lines that begin with '#' and a name have none.\n\
         # Every setting can also be given as an environment variable, named beside it, or with\n\
         # `--set table.name=value`. Flags win over the environment, the environment over this file.\n",
    );
    let config = Config::default();
    for (table, meaning) in schema::TABLES {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\n# {meaning}\n[{table}]\n");
        for setting in schema::all().filter(|setting| setting.table() == table) {
            text.push('\n');
            for line in setting.doc {
                let _ = writeln!(text, "# {line}");
            }
            let name = setting.leaf();
            let line = match (setting.show)(&config) {
                Some(value) => format!("{name} = {value}"),
                None => format!("# {name} = {}", setting.example),
            };
            let _ = writeln!(text, "{line:<44} # {}", setting.variable());
        }
    }
    text.push_str(EXAMPLE);
    text
}
