//! Finds numbers and positions in JSON text.
//!
//! Nothing here checks the grammar: the text was read already, up to its end or to its first fault.

use std::ops::Range;

/// The number tokens of a text, in its order.
pub(super) struct Numbers<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Numbers<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Numbers { text, at: 0 }
    }
}

impl Iterator for Numbers<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            match *self.text.get(self.at)? {
                b'"' => self.at = string_end(self.text, self.at),
                b'-' | b'0'..=b'9' => {
                    let start = self.at;
                    let rest = &self.text[start..];
                    let length = rest.iter().position(|&byte| !is_of_number(byte));
                    self.at = length.map_or(self.text.len(), |length| start + length);
                    return Some(start..self.at);
                }
                _ => self.at += 1,
            }
        }
    }
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
}

/// The offset behind the string that starts at `start`, or the end of the text.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The JSON pointer to the value or the name at an offset.
pub(super) fn pointer_at(text: &[u8], offset: usize) -> String {
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text[..offset].get(at) {
        let start = at;
        at += 1;
        match (byte, open.last_mut()) {
            (b'{', _) => open.push(Step::Member(None)),
            (b'[', _) => open.push(Step::Element(0)),
            (b'}' | b']', _) => drop(open.pop()),
            (b',', Some(Step::Member(name))) => *name = None,
            (b',', Some(Step::Element(index))) => *index += 1,
            (b'"', step) => {
                at = string_end(text, start);
                if let Some(Step::Member(name @ None)) = step {
                    *name = Some(start..at);
                }
            }
            _ => {}
        }
    }
    open.iter().filter_map(|step| step.token(text)).fold(String::new(), |pointer, token| {
        pointer + "/" + &token.replace('~', "~0").replace('/', "~1")
    })
}

/// The way into one open array or object.
enum Step {
    Element(usize),
    /// The member's name as it is spelled, quotes included. None: behind the last member.
    Member(Option<Range<usize>>),
}

impl Step {
    fn token(&self, text: &[u8]) -> Option<String> {
        match self {
            Step::Element(index) => Some(index.to_string()),
            Step::Member(name) => serde_json::from_slice(text.get(name.clone()?)?).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_outside_of_strings() {
        let text = br#"{"a1":-1.5e+3,"b\"2":[20,"3",true,"\\",4]}"#;
        let found: Vec<_> = Numbers::new(text).map(|token| &text[token]).collect();
        assert_eq!(found, [&b"-1.5e+3"[..], b"20", b"4"]);
    }

    #[test]
    fn a_position_is_told_as_a_pointer() {
        let cases = [
            ("^1", ""),
            ("[1,^2]", "/1"),
            (r#"{"a":{"b":[1,{"c":^2}]}}"#, "/a/b/1/c"),
            (r#"{"a":[1],"b":^2}"#, "/b"),
            (r#"{"a":[1]^,"b":2}"#, "/a"),
            (r#"{"a/~":{"\u0062":^1}}"#, "/a~1~0/b"),
            (r#"["{","]",^1]"#, "/2"),
            (r#"{"a":1,^}"#, ""),
        ];
        for (marked, pointer) in cases {
            let offset = marked.find('^').expect("a mark");
            let text = marked.replace('^', "");
            assert_eq!(pointer_at(text.as_bytes(), offset), pointer, "{marked}");
        }
    }
}
