//! Every kind of mistake with its exact message, the order of the sources, and the defaults' way
//! back.

mod db;
mod declarations;
mod defaults;
mod glue;
mod mistakes;
mod node;
mod once;
mod part;
mod sinks;

use consort_server::Tokens;

use super::*;

fn file(text: &str) -> Sources {
    Sources {
        file: Some(ConfigFile { name: "consort.toml".into(), text: text.into() }),
        ..Sources::default()
    }
}

fn problems(text: &str) -> String {
    match Config::resolve(&file(text)) {
        Ok(config) => panic!("no problem was found in\n{text}\n{config:?}"),
        Err(problems) => problems.to_string(),
    }
}

fn environment(variables: &[(&str, &str)]) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Config text, and the message without the excerpt below it.
const MISTAKES: &[(&str, &str)] = &[
    ("[http]\nlisen = 1", "2:1: unknown setting 'lisen' in [http]; did you mean 'listen'?"),
    (
        "[http]\nnamespace = 'a'",
        "2:1: unknown setting 'namespace' in [http]; it belongs in [engine]",
    ),
    ("[http]\npassword = 'a'", "2:1: unknown setting 'password' in [http]"),
    ("[htpp]\nlisten = 1", "1:2: unknown table [htpp]; did you mean [http]?"),
    ("[steam.rides]\nkey = 1", "1:2: unknown table [steam]; did you mean [stream]?"),
    ("listen = 1", "1:1: unknown setting 'listen' outside of any table; it belongs in [http]"),
    ("http = 1", "1:1: 'http' must be a table: write [http] on a line of its own"),
    ("[[http]]", "1:3: 'http' must be a table: write [http] on a line of its own"),
    ("http.listen = true", "1:15: 'listen' in [http] must be text in quotes, not true or false"),
    ("[http]\nlisten = 7400", "2:10: 'listen' in [http] must be text in quotes, not a number"),
    (
        "[http]\nlisten = 'localhost'",
        "2:10: 'listen' in [http] must be an IP address and a port, such as \"127.0.0.1:7400\" or \"[::1]:7400\", not \"localhost\"",
    ),
    (
        "[http]\nlisten = '0.0.0.0:7400'",
        "2:10: 'listen' in [http]: other machines can reach 0.0.0.0:7400, and without access tokens their users could use this node; set 'tokens' or 'tokens_file', or listen on 127.0.0.1",
    ),
    (
        "[http]\nmax_body = '8MB'",
        "2:12: 'max_body' in [http] must be a size from 1KiB to 1GiB, such as \"64KiB\" or \"8MiB\", not \"8MB\"",
    ),
    (
        "[http]\nmax_body = 8",
        "2:12: 'max_body' in [http] must be a size from 1KiB to 1GiB, such as \"64KiB\" or \"8MiB\", not a number",
    ),
    (
        "[http]\nmax_body = '2GiB'",
        "2:12: 'max_body' in [http] must be a size from 1KiB to 1GiB, such as \"64KiB\" or \"8MiB\", not \"2GiB\"",
    ),
    (
        "[http]\nmax_connections = 0",
        "2:19: 'max_connections' in [http] must be a whole number from 1 to 100000, not 0",
    ),
    (
        "[http]\nbody_timeout = '10'",
        "2:16: 'body_timeout' in [http] must be a duration from 10ms to 1h, such as \"500ms\", \"10s\" or \"2m\", not \"10\"",
    ),
    (
        "[http]\nheader_timeout = '1ms'",
        "2:18: 'header_timeout' in [http] must be a duration from 10ms to 1h, such as \"500ms\", \"10s\" or \"2m\", not \"1ms\"",
    ),
    ("[http]\ntokens = 'abc'", "2:10: 'tokens' in [http] must be a list of texts, not text"),
    (
        "[http]\ntokens = [1]",
        "2:10: 'tokens' in [http] must be a list of texts in quotes, not a number",
    ),
    (
        "[http]\ntokens = ['hunter2']",
        "2:10: 'tokens' in [http] cannot be used: access token 1 is shorter than 16 characters; make one with `openssl rand -hex 32`",
    ),
    (
        "[http]\ntokens_file = '/nowhere/tokens'",
        "2:15: 'tokens_file' in [http]: /nowhere/tokens: cannot read it: No such file or directory (os error 2)",
    ),
    (
        "[http]\ntokens = ['0123456789abcdef']\ntokens_file = '/nowhere/tokens'",
        "3:15: 'tokens_file' in [http] and 'tokens' are both given; leave out one of them",
    ),
    (
        "[node]\nid = 'a b'",
        "2:6: 'id' in [node] must be 1 to 64 characters of letters, digits, '.', '_' and '-', not \"a b\"",
    ),
    ("[node]\ndata = ''", "2:8: 'data' in [node] must be the path of a folder, not empty"),
    (
        "[engine]\nnamespace = 'Big'",
        "2:13: 'namespace' in [engine] must be 1 to 32 characters of a-z, 0-9, '_' and '-', not \"Big\"",
    ),
    (
        "[engine]\npartitions = 1025",
        "2:14: 'partitions' in [engine] must be a whole number from 1 to 1024, not 1025",
    ),
    (
        "[engine]\npartitions = -1",
        "2:14: 'partitions' in [engine] must be a whole number from 1 to 1024, not -1",
    ),
    (
        "[engine]\npartitions = 1.5",
        "2:14: 'partitions' in [engine] must be a whole number from 1 to 1024, not a number with a fraction",
    ),
    (
        "[engine]\npartitions = 99999999999999999999",
        "2:14: 'partitions' in [engine] must be a whole number from 1 to 1024, not a number of more than 64 bits",
    ),
    (
        "[engine]\nshards = 257",
        "2:10: 'shards' in [engine] must be a whole number from 1 to 256, not 257",
    ),
    (
        "[engine]\ndurability = 'fsnyc'",
        "2:14: 'durability' in [engine] must be \"fsync\" or \"process\", not \"fsnyc\"; did you mean \"fsync\"?",
    ),
    (
        "[engine]\nallow_volatile = 'yes'",
        "2:18: 'allow_volatile' in [engine] must be true or false, not text",
    ),
    (
        "[engine]\nurl = 'rediz://h'",
        "2:7: 'url' in [engine] must be a URL that begins with embedded: or memory: or redis:// or rediss:// or redis-cluster:// or rediss-cluster://; did you mean redis://?",
    ),
    (
        "[engine]\nurl = 'embedded:'",
        "2:7: 'url' in [engine] must name a folder, such as \"embedded:./consort-data\"",
    ),
    (
        "[engine]\nurl = 'memory:x'",
        "2:7: 'url' in [engine] must be just \"memory:\": that engine keeps nothing anywhere",
    ),
    (
        "[engine]\nurl = 'redis-cluster://a:1,b'",
        "2:7: 'url' in [engine] must have the form redis-cluster://host1:port1,host2:port2,host3:port3",
    ),
    (
        "[engine]\nbroker = 'http://h'",
        "2:10: 'broker' in [engine] must be a URL that begins with amqp:// or amqps://",
    ),
    (
        "[engine]\nbroker = 'amqp://h/v'",
        "2:10: 'broker' in [engine] keeps the streams on RabbitMQ and needs the state on Redis, but 'url' is embedded:./consort-data; set 'url' to a redis:// address, or leave out 'broker'",
    ),
    (
        "[engine]\ntls_ca = '/nowhere/ca.pem'",
        "2:10: 'tls_ca' in [engine] has no use: neither 'url' nor 'broker' is over TLS; begin one with rediss:// or amqps://, or leave out 'tls_ca'",
    ),
    (
        "[engine]\nurl = 'rediss://h'\ntls_ca = '/nowhere/ca.pem'",
        "3:10: 'tls_ca' in [engine]: cannot read /nowhere/ca.pem: No such file or directory (os error 2)",
    ),
    (
        "[http]\nadvertise = 'example.org'",
        "2:13: 'advertise' in [http] must be a host and a port, such as \"node-a.example.org:7400\" or \"10.0.0.7:7400\", not \"example.org\"",
    ),
    (
        "[http]\nadvertise = 'http://h:1'",
        "2:13: 'advertise' in [http] must be a host and a port, such as \"node-a.example.org:7400\" or \"10.0.0.7:7400\", not \"http://h:1\"",
    ),
    (
        "[cluster]\nlease = '1ms'",
        "2:9: 'lease' in [cluster] must be a duration from 300ms to 5m, such as \"500ms\", \"10s\" or \"2m\", not \"1ms\"",
    ),
    (
        "[cluster]\nlease = '1s'",
        "2:9: 'heartbeat' in [cluster] must be at most a third of 'lease', so that one may be lost, but 'heartbeat' is 500ms and 'lease' is 1s",
    ),
    (
        "[cluster]\nlease = '5s'\nheartbeat = '2s'",
        "3:13: 'heartbeat' in [cluster] must be at most a third of 'lease', so that one may be lost, but 'heartbeat' is 2s and 'lease' is 5s",
    ),
    ("[log]\nformat = 'xml'", "2:10: 'format' in [log] must be \"text\" or \"json\", not \"xml\""),
    (
        "[log]\nlevel = 'inof'",
        "2:9: 'level' in [log] must be one of off, error, warn, info, debug, trace, or directives such as \"info,consort=debug\", not \"inof\"; did you mean \"info\"?",
    ),
    ("[http]\nlisten = ", "2:10: not TOML: a value is missing after '='"),
    ("[http]\nlisten = '127.0.0.1:1'\nlisten = '127.0.0.1:2'", "3:1: not TOML: duplicate key"),
];

