//! The commented defaults and their examples: they can be used as they are, they show every setting, and every
//! setting that they show is read.

use super::*;
use crate::config::declared::{Contents, entries};
use crate::config::defaults::ShownSetting;
use crate::config::part::{DeclarationSpec, ExampleSetting, ExampleSpec};
use crate::config::spec::SettingSpec;

fn catalog() -> Catalog {
    Catalog::new(&configs())
}

#[test]
fn the_commented_defaults_are_the_defaults() {
    let text = commented_defaults();
    let read_back =
        Config::resolve(&file(&text)).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    assert_eq!(format!("{read_back:?}"), format!("{:?}", Config::default()));
    assert_eq!(read_back.declared(), Vec::<String>::new());
    for setting in catalog().settings() {
        let name = setting.spec.name;
        assert!(text.contains(&format!("{name} = ")), "{} is missing", setting.path());
        assert!(text.contains(&setting.variable()), "{} is missing", setting.variable());
    }
}

#[test]
fn the_examples_in_the_commented_defaults_can_be_used() {
    for setting in catalog().settings() {
        // As a variable would give it: text, whatever it means.
        let text = setting.spec.example_text().trim_matches('"').to_owned();
        let raw = match text.as_str() {
            "[]" => Raw::List(Vec::new()),
            _ => Raw::Loose(text),
        };
        assert_eq!(setting.read(&mut Config::default(), &raw), Ok(()), "{}", setting.path());
    }
}

