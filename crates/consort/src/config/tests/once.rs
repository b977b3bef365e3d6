//! Spaces of once: what is read of them, every mistake with its exact message, and what is never shown.

use consort_server::once::{OnError, Space, Template};

use super::declarations::told;
use super::*;

const ALL: &str = "\
[once]
cache = '1GiB'
waiters = 7
[once.all]
upstream = 'https://h:9/items/{path}?key=s3cret&{query}'
lease = '500ms'
fresh_for = '2m'
stale_for = '10s'
stale_if_error = '1h'
errors_for = '0s'
max_value = '3MiB'
timeout = '20s'
connect_timeout = '1s'
wait = '1m'
headers = ['X-Tenant', 'accept-language', 'x-tenant']
honour = false
on_error = 'reelect'
refresh_early = false
[once.few]
upstream = 'http://127.0.0.1:9000/'
";

#[test]
fn every_setting_of_a_space_is_read_and_no_key_is_shown() {
    let config = Config::resolve(&file(ALL)).unwrap_or_else(|problems| panic!("{problems}"));
    let OnceConfig { cache, waiters, waiters_per_key, spaces } = config.once();
    let default = OnceConfig::default();
    assert_eq!((*cache, *waiters, *waiters_per_key), (1 << 30, 7, default.waiters_per_key));
    let [all, few] = &spaces[..] else { panic!("{spaces:?}") };
    let secs = Duration::from_secs;
    assert_eq!(all.upstream.to_string(), "https://h:9/items/{path}?key=s3cret&{query}");
    assert_eq!((all.timeout, all.connect_timeout, all.honour), (secs(20), secs(1), false));
    let headers: Vec<&str> = all.headers.iter().map(|name| name.as_str()).collect();
    assert_eq!(headers, ["accept-language", "x-tenant"]);
    let terms = &all.terms;
    assert_eq!((terms.lease, terms.wait), (Duration::from_millis(500), secs(60)));
    assert_eq!((terms.fresh_for, terms.stale_for), (secs(120), secs(10)));
    assert_eq!((terms.stale_if_error, terms.errors_for), (secs(3600), Duration::ZERO));
    assert_eq!((terms.max_value, terms.on_error), (3 << 20, OnError::Reelect));
    assert!(!terms.refresh_early);
    let template = Template::parse("http://127.0.0.1:9000/").unwrap();
    assert_eq!(*few, Space::new("few".parse().unwrap(), template));
    let expected = [
        "once 'all': asks https://h:9, fresh for 2m, stale for 10s, by accept-language, x-tenant",
        "once 'few': asks http://127.0.0.1:9000, fresh for 1m",
    ];
    assert_eq!(config.declared(), expected);
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
}

#[test]
fn the_defaults_are_those_of_the_design() {
    let template = Template::parse("http://h/").unwrap();
    let Space { terms, honour, headers, .. } = Space::new("x".parse().unwrap(), template);
    let secs = Duration::from_secs;
    assert_eq!((terms.lease, terms.fresh_for, terms.stale_for), (secs(3), secs(60), secs(0)));
    assert_eq!((terms.errors_for, terms.max_value), (secs(1), 1 << 20));
    assert!(honour && headers.is_empty());
}