#[test]
fn every_mistake_is_told_with_its_place_and_what_to_do() {
    for (text, expected) in MISTAKES {
        let told = problems(text);
        let first = told.lines().next().unwrap();
        assert_eq!(first, format!("consort.toml:{expected}"), "in\n{text}");
        assert_eq!(told.lines().count(), 3, "one problem with its excerpt in\n{text}\n{told}");
    }
}

#[test]
fn all_problems_are_told_from_top_to_bottom_with_their_lines() {
    let text = "[http]\n  listen = \"x:y\"\nmax_conections = 5\n\n[engine]\nurl = \"redis://:s3cret@h:port\"\npartitions\t= 0\n[log]\nlevel = info\n";
    let expected = r#"consort.toml:2:12: 'listen' in [http] must be an IP address and a port, such as "127.0.0.1:7400" or "[::1]:7400", not "x:y"
  2 |   listen = "x:y"
    |            ^^^^^
consort.toml:3:1: unknown setting 'max_conections' in [http]; did you mean 'max_connections'?
  3 | max_conections = ***
    | ^^^^^^^^^^^^^^
consort.toml:6:7: 'url' in [engine] must have the form redis://host:6379/0 (a password's special characters are written in percent code, '@' as %40)
  6 | url = "redis://:***@h:port"
    |       ^^^^^^^^^^^^^^^^^^^^^
consort.toml:7:14: 'partitions' in [engine] must be a whole number from 1 to 1024, not 0
  7 | partitions = 0
    |              ^
consort.toml:9:9: not TOML: text must stand in quotes
  9 | level = info
    |         ^^^^"#;
    assert_eq!(problems(text), expected);
}

