//! The first line of a fenced block: its language, words such as `figure`, and options such as `title="a.toml"`.

/// A parsed first line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) language: String,
    words: Vec<String>,
    options: Vec<(String, String)>,
}

impl Info {
    /// Parses the text behind the fence.
    pub(crate) fn parse(text: &str) -> Result<Info, String> {
        let mut info = Info::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = rest.find([' ', '=']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = match after.strip_prefix('=') {
                Some(after) => {
                    let (value, after) = value(after)?;
                    info.options.push((name.to_owned(), value));
                    after
                }
                None if info.language.is_empty() => {
                    name.clone_into(&mut info.language);
                    after
                }
                None => {
                    info.words.push(name.to_owned());
                    after
                }
            }
            .trim_start();
        }
        Ok(info)
    }

    /// Whether the word stands there.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|found| found == word)
    }

    /// The value of an option.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A word or option that is none of these.
    pub(crate) fn unknown(&self, words: &[&str], options: &[&str]) -> Option<&str> {
        let word = self.words.iter().find(|word| !words.contains(&word.as_str()));
        let option = self.options.iter().map(|(name, _)| name);
        word.or_else(|| option.into_iter().find(|name| !options.contains(&name.as_str())))
            .map(String::as_str)
    }
}

/// A value, in quotes or up to the next blank, and the text behind it.
fn value(text: &str) -> Result<(String, &str), String> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted
            .split_once('"')
            .map(|(value, rest)| (value.to_owned(), rest))
            .ok_or_else(|| format!("the quote at {text} does not end")),
        None => {
            let end = text.find(' ').unwrap_or(text.len());
            Ok((text[..end].to_owned(), &text[end..]))
        }
    }
}
