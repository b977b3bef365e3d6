//! The node's own tables: tokens, engines, addresses, and its data folder.

use std::fs;
use std::path::Path;

use consort_server::Tokens;

use super::*;

#[test]
fn tokens_come_from_their_file_one_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let text =
        format!("[http]\nlisten = '0.0.0.0:7400'\ntokens = []\ntokens_file = '{}'", path.display());
    fs::write(&path, "0123456789abcdef\n\n  fedcba9876543210  \n").unwrap();
    let config = Config::resolve(&file(&text)).unwrap();
    assert_eq!(
        config.http.tokens,
        Tokens::new(vec!["0123456789abcdef".into(), "fedcba9876543210".into()]).unwrap()
    );

    fs::write(&path, "\n").unwrap();
    assert!(problems(&text).contains("it has no tokens; write one a line"));
    fs::write(&path, "s3cret\n").unwrap();
    let told = problems(&text);
    assert!(told.contains("access token 1 is shorter") && !told.contains("s3cret"), "{told}");
}

#[test]
fn every_engine_and_broker_of_the_design_is_accepted() {
    for url in [
        "embedded:./consort-data",
        "embedded:/var/lib/consort",
        "memory:",
        "redis://host:6379/0",
        "redis://user:pass@host",
        "rediss://:pass@[::1]:6380/1",
        "redis-cluster://h1:7000,h2:7001,h3:7002",
        "redis-cluster://user:pass@h1:7000,h2:7001",
    ] {
        let text = format!("[engine]\nurl = '{url}'");
        let config = Config::resolve(&file(&text)).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(config.engine.url.reveal(), url);
    }
    for broker in ["amqp://user:pass@host/vhost", "amqps://host:5671/%2f"] {
        let text = format!("[engine]\nurl = 'redis://h'\nbroker = '{broker}'");
        assert!(Config::resolve(&file(&text)).is_ok(), "{broker}");
    }
}

#[test]
fn a_node_is_advertised_by_name_or_address() {
    for address in ["node-a.example.org:7400", "10.0.0.7:80", "[::1]:7400", "localhost:1"] {
        let text = format!("[http]\nadvertise = '{address}'");
        let config = Config::resolve(&file(&text)).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(config.http.advertise.as_deref(), Some(address));
    }
    for bad in ["", "h", "h:", "h:0", "h:99999", ":7400", "u@h:1", "h:1/x", "h 1:2"] {
        let told = problems(&format!("[http]\nadvertise = '{bad}'"));
        assert!(told.contains("must be a host and a port"), "{told}");
    }
}

#[test]
fn the_data_folder_is_the_one_that_is_given_or_suits_the_engine() {
    for (text, expected) in [
        ("", "./consort-data/node"),
        ("[engine]\nurl = 'embedded:/var/lib/consort'", "/var/lib/consort/node"),
        ("[engine]\nurl = 'redis://h'", "./consort-node"),
        ("[engine]\nurl = 'memory:'", "./consort-node"),
        ("[node]\ndata = '/srv/a'\n[engine]\nurl = 'embedded:/var/lib/consort'", "/srv/a"),
    ] {
        let config = Config::resolve(&file(text)).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(config.data_folder(), Path::new(expected), "{text}");
    }
    let sources = Sources { flags: vec![Flag::set("node.data=./b")], ..file("") };
    assert_eq!(Config::resolve(&sources).unwrap().data_folder(), Path::new("./b"));
    let tour = Config::resolve(&Sources::default()).unwrap();
    assert_eq!(tour.data_folder(), Path::new("./consort-tour/node"));
}

#[test]
fn further_hosts_and_origins_are_named_one_by_one() {
    let text = "[http]\nhosts = ['Consort.example.org', '[fd00::7]']\n\
                origins = ['https://App.example.org:443', 'http://localhost:3000']";
    let config = Config::resolve(&file(text)).unwrap_or_else(|problems| panic!("{problems}"));
    let hosts: Vec<String> = config.http.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["consort.example.org", "[fd00::7]"]);
    let origins: Vec<String> = config.http.origins.iter().map(ToString::to_string).collect();
    assert_eq!(origins, ["https://app.example.org", "http://localhost:3000"]);
    for (wrong, words) in [
        ("hosts = ['h:80']", "write a name or address without scheme, port and path"),
        ("hosts = ['*.example.org']", "'*.example.org' is not a host"),
        ("hosts = 'h'", "must be a list of texts"),
        ("origins = ['app.example.org']", "write scheme, host and port without a path"),
        ("origins = ['null']", "'null' is not an origin"),
    ] {
        let told = problems(&format!("[http]\n{wrong}"));
        assert!(told.contains(words), "{told}");
    }
}