/// What stands below `[once.x]`, from line 2 on.
const MISTAKES: &[(&str, &str)] = &[
    (
        "lease = '3s'",
        "1:7: [once.x] needs 'upstream': the address that is asked, such as \"http://127.0.0.1:9000/items/{path}?{query}\"",
    ),
    (
        "upstrem = 'http://h/'",
        "2:1: unknown setting 'upstrem' in [once.x]; did you mean 'upstream'?",
    ),
    (
        "upstream = 'ftp://h/?k=s3cret'",
        "2:12: 'upstream' in [once.x] must be an http:// or https:// address, such as \"http://127.0.0.1:9000/items/{path}?{query}\"",
    ),
    ("upstream = 7", "2:12: 'upstream' in [once.x] must be text in quotes, not a number"),
    (
        "upstream = 'http://u:s3cret@h/'",
        "2:12: 'upstream' in [once.x] must be without user and password",
    ),
    (
        "upstream = 'http://h/{pth}?k=s3cret'",
        "2:12: 'upstream' in [once.x] has an unknown place {pth}; there are {path} and {query}",
    ),
    (
        "upstream = 'http://h/'\nlease = '1ms'",
        "3:9: 'lease' in [once.x] must be a duration from 300ms to 5m, such as \"500ms\", \"10s\" or \"2m\", not \"1ms\"",
    ),
    (
        "upstream = 'http://h/'\nfresh_for = 60",
        "3:13: 'fresh_for' in [once.x] must be a duration from 0ms to 365d, such as \"500ms\", \"10s\" or \"2m\", not a number",
    ),
    (
        "upstream = 'http://h/'\nmax_value = '4MiB'",
        "3:13: 'max_value' in [once.x] must be a size from 1KiB to 3MiB, such as \"64KiB\" or \"8MiB\", not \"4MiB\"",
    ),
    (
        "upstream = 'http://h/'\nhonour = 'yes'",
        "3:10: 'honour' in [once.x] must be true or false, not text",
    ),
    (
        "upstream = 'http://h/'\nhonor = true",
        "3:1: unknown setting 'honor' in [once.x]; did you mean 'honour'?",
    ),
    (
        "upstream = 'http://h/'\non_error = 'reelct'",
        "3:12: 'on_error' in [once.x] must be \"keep\" or \"reelect\", not \"reelct\"; did you mean \"reelect\"?",
    ),
    (
        "upstream = 'http://h/'\nheaders = ['accept', 'Authorization']",
        "3:22: 'headers' in [once.x] cannot have 'authorization': it holds this node's access token",
    ),
    (
        "upstream = 'http://h/'\nheaders = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']",
        "3:11: 'headers' in [once.x] must have at most 8 headers: each splits the answers",
    ),
];

#[test]
fn each_mistake_is_told_with_its_place_and_never_with_a_key() {
    for (settings, expected) in MISTAKES {
        let text = format!("[once.x]\n{settings}\n");
        assert_eq!(told(&text), [*expected], "{settings}");
        assert!(!problems(&text).contains("s3cret"), "{}", problems(&text));
    }
}

#[test]
fn settings_of_all_spaces_stand_beside_their_tables() {
    for (text, expected) in [
        (
            "[once]\nwaiters = 0",
            "2:11: 'waiters' in [once] must be a whole number from 1 to 1000000, not 0",
        ),
        ("[once]\ncahce = '1MiB'", "2:1: unknown setting 'cahce' in [once]; did you mean 'cache'?"),
        (
            "[once]\nupstream = 'http://h/?k=s3cret'",
            "2:1: 'upstream' in [once] must be a table: give the once a name and write [once.NAME] above it",
        ),
        ("[onec.x]\nupstream = 'http://h/'", "1:2: unknown table [onec]; did you mean [once]?"),
        (
            "[once.'a b']\nupstream = 'http://h/'",
            "1:7: the name of a once must be 1 to 64 characters of letters, digits, '_' and '-', not \"a b\"",
        ),
    ] {
        assert_eq!(told(text), [expected], "{text}");
        assert!(!problems(text).contains("s3cret"), "{}", problems(text));
    }
    let sources = Sources {
        environment: environment(&[("CONSORT_ONCE_CAHCE", "1"), ("CONSORT_ONCE_ITEMS_WAIT", "1")]),
        flags: vec![Flag::set("once.cahce=1"), Flag::set("once.items.upstream=1")],
        ..file("")
    };
    let told = Config::resolve(&sources).unwrap_err().to_string();
    let expected = "\
CONSORT_ONCE_CAHCE: no setting has this environment variable; did you mean CONSORT_ONCE_CACHE?
CONSORT_ONCE_ITEMS_WAIT: spaces of once are declared in the config file
--set once.cahce: unknown setting 'once.cahce'; did you mean 'once.cache'?
--set once.items.upstream: spaces of once are declared in the config file";
    assert_eq!(told, expected);
    // A space may have the name of such a setting.
    let text = "[once]\nwaiters = 5\n[once.cache]\nupstream = 'http://h/'\n";
    let config = Config::resolve(&file(text)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((config.once().waiters, config.once().spaces[0].name.as_str()), (5, "cache"));
    let variables = environment(&[("CONSORT_ONCE_CACHE", "0B")]);
    let config = Config::resolve(&Sources { environment: variables, ..file(text) });
    assert_eq!(config.unwrap_or_else(|problems| panic!("{problems}")).once().cache, 0);
}
