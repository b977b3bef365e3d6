//! The text of a statement, as far as it must be read before SQLite reads it.

/// Most semicolons of a text. Only triggers have more than one, and SQLite bounds their steps. `rusqlite`
/// prepares the text behind each statement to find a second one, and goes one call deeper for each: without
/// this bound, a text of a hundred thousand statements would overflow the stack.
const SEMICOLONS: usize = 200;

/// Whether the text has more statements than one (H20).
pub(super) fn has_second_statement(sql: &str) -> bool {
    let mut words = Words(sql);
    let is_create = words.next_word().eq_ignore_ascii_case("CREATE");
    let mut second = words.next_word();
    if second.eq_ignore_ascii_case("TEMP") || second.eq_ignore_ascii_case("TEMPORARY") {
        second = words.next_word();
    }
    let most = match is_create && second.eq_ignore_ascii_case("TRIGGER") {
        true => SEMICOLONS,
        false => 1,
    };
    let (mut statements, mut semicolons) = (0, 0);
    let mut rest = Words(sql);
    loop {
        rest.skip_within();
        match rest.0.chars().next() {
            None => break,
            Some(';') => semicolons += 1,
            Some(_) => {
                statements += 1;
                rest.skip_to_semicolon();
                if rest.0.is_empty() {
                    break;
                }
                semicolons += 1;
            }
        }
        rest.0 = &rest.0[1..];
        if statements > most || semicolons > SEMICOLONS {
            return true;
        }
    }
    statements > most
}

/// Whether the text has no statement at all.
pub(super) fn is_blank_text(sql: &str) -> bool {
    let mut words = Words(sql);
    words.skip();
    words.0.is_empty()
}

pub(super) fn is_pragma(sql: &str) -> bool {
    Words(sql).next_word().eq_ignore_ascii_case("PRAGMA")
}

/// The reason against a statement that SQLite would ask the guard about too late, or not at all: `ANALYZE` fills
/// tables that other workers lack (T12), and `REINDEX` of a table without indexes asks nothing.
pub(super) fn forbidden(sql: &str) -> Option<&'static str> {
    let word = Words(sql).next_word().to_ascii_uppercase();
    match word.as_str() {
        "ANALYZE" => Some("ANALYZE is not allowed: run `consort db analyze`"),
        "REINDEX" => Some("REINDEX is not allowed"),
        _ => None,
    }
}

pub(super) fn is_schema_statement(sql: &str) -> bool {
    let mut words = Words(sql);
    let first = words.next_word().to_ascii_uppercase();
    match first.as_str() {
        "CREATE" | "ALTER" | "DROP" => true,
        "PRAGMA" => sets_user_version(words),
        _ => false,
    }
}

fn sets_user_version(mut words: Words<'_>) -> bool {
    let name = words.next_name();
    name.eq_ignore_ascii_case("user_version") && (words.take('=') || words.take('('))
}

/// The value of a `PRAGMA foreign_keys` that sets one.
pub(crate) fn foreign_keys_pragma(sql: &str) -> Option<bool> {
    let mut words = Words(sql);
    let is_pragma = words.next_word().eq_ignore_ascii_case("PRAGMA");
    if !is_pragma || !words.next_name().eq_ignore_ascii_case("foreign_keys") {
        return None;
    }
    if !words.take('=') && !words.take('(') {
        return None;
    }
    let value = words.next_word().to_ascii_uppercase();
    Some(matches!(value.as_str(), "1" | "ON" | "TRUE" | "YES"))
}

/// All words of a text, in upper case; `None` if it has anything else than words, comments and semicolons.
pub(super) fn only_words(sql: &str) -> Option<Vec<String>> {
    /// No statement of words alone has as many.
    const MOST: usize = 8;
    let (mut rest, mut words) = (Words(sql), Vec::new());
    while words.len() < MOST {
        match rest.next_word() {
            "" => return rest.0.is_empty().then_some(words),
            word => words.push(word.to_ascii_uppercase()),
        }
    }
    None
}

/// Whether the text may change something, as far as its words tell: a text that only reads may have one of them as
/// a name.
pub(super) fn may_write(sql: &str) -> bool {
    let mut words = Words(sql);
    match words.next_word().to_ascii_uppercase().as_str() {
        "" | "SELECT" | "VALUES" | "EXPLAIN" => false,
        "WITH" => script_tokens(words.0).any(|(token, _)| is_change(token)),
        "PRAGMA" => sets_user_version(words),
        _ => true,
    }
}

fn is_change(token: ScriptToken<'_>) -> bool {
    let ScriptToken::Word(word) = token else { return false };
    ["INSERT", "UPDATE", "DELETE", "REPLACE"].iter().any(|change| word.eq_ignore_ascii_case(change))
}

/// A piece of a text of multiple statements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScriptToken<'a> {
    Word(&'a str),
    Semicolon,
    /// A quoted name, a literal or another character.
    Other,
}

/// The pieces of a text, each with its end. Blanks and comments are left out.
pub(super) fn script_tokens(sql: &str) -> impl Iterator<Item = (ScriptToken<'_>, usize)> {
    let mut rest = Words(sql);
    std::iter::from_fn(move || {
        rest.skip_within();
        let first = rest.0.chars().next()?;
        let token = match rest.word() {
            "" if first == ';' => ScriptToken::Semicolon,
            "" => ScriptToken::Other,
            word => ScriptToken::Word(word),
        };
        match token {
            ScriptToken::Word(word) => rest.0 = &rest.0[word.len()..],
            ScriptToken::Semicolon | ScriptToken::Other => rest.skip_one(first),
        }
        Some((token, sql.len() - rest.0.len()))
    })
}

