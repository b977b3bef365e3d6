//! What a relay's settings come to, and every mistake with its message.

use super::*;

const GOOD: &str = "[relay]\nudp = '127.0.0.1:8090'\ndefault = ['a']\n[target.a]\nudp = 'h:1'\n";

fn resolve(text: &str, flags: &RelayFlags) -> Result<RelayConfig, Problems> {
    let file = ConfigFile { name: "relay.toml".into(), text: text.into() };
    RelayConfig::resolve(Some(&file), flags)
}

/// The messages without the excerpts below them.
fn told(text: &str) -> Vec<String> {
    let problems = resolve(text, &RelayFlags::default()).expect_err(text).to_string();
    let first = problems.lines().filter_map(|line| line.strip_prefix("relay.toml:"));
    first.map(str::to_owned).collect()
}

#[test]
fn every_setting_is_read() {
    let text = "\
[relay]
udp = '10.0.0.5:8090'
tcp = '127.0.0.1:8091'
http = '127.0.0.1:9000'
allow = ['10.0.0.0/8', '127.0.0.1']
form = 'line-loose'
default = ['db', 'a']
datagram = 512
udp_buffer = '1MiB'
[target.a]
udp = 'node-a:8089'
[target.db]
http = 'http://influx:8086/api/v2/write?bucket=b'
token = 's3cret'
queue = '1MiB'
[[route]]
measurement = 'cpu'
tag = 'host=x=y'
to = 'a'
[[route]]
tag = 'host'
to = ['db', 'a', 'db']
";
    for table in CONFIG.tables {
        for setting in table.settings {
            let is_there =
                text.lines().any(|line| line.starts_with(&format!("{} = ", setting.name)));
            assert!(is_there, "'{}' of [{}] is not tried", setting.name, table.name);
        }
    }
    let config = resolve(text, &RelayFlags::default()).unwrap();
    assert_eq!(
        (config.udp, config.tcp),
        ("10.0.0.5:8090".parse().ok(), "127.0.0.1:8091".parse().ok())
    );
    assert_eq!((config.allow.len(), config.datagram, config.buffer), (2, 512, 1 << 20));
    assert_eq!(config.dialect, Dialect::Loose);
    assert_eq!(config.default, [1, 0]);
    assert_eq!(config.targets[0].aim, Aim::Udp("node-a:8089".into()));
    assert_eq!(config.targets[1].queue, 1 << 20);
    let tags: Vec<_> = config.routes.iter().map(|rule| rule.tag.clone().unwrap()).collect();
    assert_eq!(tags, [("host".into(), Some("x=y".into())), ("host".to_owned(), None)]);
    assert_eq!(config.routes[1].to, [1, 0]);
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
}

