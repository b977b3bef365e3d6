//! `If-Match` and `If-None-Match`.

use axum::http::{HeaderMap, HeaderName, header};
use consort_glue::DocumentTag;
use consort_glue::stored::record::Condition;

use crate::problem::Problem;
use crate::problems;

/// The condition of a piece.
pub(super) fn of_piece(headers: &HeaderMap) -> Result<Option<Condition>, Problem> {
    let if_match = one(headers, &header::IF_MATCH)?;
    let if_none_match = one(headers, &header::IF_NONE_MATCH)?;
    match (if_match, if_none_match) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(Condition::Exists)),
        (Some(tag), None) => parse_tag(tag).map(|tag| Some(Condition::Is(tag))),
        (None, Some("*")) => Ok(Some(Condition::Absent)),
        (None, Some(_)) => Err(wrong(
            "'If-None-Match' of a piece is '*': the document is created, and none is changed",
        )),
        (Some(_), Some(_)) => Err(wrong("send 'If-Match' or 'If-None-Match', not both")),
    }
}

/// Whether a reader has this state already.
pub(super) fn has_already(headers: &HeaderMap, tag: DocumentTag) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    // Weak comparison, as RFC 9110 §13.1.2 asks.
    tags.any(|given| {
        let given = given.trim();
        given == "*" || parse_tag(given.strip_prefix("W/").unwrap_or(given)) == Ok(tag)
    })
}

/// A tag in quotes, or without.
pub(super) fn parse_tag(text: &str) -> Result<DocumentTag, Problem> {
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    bare.parse().map_err(|error| {
        wrong(format!("{error}; send the 'ETag' of the document as it was given, or '*'"))
    })
}

/// The `ETag` of a state.
pub(super) fn quoted(tag: DocumentTag) -> String {
    format!("\"{tag}\"")
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let text = value.to_str().map_err(|_| wrong(format!("'{name}' is not ASCII text")))?;
            Ok(Some(text.trim()))
        }
        (Some(_), Some(_)) => Err(wrong(format!("'{name}' came twice"))),
    }
}

fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(problems::CONDITION, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "3-0-41872-5.7";

    fn headers(given: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs = given.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        pairs.collect()
    }

    #[test]
    fn a_piece_has_one_condition() {
        let quoted = format!("\"{TAG}\"");
        let is = Condition::Is(TAG.parse().unwrap());
        for (given, expected) in [
            (vec![], Ok(None)),
            (vec![(header::IF_MATCH, "*")], Ok(Some(Condition::Exists))),
            (vec![(header::IF_MATCH, &quoted[..])], Ok(Some(is))),
            (vec![(header::IF_NONE_MATCH, "*")], Ok(Some(Condition::Absent))),
            (vec![(header::IF_NONE_MATCH, &quoted)], Err(400)),
            (vec![(header::IF_MATCH, "\"x\"")], Err(400)),
            (vec![(header::IF_MATCH, "*"), (header::IF_NONE_MATCH, "*")], Err(400)),
        ] {
            let condition = of_piece(&headers(&given)).map_err(|problem| problem.status().as_u16());
            assert_eq!(condition, expected, "{given:?}");
        }
    }

    #[test]
    fn a_reader_may_have_one_of_several_states() {
        let tag: DocumentTag = TAG.parse().unwrap();
        for (given, has) in [
            (format!("\"{TAG}\""), true),
            (format!("W/\"{TAG}\""), true),
            (format!("\"1-0-1-0.1\", \"{TAG}\""), true),
            ("*".to_owned(), true),
            ("\"1-0-1-0.1\"".to_owned(), false),
            ("nonsense".to_owned(), false),
        ] {
            assert_eq!(
                has_already(&headers(&[(header::IF_NONE_MATCH, &given)]), tag),
                has,
                "{given}"
            );
        }
    }
}
