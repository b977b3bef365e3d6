//! Fields and expressions in the settings of streams and views.

use std::ops::Range;

use consort_views::{Expression, ExpressionError};

use super::fields::Fields;
use super::uses;
use crate::config::reader::{Reader, Spanned};
use crate::config::suggest::nearest;

impl Reader<'_> {
    /// The place of the field of this name.
    pub(crate) fn field(
        &mut self,
        setting: &str,
        fields: &Fields,
        name: &Spanned<'_>,
    ) -> Option<usize> {
        let found = fields.schema.find(name.text);
        if found.is_none() {
            self.unknown_field(setting, fields, name.text, name.span, "");
        }
        found
    }

    /// Tells that a stream has no such field, unless that has a cause which is told elsewhere.
    pub(crate) fn unknown_field(
        &mut self,
        setting: &str,
        fields: &Fields,
        name: &str,
        span: &Range<usize>,
        advice: &str,
    ) {
        if fields.excuse(name) {
            return self.excuse();
        }
        if fields.firm.is_some() {
            let reason = format!(
                "'{name}' is not declared: without 'fields' in the stream, 'key', 'id', 'by', 'distinct', 'set' \
                 and 'last' can name a field, which is a text; for more, declare all fields there, as in \
                 fields = {{ {name} = \"int?\" }}"
            );
            return self.explain(setting, span, reason);
        }
        let near = nearest(name, fields.names());
        let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        let known = fields.schema.known();
        self.explain(
            setting,
            span,
            format!("unknown field '{name}'; there are {known}{hint}{advice}"),
        );
    }

    /// An expression over the fields.
    pub(crate) fn expression(
        &mut self,
        setting: &str,
        fields: &Fields,
        text: &Spanned<'_>,
    ) -> Option<Expression> {
        // Of a field that nobody declared nothing is known but that its values can be compared.
        if let Some(firm) = &fields.firm
            && !(uses::BY_VIEW.contains(&setting) && uses::is_plain(text.text))
            && let Err(ExpressionError::UnknownField { name, .. }) =
                Expression::parse(text.text, firm)
        {
            self.unknown_field(setting, fields, &name, text.span, "");
            return None;
        }
        match Expression::parse(text.text, &fields.schema) {
            Ok(expression) => return Some(expression),
            Err(ExpressionError::UnknownField { name, .. }) => {
                self.unknown_field(setting, fields, &name, text.span, "");
            }
            // The parser's reason may have several lines.
            Err(error) => {
                self.explain(setting, text.span, error.to_string().replace('\n', ", "));
            }
        }
        None
    }
}
