//! A part that is known to these tests alone: it brings a fixed table, a declared table, a secret, a reserved path
//! and a check, and nothing else in the config knows it.

use super::declarations::told as told_by_all;
use super::*;
use crate::config::part::ExampleSetting::Shown;
use crate::config::part::{
    DeclarationSpec, ExampleSpec, NameRule, Summary, counted, insert_defaults,
};
use crate::config::spec::{SettingSpec, TableSpec, Visibility};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Gadgets {
    speed: u64,
    /// By their names, each with the length of its secret.
    gadgets: BTreeMap<String, usize>,
}

impl Default for Gadgets {
    fn default() -> Gadgets {
        Gadgets { speed: 3, gadgets: BTreeMap::new() }
    }
}

static TEST_PART: PartConfig = PartConfig {
    tables: &[TableSpec { name: "gear", doc: "How gadgets turn.", settings: &GEAR }],
    declarations: &[DeclarationSpec {
        table: "gadget",
        plural: "gadgets",
        doc: "something that turns",
        settings: &GADGET,
        read: |reader, declaration, context| {
            let words = [("round", ()), ("square", ())];
            reader.read("shape", |raw| read::one_of(raw, words));
            let pin = reader.read("pin", |raw| read::text(raw).map(str::len));
            if reader.get("pin").is_none() {
                reader.missing(&["pin"], "'pin': its secret");
            }
            let gadgets = &mut context.config.part_mut::<Gadgets>().gadgets;
            gadgets.extend(pin.map(|pin| (declaration.name.clone(), pin)));
        },
        names: NameRule::PLAIN,
        named_by_others: false,
        sibling: Some("view"),
        examples: &[ExampleSpec {
            name: "wheel",
            doc: "",
            settings: &[Shown("shape"), Shown("pin")],
        }],
    }],
    reserved: &["gadgets"],
    insert: insert_defaults::<Gadgets>,
    finish: |config, given, problems| {
        let Some(place) = given.place("gear.speed") else { return };
        let Gadgets { speed, gadgets } = config.part();
        if gadgets.len() as u64 > *speed {
            problems.push(Problem::new(place, "'speed' in [gear] must be the number of gadgets"));
        }
    },
    summary: |config| {
        let Gadgets { speed, gadgets } = config.part();
        let line = |name: &String| format!("gadget '{name}': turns at {speed}");
        Summary {
            counts: vec![counted(gadgets.len(), "gadget")],
            lines: gadgets.keys().map(line).collect(),
        }
    },
    ..PartConfig::new("gadgets")
};

static GEAR: [SettingSpec; 1] = [SettingSpec::new("speed", &["Turns in a second."])
    .with_default("3")
    .with_reader(|config, raw| {
        read::integer(raw, 1..=9).map(|speed| config.part_mut::<Gadgets>().speed = speed)
    })];

static GADGET: [SettingSpec; 2] = [
    SettingSpec::new("shape", &["\"round\" or \"square\""]).with_default("\"round\""),
    SettingSpec::new("pin", &["its secret"])
        .with_example("\"1234\"")
        .with_visibility(Visibility::Secret),
];

fn resolve(sources: &Sources) -> Result<Config, Problems> {
    let mut parts = configs();
    parts.insert(2, &TEST_PART);
    Config::resolve_with(sources, &parts)
}