/// The words at the beginning of a text of SQL, without blanks and comments.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// Blanks and comments.
    fn skip_within(&mut self) {
        loop {
            let before = self.0;
            self.0 = self.0.trim_start_matches(is_blank);
            self.skip_comment();
            if self.0 == before {
                return;
            }
        }
    }

    fn skip_comment(&mut self) {
        if let Some(comment) = self.0.strip_prefix("--") {
            self.0 = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = self.0.strip_prefix("/*") {
            self.0 = comment.split_once("*/").map_or("", |(_, rest)| rest);
        }
    }

    /// To the next semicolon outside quotes and comments.
    fn skip_to_semicolon(&mut self) {
        while let Some(first) = self.0.chars().next() {
            match first {
                ';' => return,
                _ if self.0.starts_with("--") || self.0.starts_with("/*") => self.skip_comment(),
                _ => self.skip_one(first),
            }
        }
    }

    /// The next character, and the quoted text that it begins.
    fn skip_one(&mut self, first: char) {
        let close = match first {
            '\'' | '"' | '`' => Some(first),
            '[' => Some(']'),
            _ => None,
        };
        let inner = &self.0[first.len_utf8()..];
        self.0 = match close {
            Some(close) => inner.split_once(close).map_or("", |(_, rest)| rest),
            None => inner,
        };
    }

    fn next_word(&mut self) -> &'a str {
        self.skip();
        let word = self.word();
        self.0 = &self.0[word.len()..];
        word
    }

    /// The word at the beginning.
    fn word(&self) -> &'a str {
        let is_inner = |c: char| c.is_alphanumeric() || c == '_';
        let end = self.0.find(|c| !is_inner(c)).unwrap_or(self.0.len());
        &self.0[..end]
    }

    /// A name, without that of the file before it.
    fn next_name(&mut self) -> &'a str {
        let name = self.next_word();
        match self.take('.') {
            true => self.next_word(),
            false => name,
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip();
        match self.0.strip_prefix(wanted) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// SQLite also skips semicolons before a statement.
    fn skip(&mut self) {
        loop {
            let before = self.0;
            self.skip_within();
            self.0 = self.0.trim_start_matches(';');
            if self.0 == before {
                return;
            }
        }
    }
}

/// The blanks of SQLite, and a mark of byte order.
fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{feff}' || c == '\u{b}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_schema_is_recognised_behind_blanks_and_comments() {
        let schema = [
            "CREATE TABLE t (a)",
            " \n-- why\n/* and\nwhy */ alter table t add b",
            ";;drop table t",
            "PRAGMA user_version = 3",
            "pragma main.user_version(3)",
            "PRAGMA user_version/**/=3",
        ];
        let rows = [
            "SELECT 1",
            "",
            "-- CREATE",
            "/* CREATE",
            "PRAGMA user_version",
            "INSERT INTO t VALUES (1)",
        ];
        for sql in schema {
            assert!(is_schema_statement(sql), "{sql}");
        }
        for sql in rows {
            assert!(!is_schema_statement(sql), "{sql}");
        }
    }

    #[test]
    fn a_text_that_may_write_is_told_by_its_words() {
        let writes = [
            "INSERT INTO t VALUES (1)",
            "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
            "CREATE TABLE t (a)",
            "PRAGMA user_version = 3",
            "ATTACH 'x' AS y",
        ];
        let reads = [
            "",
            "SELECT 1",
            "-- INSERT\nVALUES (1)",
            "WITH x AS (SELECT 'DELETE') SELECT * FROM x -- UPDATE",
            "PRAGMA table_info(t)",
            "PRAGMA foreign_keys = on",
            "EXPLAIN DELETE FROM t",
        ];
        assert!(writes.iter().all(|sql| may_write(sql)));
        assert!(!reads.iter().any(|sql| may_write(sql)));
    }

    #[test]
    fn a_pragma_that_sets_foreign_keys_tells_the_value() {
        let cases = [
            ("PRAGMA foreign_keys=off", Some(false)),
            ("pragma main.foreign_keys = ON;", Some(true)),
            ("PRAGMA foreign_keys(0)", Some(false)),
            ("PRAGMA foreign_keys", None),
            ("PRAGMA foreign_key_list(t)", None),
            ("SELECT 1", None),
        ];
        for (sql, expected) in cases {
            assert_eq!(foreign_keys_pragma(sql), expected, "{sql}");
        }
    }

    #[test]
    fn h20_a_second_statement_is_found_and_a_trigger_or_a_quoted_semicolon_is_none() {
        let one = [
            "",
            "SELECT 1",
            ";;SELECT 1;",
            "SELECT ';', \"a;b\", [c;d], `e;f` -- ; SELECT 2",
            "SELECT 1; /* ; */ ;",
            "SELECT 'it''s; one'",
            "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END",
        ];
        for sql in one {
            assert!(!has_second_statement(sql), "{sql}");
        }
        for sql in ["SELECT 1; SELECT 2", "SELECT 1;/**/x", "CREATE TABLE t (a); DROP TABLE t"] {
            assert!(has_second_statement(sql), "{sql}");
        }
        assert!(has_second_statement(&"SELECT 1;".repeat(100_000)));
        assert!(has_second_statement(&";".repeat(100_000)));
        assert!(has_second_statement(&format!("CREATE TRIGGER x {}", "SELECT 1;".repeat(100_000))));
    }
}