#[test]
fn secrets_are_in_no_message_whatever_is_wrong_around_them() {
    let texts = [
        "[engine]\nurl = \"redis://user:s3cret@\"",
        "[engine]\nurl = \"redis://:s3cret\"",
        "[engine]\nurl = redis://:s3cret@h",
        "[engine]\nurl = \"redis://:s3cret@h",
        "[engine]\nulr = \"redis://:s3cret@h\"",
        "[engine]\nurl = [\"s3cret\"]",
        "[engine]\nbroker = \"s3cret\"",
        "[engine]\nbroker = \"s3cret:x\"",
        "engine = { url = \"redis://:s3cret@h\", partitons = 3 }",
        "[engine]\nurl = \"mysql://root:s3cret@h\"",
        "[engine]\nurl = \"embedded:./x\"\nbroker = \"amqp://u:s3cret@h\"",
        "[http]\ntokens = [\"s3cret\"]",
        "[http]\ntokens = [\n  \"s3cret\",\n  5,\n  \"s3cret\n]",
        "[http]\ntokens = \"s3cret\"",
        "[http]\ntokens = [s3cret]",
        "[http]\ntoken = \"s3cret\"",
        "[http]\nmax_body = 1 tokens = [\"s3cret\"]",
        "[http]\ntokens = [\"s3cret-s3cret-s3cret\"]\ntokens = [\"s3cret-s3cret-s3cret\"]",
    ];
    for text in texts {
        let told = problems(text);
        assert!(!told.contains("s3cret"), "{told}");
    }
    let overridden = Sources {
        environment: environment(&[
            ("CONSORT_ENGINE_URL", "redis://:s3cret"),
            ("CONSORT_HTTP_TOKENS", "s3cret"),
            ("CONSORT_PASSWORD", "s3cret"),
        ]),
        flags: vec![
            Flag::new("--broker", "engine.broker", "s3cret"),
            Flag::set("http.token=s3cret"),
            Flag::set("s3cret"),
        ],
        ..file("")
    };
    let told = Config::resolve(&overridden).unwrap_err();
    assert_eq!(told.count(), 6, "{told}");
    assert!(!format!("{told} {told:?} {overridden:?}").contains("s3cret"), "{told}");
}

