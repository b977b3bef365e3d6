//! Bounds the text of a document before it is parsed, and normalises its white space.
//!
//! The parser compares each attribute of a tag with all others, so a tag of 200,000 attributes would hold a thread for
//! minutes: attributes are counted first. The parser also leaves two steps of XML to its caller: line ends become
//! `\n` (XML 1.0 §2.11), and white space in a value becomes spaces unless it is written as a reference (§3.3.3).

use crate::bounds::MAX_PIECE;
use crate::{Reason, Rejection};
use std::borrow::Cow;

/// The most attributes and namespace declarations of one element: the parser compares each with each.
pub(super) const MAX_ATTRIBUTES: usize = 256;

/// The text that the parser may read, or the bound or rule that it breaks.
///
/// Text that is not well-formed passes: the parser knows its faults better.
pub(super) fn scan(bytes: &[u8], max_depth: usize) -> Result<Cow<'_, str>, Rejection> {
    if bytes.len() > MAX_PIECE {
        let detail = format!("it has {} bytes, of {MAX_PIECE}", bytes.len());
        return Err(Rejection::new(Reason::PIECE_TOO_LARGE, detail));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Rejection::new(Reason::INVALID_CHARACTER_SET, error.to_string()))?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let text = match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    };
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, depth: 0, max_depth, spaced: None };
    scan.document()?;
    match scan.spaced {
        // Only ASCII white space was replaced by spaces, so the text is UTF-8 still.
        Some(spaced) => Ok(Cow::Owned(String::from_utf8_lossy(&spaced).into_owned())),
        None => Ok(text),
    }
}

/// A walk over the markup.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    max_depth: usize,
    /// The text with spaces for other white space in values, once there is some.
    spaced: Option<Vec<u8>>,
}

impl Scan<'_> {
    fn document(&mut self) -> Result<(), Rejection> {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'&' => self.reference()?,
                b'<' => self.markup()?,
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn markup(&mut self) -> Result<(), Rejection> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(b"<!--") {
            self.skip(4, b"-->");
        } else if rest.starts_with(b"<![CDATA[") {
            self.skip(9, b"]]>");
        } else if rest.starts_with(b"<?") {
            self.skip(2, b"?>");
        } else if rest.starts_with(b"<!DOCTYPE") {
            return Err(entity("it has a document type declaration"));
        } else if rest.starts_with(b"</") {
            self.depth = self.depth.saturating_sub(1);
            self.skip(2, b">");
        } else {
            self.tag()?;
        }
        Ok(())
    }

    /// Goes behind the end of a construct, or to the end of the text if there is none.
    fn skip(&mut self, start: usize, end: &[u8]) {
        let rest = &self.bytes[self.at + start..];
        let found = rest.windows(end.len()).position(|window| window == end);
        self.at += start + found.map_or(rest.len(), |found| found + end.len());
    }

    fn tag(&mut self) -> Result<(), Rejection> {
        let mut attributes = 0;
        self.at += 1;
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' | b'\'' => self.value(*byte)?,
                b'=' => attributes += 1,
                b'>' if self.bytes[self.at - 2] == b'/' => break,
                b'>' => {
                    self.depth += 1;
                    break;
                }
                _ => {}
            }
        }
        if attributes > MAX_ATTRIBUTES {
            let detail = format!("an element has {attributes} attributes, of {MAX_ATTRIBUTES}");
            return Err(Rejection::new(Reason::PIECE_TOO_LARGE, detail));
        }
        if self.depth > self.max_depth {
            let detail = format!("its elements are nested deeper than {}", self.max_depth);
            return Err(Rejection::new(Reason::PIECE_TOO_DEEP, detail));
        }
        Ok(())
    }

    /// Goes behind a quoted value.
    fn value(&mut self, quote: u8) -> Result<(), Rejection> {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'&' => self.reference()?,
                b'\n' | b'\t' => {
                    let spaced = self.spaced.get_or_insert_with(|| self.bytes.to_vec());
                    spaced[self.at] = b' ';
                    self.at += 1;
                }
                byte if *byte == quote => {
                    self.at += 1;
                    break;
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    /// Goes behind the `&` of a reference that needs no declaration.
    fn reference(&mut self) -> Result<(), Rejection> {
        self.at += 1;
        let rest = &self.bytes[self.at..];
        let predefined: [&[u8]; 6] = [b"#", b"lt;", b"gt;", b"amp;", b"apos;", b"quot;"];
        if predefined.iter().any(|start| rest.starts_with(start)) {
            return Ok(());
        }
        let is_name =
            |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte) || *byte >= 0x80;
        let length = rest.iter().take_while(|byte| is_name(byte)).count();
        if length == 0 || rest.get(length) != Some(&b';') {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&rest[..length]);
        Err(entity(format!("the entity {} is not declared", super::quote(&name))))
    }
}

fn entity(detail: impl Into<String>) -> Rejection {
    Rejection::new(Reason::INVALID_ENTITY_DECLARATION, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_normalised_as_xml_says() {
        let cases = [
            ("<a>\r\n\r</a>", "<a>\n\n</a>"),
            ("<a b='1\r\n2\t3\n4'>\t\n</a>", "<a b='1 2 3 4'>\t\n</a>"),
            ("<a\n\tb=\"'\n'\"/>", "<a\n\tb=\"' '\"/>"),
            ("<!-- ' --><a b=\"\t\"/>", "<!-- ' --><a b=\" \"/>"),
            ("<?p '?><a><![CDATA[<b c='\t]]></a>", "<?p '?><a><![CDATA[<b c='\t]]></a>"),
            ("\u{FEFF}<a/>", "<a/>"),
            ("<a b='&#10;&#x9;'/>", "<a b='&#10;&#x9;'/>"),
        ];
        for (text, expected) in cases {
            assert_eq!(scan(text.as_bytes(), 9).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn only_tags_count_for_the_depth() {
        let nested =
            |depth: usize| format!("{}{}", "<a b='/>'>".repeat(depth), "</a>".repeat(depth));
        assert!(scan(nested(3).as_bytes(), 3).is_ok());
        let deep = scan(nested(4).as_bytes(), 3).map(drop).map_err(|rejection| rejection.reason);
        assert_eq!(deep, Err(Reason::PIECE_TOO_DEEP));
        let flat = "<a><b/><b/><b></b><b></b><!--<b><b>--><![CDATA[<b><b>]]><?b <b><b>?></a>";
        assert!(scan(flat.as_bytes(), 2).is_ok());
    }

    #[test]
    fn text_that_ends_in_the_middle_is_left_to_the_parser() {
        for text in
            ["<", "<a", "<a b='", "<!--", "<![CDATA[", "<?", "</", "&", "&a", "&;", "<a b='&", ""]
        {
            assert_eq!(scan(text.as_bytes(), 9).as_deref(), Ok(text));
        }
    }
}