#[test]
fn mistakes_are_told_with_their_place_and_what_to_do() {
    let cases = [
        ("[realy]\n", "1:2: unknown table [realy]; did you mean [relay]?"),
        ("[relay]\nudb = 1\n", "2:1: unknown setting 'udb' in [relay]; did you mean 'udp'?"),
        (
            "[relay]\nform = 'lines'\n",
            "2:8: 'form' in [relay] must be \"line\" or \"line-loose\", not \"lines\"; did you mean \"line\"?",
        ),
        (
            "[relay]\ndefault = ['b']\n[target.bb]\nudp = 'h:1'\n",
            "2:12: 'default' in [relay]: no target is called 'b'; did you mean 'bb'?",
        ),
        (
            "[relay]\nhttp = '0.0.0.0:1'\n",
            "2:8: 'http' in [relay] must be on loopback, such as \"127.0.0.1:7401\", not \"0.0.0.0:1\"",
        ),
        ("[relay]\nudp = 1\n", "2:7: 'udp' in [relay] must be text in quotes, not a number"),
        (
            "[target.a]\n",
            "1:9: [target.a] needs 'udp' (a host and port) or 'http' (a URL that takes lines)",
        ),
        (
            "[target.a]\nudp = 'h:1'\nhttp = 'http://h/write'\n",
            "3:1: 'http' in [target.a]: there is 'udp' already; a target has one of them: declare another target",
        ),
        (
            "[target.a]\nhttp = 'https://u:p@h/write'\n",
            "2:8: 'http' in [target.a] must begin with http://: the relay has no TLS",
        ),
        (
            "[target.a]\nudp = 'h'\n",
            "2:7: 'udp' in [target.a] must be a host and a port, such as \"node-a.example.org:7400\" or \"10.0.0.7:7400\", not \"h\"",
        ),
        ("[[route]]\nmeasurement = 'm'\n", "1:1: [route 1] needs 'to': the targets of these lines"),
        (
            "[target.a]\nudp = 'h:1'\n[[route]]\nto = ['a']\n",
            "3:1: [route 1] needs 'measurement' or 'tag': which lines it is for",
        ),
        (
            "[target.a]\nudp = 'h:1'\n",
            "1:1: lines must come in somewhere: set 'udp' or 'tcp' in [relay], or --udp or --tcp",
        ),
        (
            "[relay]\nudp = '127.0.0.1:1'\n",
            "1:1: lines must go somewhere: declare a [target.NAME], or use --to",
        ),
        (
            "[relay]\nudp = '127.0.0.1:1'\n[target.a]\nudp = 'h:1'\n",
            "1:1: no line would go to any target: set 'default' in [relay], or write a [[route]]",
        ),
        (
            "[relay]\nudp = \n",
            "2:7: not TOML: string values must be quoted, expected literal string",
        ),
    ];
    for (text, expected) in cases {
        let told = told(text);
        assert!(told.iter().any(|told| told == expected), "{text}\n{told:#?}\n{expected}");
    }
    let open = told(&GOOD.replace("127.0.0.1:8090", "0.0.0.0:8090"));
    assert!(
        open.len() == 1 && open[0].contains("other machines can reach udp 0.0.0.0:8090"),
        "{open:?}"
    );
}

#[test]
fn a_line_with_a_mistake_is_shown_unless_it_may_hold_a_secret() {
    let text = "\
[relay]
form = 'lines'
[target.a]
http = 'https://u:s3cret@h/write'
token = ['t0ken']
";
    let told = resolve(text, &RelayFlags::default()).unwrap_err().to_string();
    assert!(told.contains("2 | form = 'lines'"), "{told}");
    assert!(told.contains("4 | http = ***") && told.contains("5 | token = ***"), "{told}");
    assert!(!told.contains("s3cret") && !told.contains("t0ken"), "{told}");
}

#[test]
fn flags_win_over_the_file_and_can_do_without_it() {
    let flags = RelayFlags {
        udp: Some("127.0.0.1:1".into()),
        form: Some("line-loose".into()),
        to: vec!["h:2".into(), "http://i:8086/write?db=x".into()],
        ..RelayFlags::default()
    };
    let config = resolve(GOOD, &flags).unwrap();
    assert_eq!((config.udp, config.dialect), ("127.0.0.1:1".parse().ok(), Dialect::Loose));
    assert_eq!((config.targets.len(), &config.default[..]), (3, &[0, 1, 2][..]));
    let alone = RelayConfig::resolve(None, &flags).unwrap();
    assert_eq!(alone.targets[0].aim, Aim::Udp("h:2".into()));
    let wrong = RelayFlags { udp: Some("x".into()), allow: vec!["y".into()], ..flags };
    let told = RelayConfig::resolve(None, &wrong).unwrap_err().to_string();
    assert!(
        told.contains("--udp: must be an IP address") && told.contains("--allow: must be"),
        "{told}"
    );
    let none = RelayConfig::resolve(None, &RelayFlags::default()).unwrap_err().to_string();
    assert!(none.starts_with("consort relay: lines must come in somewhere"), "{none}");
}
