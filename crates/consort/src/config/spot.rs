//! Places in a config file: line, column, and the line itself as far as it may be shown.

use std::collections::BTreeSet;
use std::ops::Range;

use super::catalog::Catalog;
use super::problem::{Place, Spot};
use super::{ConfigFile, redact};

/// Makes places of spans.
pub(crate) struct Spots<'a> {
    file: &'a ConfigFile,
    catalog: &'a Catalog,
    /// Lines that hold nothing but declarations without secrets.
    harmless: BTreeSet<usize>,
}

impl<'a> Spots<'a> {
    /// `harmless` are the spans of what may be shown, `other` those of everything else: a line that has
    /// part in both is not shown.
    pub(crate) fn new(
        file: &'a ConfigFile,
        catalog: &'a Catalog,
        harmless: &[Range<usize>],
        other: &[Range<usize>],
    ) -> Spots<'a> {
        let mut spots = Spots { file, catalog, harmless: BTreeSet::new() };
        let lines = |spans: &[Range<usize>]| -> BTreeSet<usize> {
            spans.iter().flat_map(|span| spots.line(span.start)..=spots.line(span.end)).collect()
        };
        spots.harmless = &lines(harmless) - &lines(other);
        spots
    }

    /// The line of an offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.file.text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
    }

    /// The span's line and column, both from 1, and its line with a mark under the span.
    pub(crate) fn place(&self, span: &Range<usize>) -> Place {
        let text = &self.file.text;
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_text = text[line_start..].lines().next().unwrap_or_default();
        let line = self.line(line_start);
        let column = text[line_start..start].chars().count() + 1;
        let end = text
            .floor_char_boundary(span.end.clamp(start, (line_start + line_text.len()).max(start)));
        let width = text[start..end].chars().count().max(1);
        let shown = match self.harmless.contains(&line) {
            true => redact::declaration(line_text, self.catalog),
            false => redact::line(line_text, self.catalog),
        };
        Place::File(Spot {
            line,
            column,
            file: self.file.name.clone(),
            excerpt: excerpt(line, line_text, shown, column, width),
        })
    }
}

fn excerpt(line: usize, text: &str, shown: String, column: usize, width: usize) -> String {
    let (mut column, mut width) = (column, width);
    // Where the line was redacted, the mark goes under what stands for the secret.
    if shown != text && column > shown.find(redact::HIDDEN).unwrap_or(shown.len()) {
        column = shown.find(redact::HIDDEN).map_or(1, |at| shown[..at].chars().count() + 1);
        width = redact::HIDDEN.len();
    }
    if shown != text {
        width = width.min((shown.chars().count() + 1).saturating_sub(column)).max(1);
    }
    let shown = shown.replace('\t', " ");
    let margin = " ".repeat(line.to_string().len());
    let mark = format!("{}{}", " ".repeat(column - 1), "^".repeat(width));
    format!("  {line} | {shown}\n  {margin} | {mark}")
}