#[test]
fn a_config_with_secrets_shows_none() {
    let text = "[http]\ntokens = ['s3cret-s3cret-s3cret']\n[engine]\nurl = 'redis://:s3cret@h'\nbroker = 'amqp://u:s3cret@h/v'";
    let sources = file(text);
    let config = Config::resolve(&sources).unwrap();
    assert_eq!(config.engine.url.reveal(), "redis://:s3cret@h");
    let shown = format!("{config:?} {sources:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let text = "[engine]\nnamespace = 'file'\nshards = 2\npartitions = 2\n";
    let sources = Sources {
        environment: environment(&[
            ("CONSORT_ENGINE_SHARDS", "3"),
            ("CONSORT_ENGINE_PARTITIONS", "3"),
            ("CONSORT_HTTP_LISTEN", "127.0.0.1:1"),
            ("CONSORT_ENGINE_ALLOW_VOLATILE", "true"),
            ("CONSORT_TESTBED_KEEP", "ignored"),
            ("CONSORT_URL", "ignored"),
            ("CONSORT_TOKEN", "ignored"),
            ("PATH", "/bin"),
        ]),
        flags: vec![
            Flag::set("engine.partitions=4"),
            Flag::new("--listen", "http.listen", "127.0.0.1:2"),
            Flag::new("--node", "node.id", "n1"),
            Flag::set("log.level=info,consort=debug"),
            Flag::set("http.tokens=0123456789abcdef,fedcba9876543210"),
        ],
        ..file(text)
    };
    let config = Config::resolve(&sources).unwrap();
    assert_eq!(config.engine.namespace, "file");
    assert_eq!((config.engine.shards, config.engine.partitions()), (3, 4));
    assert_eq!(config.http.listen.port(), 2);
    assert!(config.engine.allow_volatile);
    assert_eq!(config.node.id.as_deref(), Some("n1"));
    assert_eq!(config.log.level, "info,consort=debug");
    assert_eq!(
        config.http.tokens,
        Tokens::new(vec!["0123456789abcdef".into(), "fedcba9876543210".into()]).unwrap()
    );
    assert_eq!(config.http.max_body, HttpConfig::default().max_body);
}

#[test]
fn mistakes_in_environment_and_flags_name_the_variable_or_flag() {
    let sources = Sources {
        environment: environment(&[
            ("CONSORT_HTTP_LISEN", "x"),
            ("CONSORT_SOMETHING_ELSE_ENTIRELY", "x"),
            ("CONSORT_ENGINE_SHARDS", "many"),
        ]),
        flags: vec![
            Flag::new("--listen", "http.listen", "here"),
            Flag::set("http.lisen=x"),
            Flag::set("engine.allow_volatile=maybe"),
            Flag::set("oops"),
        ],
        ..file("")
    };
    let told = Config::resolve(&sources).unwrap_err().to_string();
    let expected = "\
CONSORT_ENGINE_SHARDS: 'shards' in [engine] must be a whole number from 1 to 256, not 'many'
CONSORT_HTTP_LISEN: no setting has this environment variable; did you mean CONSORT_HTTP_LISTEN?
CONSORT_SOMETHING_ELSE_ENTIRELY: no setting has this environment variable
--listen: 'listen' in [http] must be an IP address and a port, such as \"127.0.0.1:7400\" or \"[::1]:7400\", not \"here\"
--set: needs a setting and a value: --set path.to.key=value, such as --set log.level=debug
--set engine.allow_volatile: 'allow_volatile' in [engine] must be true or false, not text
--set http.lisen: unknown setting 'http.lisen'; did you mean 'http.listen'?";
    assert_eq!(told, expected);
}

#[test]
fn without_a_file_the_tour_runs_and_on_no_other_engine() {
    let tour = Config::resolve(&Sources::default()).unwrap();
    assert_eq!(tour.engine.url.reveal(), TOUR_ENGINE);
    assert_eq!((tour.definitions().streams.len(), tour.definitions().views.len()), (2, 9));
    assert_eq!(tour.once().spaces.len(), 1);

    let sources = Sources {
        flags: vec![Flag::new("--engine", "engine.url", "memory:")],
        ..Sources::default()
    };
    let told = Config::resolve(&sources).unwrap_err().to_string();
    let expected = "--engine: without a config file Consort runs its tour, always in embedded:./consort-tour; \
                    for another engine write a file (`consort config --defaults > consort.toml`) and give it with -c";
    assert_eq!(told, expected);

    let same = Sources {
        flags: vec![Flag::new("--engine", "engine.url", TOUR_ENGINE)],
        ..Sources::default()
    };
    assert!(Config::resolve(&same).is_ok());
}
