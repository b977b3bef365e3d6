//! Texts of more than one statement, cut at the ends of the statements.

use super::text::{ScriptToken, script_tokens};

/// The statements of a text, without those that are blank. The cut takes one pass, whatever the text.
pub fn statements(script: &str) -> Vec<&str> {
    let mut cut = ScriptCut::default();
    let (mut found, mut start) = (Vec::new(), 0);
    for (token, end) in script_tokens(script) {
        if cut.ends_with(token) {
            found.extend(cut.has_words.then(|| script[start..end].trim()));
            (cut, start) = (ScriptCut::default(), end);
        }
    }
    found.extend(cut.has_words.then(|| script[start..].trim()));
    found
}

/// The statement that a walk over a text is in.
#[derive(Default)]
struct ScriptCut {
    has_words: bool,
    /// Its first words, as far as they tell a trigger.
    place: usize,
    is_trigger: bool,
    /// How far it has come in the end of a trigger: `; END ;`.
    end: TriggerEnd,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum TriggerEnd {
    #[default]
    None,
    Semicolon,
    End,
}

impl ScriptCut {
    /// Whether the statement ends with this token.
    fn ends_with(&mut self, token: ScriptToken<'_>) -> bool {
        let before = std::mem::take(&mut self.end);
        match token {
            ScriptToken::Semicolon if !self.is_trigger || before == TriggerEnd::End => return true,
            ScriptToken::Semicolon => self.end = TriggerEnd::Semicolon,
            ScriptToken::Word(word) => {
                self.has_words = true;
                if before == TriggerEnd::Semicolon && word.eq_ignore_ascii_case("END") {
                    self.end = TriggerEnd::End;
                }
                self.note_first(word);
            }
            ScriptToken::Other => {
                self.has_words = true;
                self.place = usize::MAX;
            }
        }
        false
    }

    fn note_first(&mut self, word: &str) {
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        self.place = match self.place {
            0 if is("CREATE") => 1,
            1 if is("TEMP") || is("TEMPORARY") => 2,
            1 | 2 if is("TRIGGER") => {
                self.is_trigger = true;
                usize::MAX
            }
            _ => usize::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_cut_at_the_ends_of_its_statements() {
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            (" ;; -- only words; no statement\n /* ; */ ;", &[]),
            ("SELECT 1", &["SELECT 1"]),
            ("SELECT 1; SELECT 2;", &["SELECT 1;", "SELECT 2;"]),
            (
                "SELECT ';', \"a;b\", [c;d], `e;f` -- ;\n; SELECT 2",
                &["SELECT ';', \"a;b\", [c;d], `e;f` -- ;\n;", "SELECT 2"],
            ),
            (
                "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; SELECT CASE 1 WHEN 1 THEN 2 END; END; SELECT 3",
                &[
                    "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; SELECT CASE 1 WHEN 1 THEN 2 END; END;",
                    "SELECT 3",
                ],
            ),
            (
                "create temp trigger x begin select 1; end; select 3",
                &["create temp trigger x begin select 1; end;", "select 3"],
            ),
            (
                "BEGIN; INSERT INTO t VALUES (1); END; SELECT 1",
                &["BEGIN;", "INSERT INTO t VALUES (1);", "END;", "SELECT 1"],
            ),
            (
                "(1); 'x'; SELECT 'unclosed; SELECT 2",
                &["(1);", "'x';", "SELECT 'unclosed; SELECT 2"],
            ),
        ];
        for (script, expected) in cases {
            assert_eq!(statements(script), expected, "{script}");
        }
    }

    #[test]
    fn a_long_script_takes_one_pass() {
        let quoted = format!("SELECT '{}'", ";".repeat(2_000_000));
        assert_eq!(statements(&quoted), [quoted.as_str()]);
        let trigger = format!("CREATE TRIGGER x BEGIN {}", "SELECT 1;".repeat(200_000));
        assert_eq!(statements(&trigger), [trigger.as_str()]);
    }
}
