//! A setting as data: name, doc, default, example, visibility and reader. File, environment, flags, suggestions,
//! redaction, `consort config --defaults` and the reference all come from these specs.

use super::Config;
use super::read::Raw;

/// One setting.
#[derive(Debug)]
pub(crate) struct SettingSpec {
    pub(crate) name: &'static str,
    /// What it means, in lines.
    pub(crate) doc: &'static [&'static str],
    pub(crate) default: DefaultValue,
    /// A value as a file would have it; the default, where this is empty.
    pub(crate) example: &'static str,
    pub(crate) visibility: Visibility,
    pub(crate) reader: SettingReader,
}

/// The value of a setting that is not given, as a file would have it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    None,
    Text(&'static str),
    /// Made from the constants of the code that uses it.
    Computed(fn() -> String),
}

/// How much of a setting's value messages may show. Later variants hide more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Visibility {
    Plain,
    /// All of it in a table that is known. Its name alone could be that of a secret: where a file is not TOML,
    /// messages hide it.
    PlainInTable,
    /// A URL: without its password.
    Url,
    /// Nothing of it.
    Secret,
}

/// How the value of a setting is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettingReader {
    /// Into the config, or it returns what the value must be.
    Value(fn(&mut Config, &Raw) -> Result<(), String>),
    /// By its declared table, which reads all its settings together.
    Declaration,
    /// By its declared table; the value is a table of these settings.
    InnerTable(&'static [SettingSpec]),
}

/// A table with a fixed name, such as `[http]`.
#[derive(Debug)]
pub(crate) struct TableSpec {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) settings: &'static [SettingSpec],
}

/// A setting of a table with a fixed name: the environment and flags can give it, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) table: &'static str,
    pub(crate) spec: &'static SettingSpec,
}

impl SettingSpec {
    /// A setting without default, that may be shown, and that its declared table reads.
    pub(crate) const fn new(name: &'static str, doc: &'static [&'static str]) -> SettingSpec {
        SettingSpec {
            name,
            doc,
            default: DefaultValue::None,
            example: "",
            visibility: Visibility::Plain,
            reader: SettingReader::Declaration,
        }
    }

    /// A default that is written here.
    pub(crate) const fn with_default(mut self, text: &'static str) -> SettingSpec {
        self.default = DefaultValue::Text(text);
        self
    }

    /// A default that the code knows.
    pub(crate) const fn with_default_from(mut self, text: fn() -> String) -> SettingSpec {
        self.default = DefaultValue::Computed(text);
        self
    }

    pub(crate) const fn with_example(mut self, example: &'static str) -> SettingSpec {
        self.example = example;
        self
    }

    pub(crate) const fn with_visibility(mut self, visibility: Visibility) -> SettingSpec {
        self.visibility = visibility;
        self
    }

    pub(crate) const fn with_reader(
        mut self,
        read: fn(&mut Config, &Raw) -> Result<(), String>,
    ) -> SettingSpec {
        self.reader = SettingReader::Value(read);
        self
    }

    pub(crate) const fn with_inner(mut self, settings: &'static [SettingSpec]) -> SettingSpec {
        self.reader = SettingReader::InnerTable(settings);
        self
    }

    /// The default as a file would have it.
    pub(crate) fn default_text(&self) -> Option<String> {
        match self.default {
            DefaultValue::None => None,
            DefaultValue::Text(text) => Some(text.to_owned()),
            DefaultValue::Computed(text) => Some(text()),
        }
    }

    /// A value as a file would have it.
    pub(crate) fn example_text(&self) -> String {
        match self.example {
            "" => self.default_text().unwrap_or_default(),
            example => example.to_owned(),
        }
    }

    /// The settings of the table that is its value.
    pub(crate) fn inner(&self) -> &'static [SettingSpec] {
        match self.reader {
            SettingReader::InnerTable(settings) => settings,
            SettingReader::Value(_) | SettingReader::Declaration => &[],
        }
    }
}

impl Setting {
    /// Table and name, joined by a dot.
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.table, self.spec.name)
    }

    /// How messages call it.
    pub(crate) fn named(&self) -> String {
        format!("'{}' in [{}]", self.spec.name, self.table)
    }

    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("CONSORT_{}", self.path().to_ascii_uppercase().replace('.', "_"))
    }

    /// Reads the value into the config, or returns what it must be.
    pub(crate) fn read(&self, config: &mut Config, raw: &Raw) -> Result<(), String> {
        match self.spec.reader {
            SettingReader::Value(read) => read(config, raw),
            SettingReader::Declaration | SettingReader::InnerTable(_) => {
                Err("has no reader; this is a defect of Consort, please report it".to_owned())
            }
        }
    }
}

/// The names of some settings.
pub(crate) fn names(settings: &'static [SettingSpec]) -> Vec<&'static str> {
    settings.iter().map(|setting| setting.name).collect()
}

/// A basic TOML string.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