/// The commented defaults, with the examples uncommented as their head says.
fn uncommented() -> String {
    let text = commented_defaults();
    let (before, examples) = text.split_at(text.find("# [stream.").unwrap());
    let lines = examples.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
    format!("{before}{}", lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_example_declarations_can_be_used_and_show_every_setting() {
    let text = uncommented();
    let config = Config::resolve(&file(&text)).unwrap_or_else(|p| panic!("{p}\nin\n{text}"));
    assert_eq!(
        config.counts(),
        "2 streams, 2 views, 5 sinks, 2 collections, 1 tenant, 1 once space, 1 database"
    );
    for (spec, setting) in declared_settings() {
        let (given, instead) =
            (format!("\n{} = ", setting.name), format!("\n# {} = ", setting.name));
        let examples = &text[text.find("[stream.").unwrap()..];
        let shown = examples.contains(&given) || examples.contains(&instead);
        assert!(shown, "'{}' of [{}.NAME] is missing", setting.name, spec.table);
    }
}

#[test]
fn only_values_make_lines_of_the_commented_defaults_longer_than_140_characters() {
    for line in commented_defaults().lines().filter(|line| line.len() > 140) {
        assert!(line.contains(" = ") && !line.contains("  # "), "{line}");
    }
}

fn declared_settings() -> impl Iterator<Item = (&'static DeclarationSpec, &'static SettingSpec)> {
    let catalog = catalog();
    let specs: Vec<_> = catalog.declarations().collect();
    specs.into_iter().flat_map(|spec| spec.settings.iter().map(move |setting| (spec, setting)))
}

/// An example with one setting more or with another value: `change` gets each setting that is given, and returns
/// its value, or none to leave it out.
fn example(
    spec: &DeclarationSpec,
    example: &ExampleSpec,
    change: impl Fn(&str, String) -> Option<String>,
) -> String {
    let given = example.settings.iter().filter(|s| !matches!(s, ExampleSetting::Instead(_)));
    let lines = given.filter_map(|setting| {
        let shown = ShownSetting::new(spec, setting);
        let value = change(shown.spec.name, shown.value)?;
        Some(format!("{} = {value}\n", shown.spec.name))
    });
    format!("[{}.{}]\n{}", spec.table, example.name, lines.collect::<String>())
}

/// All examples but the one of this name.
fn others(name: &str) -> String {
    let catalog = catalog();
    let all = catalog.declarations().flat_map(|spec| spec.examples.iter().map(move |e| (spec, e)));
    all.filter(|(_, other)| other.name != name)
        .map(|(spec, other)| example(spec, other, |_, value| Some(value)))
        .collect()
}

/// Every way in which the examples give a setting: the example, and the setting that it stands instead of.
fn shown_in(
    spec: &'static DeclarationSpec,
    name: &str,
) -> Vec<(&'static ExampleSpec, Option<&'static str>)> {
    let mut found = Vec::new();
    for example in spec.examples {
        let mut given = None;
        for setting in example.settings {
            let instead = matches!(setting, ExampleSetting::Instead(_));
            if setting.name() == name {
                found.push((example, given.filter(|_| instead)));
            }
            if !instead {
                given = Some(setting.name());
            }
        }
    }
    found
}

/// The example with `value` for the setting, alone or instead of another.
fn with_value(
    spec: &'static DeclarationSpec,
    (shown, instead_of): (&'static ExampleSpec, Option<&'static str>),
    setting: &str,
    value: &str,
) -> String {
    let mut text = example(spec, shown, |name, given| match name {
        _ if name == setting => Some(value.to_owned()),
        _ if Some(name) == instead_of => None,
        _ => Some(given),
    });
    if instead_of.is_some() {
        text.push_str(&format!("{setting} = {value}\n"));
    }
    text + &others(shown.name)
}

/// The example of a setting. A file or folder that it names is one that is there.
fn usable(setting: &SettingSpec, folder: &tempfile::TempDir) -> String {
    let path = match setting.name {
        "tokens_file" => {
            let path = folder.path().join("tokens");
            std::fs::write(&path, "a-token-of-sixteen-characters\n").unwrap();
            path
        }
        "schema" => {
            std::fs::write(folder.path().join("001.sql"), "CREATE TABLE t (a)").unwrap();
            folder.path().to_owned()
        }
        _ => return setting.example_text(),
    };
    format!("'{}'", path.display())
}

#[test]
fn every_setting_of_a_declared_table_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for (spec, setting) in declared_settings() {
        for shown in shown_in(spec, setting.name) {
            let good = match shown.1 {
                Some(_) => with_value(spec, shown, setting.name, &usable(setting, &folder)),
                None => uncommented(),
            };
            assert!(Config::resolve(&file(&good)).is_ok(), "{}\n{good}", problems(&good));
            // No setting is a date.
            let told = problems(&with_value(spec, shown, setting.name, "1979-05-27"));
            let expected = format!("'{}' in [{}.{}] must", setting.name, spec.table, shown.0.name);
            assert!(told.contains(&expected), "{expected} is not in\n{told}");
        }
    }
}

#[test]
fn a_declaration_that_gives_a_default_is_the_same_as_one_that_leaves_it_out() {
    let mut checked = 0;
    for (spec, setting) in declared_settings() {
        let Some(default) = setting.default_text() else { continue };
        // The examples of lines have other defaults: the first that fits is meant.
        let Some((shown, _)) = shown_in(spec, setting.name).into_iter().next() else {
            panic!("no example shows '{}' of [{}.NAME]", setting.name, spec.table)
        };
        if setting.name == "form" {
            // Without `form` this example would need fields.
            continue;
        }
        let text = |value: Option<String>| {
            let changed = example(spec, shown, |name, given| match name == setting.name {
                true => value.clone(),
                false => Some(given),
            });
            changed + &others(shown.name)
        };
        let resolved = |text: String| {
            let config = Config::resolve(&file(&text)).unwrap_or_else(|p| panic!("{p}\n{text}"));
            // Sorted: maps that hash show their entries in any order.
            let shown = format!("{config:?}");
            let mut words: Vec<String> = shown.split([' ', '{', '}']).map(str::to_owned).collect();
            words.iter_mut().for_each(|word| *word = word.trim_end_matches(',').to_owned());
            words.sort_unstable();
            words
        };
        let (given, left_out) = (resolved(text(Some(default))), resolved(text(None)));
        assert!(given == left_out, "'{}' of [{}.NAME]", setting.name, spec.table);
        checked += 1;
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn the_examples_of_inner_tables_are_those_of_their_settings() {
    for (_, setting) in declared_settings().filter(|(_, setting)| !setting.inner().is_empty()) {
        let text = format!("x = {}", setting.example_text());
        let root = toml::de::DeTable::parse(&text).unwrap();
        let [outer] = &entries(root.get_ref())[..] else { panic!("{text}") };
        let inner = match &outer.value.contents {
            Contents::Table(inner) => inner,
            Contents::List(items) => match items.first().map(|item| &item.contents) {
                Some(Contents::Table(inner)) => inner,
                _ => panic!("{text}"),
            },
            Contents::None => panic!("{text}"),
        };
        let mut given: Vec<&str> = inner.iter().map(|entry| entry.name.as_str()).collect();
        let mut known: Vec<&str> = setting.inner().iter().map(|inner| inner.name).collect();
        given.sort_unstable();
        known.sort_unstable();
        assert_eq!(given, known);
    }
}

#[test]
fn the_reference_has_every_setting_once_with_an_example() {
    let tables = reference();
    let catalog = catalog();
    let fixed = catalog.tables().map(|table| (table.name.to_owned(), table.settings));
    let mut expected: Vec<(String, &[SettingSpec])> = fixed.collect();
    for spec in catalog.declarations() {
        expected.push((format!("{}.NAME", spec.table), spec.settings));
        let outer = spec.settings.iter().filter(|setting| !setting.inner().is_empty());
        expected.extend(
            outer.map(|outer| (format!("{}.NAME.{}", spec.table, outer.name), outer.inner())),
        );
    }
    let names = |settings: &[SettingSpec]| settings.iter().map(|s| s.name).collect::<Vec<_>>();
    let expected: Vec<_> = expected.into_iter().map(|(name, all)| (name, names(all))).collect();
    let shown = tables.iter().map(|table| {
        let settings = table.settings.iter().map(|setting| setting.name);
        (table.name.clone(), settings.collect::<Vec<_>>())
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    let mut paths = BTreeSet::new();
    for table in &tables {
        for setting in &table.settings {
            let path = format!("{}.{}", table.name, setting.name);
            assert!(!setting.example.is_empty() && !setting.doc.is_empty(), "{path}");
            assert_eq!(setting.variable.is_some(), !table.name.contains("NAME"), "{path}");
            assert!(paths.insert(path.clone()), "{path} comes twice");
        }
    }
    let tokens = tables[1].settings.iter().find(|setting| setting.name == "tokens").unwrap();
    assert_eq!(tokens.variable.as_deref(), Some("CONSORT_HTTP_TOKENS"));
    assert_eq!((tokens.default.as_deref(), tokens.secret), (Some("[]"), true));
}