fn good(sources: &Sources) -> Config {
    resolve(sources).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The messages without the excerpts below them.
fn told(text: &str) -> Vec<String> {
    let told = resolve(&file(text)).expect_err(text).to_string();
    told.lines().filter_map(|line| line.strip_prefix("consort.toml:")).map(str::to_owned).collect()
}

const GOOD: &str = "[gear]\nspeed = 5\n[gadget.a]\npin = 's3cret'\n";

#[test]
fn a_parts_settings_come_from_file_environment_and_flags() {
    assert_eq!(good(&file("")).part::<Gadgets>(), &Gadgets::default());
    let config = good(&file(GOOD));
    let gadgets = BTreeMap::from([("a".to_owned(), 6)]);
    assert_eq!(config.part::<Gadgets>(), &Gadgets { speed: 5, gadgets });
    assert_eq!(config.declared(), ["gadget 'a': turns at 5"]);
    assert_eq!(config.counts(), "0 streams, 0 views, 1 gadget");
    let variables = environment(&[("CONSORT_GEAR_SPEED", "6")]);
    let sources = Sources { environment: variables, ..file(GOOD) };
    assert_eq!(good(&sources).part::<Gadgets>().speed, 6);
    let sources = Sources { flags: vec![Flag::set("gear.speed=7")], ..sources };
    assert_eq!(good(&sources).part::<Gadgets>().speed, 7);
    assert_eq!(good(&sources).clone().part::<Gadgets>().speed, 7);
}

#[test]
fn a_part_stands_alone_too() {
    let config = Config::resolve_with(&file(GOOD), &[&TEST_PART]);
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((config.part::<Gadgets>().speed, config.counts().as_str()), (5, "1 gadget"));
    let text = "[stream.x]\nfields.a = 'int'";
    let told = Config::resolve_with(&file(text), &[&TEST_PART]).unwrap_err().to_string();
    assert!(told.starts_with("consort.toml:1:2: unknown table [stream]"), "{told}");
}

#[test]
fn mistakes_in_a_parts_tables_are_told_with_the_nearest_right_name() {
    for (text, expected) in [
        ("[gaer]\nspeed = 5", "1:2: unknown table [gaer]; did you mean [gear]?"),
        ("[gadgte.x]\npin = 'a'", "1:2: unknown table [gadgte]; did you mean [gadget]?"),
        ("[gear]\nsped = 5", "2:1: unknown setting 'sped' in [gear]; did you mean 'speed'?"),
        ("[http]\nspeed = 5", "2:1: unknown setting 'speed' in [http]; it belongs in [gear]"),
        ("[gear]\nspeed = 10", "2:9: 'speed' in [gear] must be a whole number from 1 to 9, not 10"),
        ("[gadget.x]", "1:9: [gadget.x] needs 'pin': its secret"),
        (
            "[gadget.x]\npin = '1'\nshpe = 'round'",
            "3:1: unknown setting 'shpe' in [gadget.x]; did you mean 'shape'?",
        ),
        (
            "[gadget.x]\npin = '1'\nwindow = '1m'",
            "3:1: unknown setting 'window' in [gadget.x]; it belongs in [view.NAME]",
        ),
        (
            "[gadget.x]\npin = '1'\nshape = 'rond'",
            "3:9: 'shape' in [gadget.x] must be \"round\" or \"square\", not \"rond\"; did you mean \"round\"?",
        ),
        (
            "[gadget]\npin = '1'",
            "2:1: 'pin' in [gadget] must be a table: give the gadget a name and write [gadget.NAME] above it",
        ),
        (
            "[gear]\nspeed = 1\n[gadget.x]\npin = '1'\n[gadget.y]\npin = '1'",
            "2:9: 'speed' in [gear] must be the number of gadgets",
        ),
        (
            "[stream.s]\nfields.a = 'int'\nroute = 'POST /gadgets/{a}'",
            "3:9: 'route' in [stream.s] cannot begin with '/gadgets': such paths are Consort's own",
        ),
    ] {
        assert_eq!(told(text), [expected], "in\n{text}");
    }
    // Without the part, all of that is unknown.
    assert!(told_by_all(GOOD)[0].starts_with("1:2: unknown table [gear]"));
}

#[test]
fn a_parts_declarations_stand_in_the_file_alone() {
    let sources = Sources {
        environment: environment(&[("CONSORT_GADGET_A_PIN", "1"), ("CONSORT_GEAR_SPED", "1")]),
        flags: vec![Flag::set("gadget.a.pin=1"), Flag::set("gear.sped=1")],
        ..file("")
    };
    let told = resolve(&sources).unwrap_err().to_string();
    let expected = "\
CONSORT_GADGET_A_PIN: streams, views, sinks, gadgets, tenants and databases are declared in the config file
CONSORT_GEAR_SPED: no setting has this environment variable; did you mean CONSORT_GEAR_SPEED?
--set gadget.a.pin: streams, views, sinks, gadgets, tenants and databases are declared in the config file
--set gear.sped: unknown setting 'gear.sped'; did you mean 'gear.speed'?";
    assert_eq!(told, expected);
}

#[test]
fn a_parts_secret_is_in_no_message() {
    for text in [
        "[gadget.a]\npin = ['s3cret']",
        "[gadget.a]\npin = 's3cret",
        "[gadget.a]\npin = s3cret",
        "gadget.a = { shape = 'rond', pin = 's3cret' }",
        "[gadget]\npin = 's3cret'",
    ] {
        let told = resolve(&file(text)).expect_err(text).to_string();
        assert!(!told.contains("s3cret"), "{told}");
    }
    // What is no secret is shown.
    let told = resolve(&file("[gadget.a]\npin = '1'\nshape = 'rond'")).unwrap_err().to_string();
    assert!(told.contains("  3 | shape = 'rond'\n"), "{told}");
}

#[test]
fn the_commented_defaults_have_a_parts_tables() {
    let parts: Vec<_> = configs().into_iter().chain([&TEST_PART]).collect();
    let text = crate::config::defaults::commented(&Catalog::new(&parts));
    for expected in [
        "\n\n# How gadgets turn.\n[gear]\n\n# Turns in a second.\nspeed = 3 ",
        " # CONSORT_GEAR_SPEED\n",
        &format!("\n{:<41}# something that turns\n", "# [gadget.wheel]"),
        &format!("\n{:<41}# \"round\" or \"square\"\n", "# shape = \"round\""),
        &format!("\n{:<41}# its secret\n", "# pin = \"1234\""),
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    good(&file(&text));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "'size' is read in [gadget.a] and has no spec")]
fn a_setting_without_a_spec_cannot_be_read() {
    static FORGETFUL: PartConfig = PartConfig {
        declarations: &[DeclarationSpec {
            table: "gadget",
            plural: "gadgets",
            doc: "something that turns",
            settings: &GADGET,
            read: |reader, _, _| assert!(reader.get("size").is_none()),
            names: NameRule::PLAIN,
            named_by_others: false,
            sibling: None,
            examples: &[],
        }],
        ..PartConfig::new("forgetful")
    };
    let _ = Config::resolve_with(&file("[gadget.a]\n"), &[&FORGETFUL]);
}
