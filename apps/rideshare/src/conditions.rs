//! The conditions of `db/read` and `db/write`: `column=value`, joined by ` and `.

/// Between two conditions. A value ends at the next one.
const AND: &str = " and ";

/// A column and the text that it must equal.
pub(crate) type Condition<'a> = (&'a str, &'a str);

/// Splits a text into its conditions, of which there is at least one. Columns and values are as written: nothing is
/// trimmed. Gives nothing if a part has no `=`.
pub(crate) fn split_conditions(text: &str) -> Option<Vec<Condition<'_>>> {
    text.split(AND).map(|condition| condition.split_once('=')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_split_at_and_and_at_the_first_equals_sign() {
        for (text, conditions) in [
            ("username=ann", Some(vec![("username", "ann")])),
            ("username=", Some(vec![("username", "")])),
            ("username= ann ", Some(vec![("username", " ann ")])),
            ("username =ann", Some(vec![("username ", "ann")])),
            ("password=a=b", Some(vec![("password", "a=b")])),
            ("source=1 and destination=2", Some(vec![("source", "1"), ("destination", "2")])),
            ("username=sand and sea", None),
            ("username=sandy", Some(vec![("username", "sandy")])),
            ("username=a and b=c", Some(vec![("username", "a"), ("b", "c")])),
            ("username=a AND b", Some(vec![("username", "a AND b")])),
            ("username=ann;DROP", Some(vec![("username", "ann;DROP")])),
            ("=", Some(vec![("", "")])),
            ("", None),
            ("username", None),
            ("username=a and ", None),
        ] {
            assert_eq!(split_conditions(text), conditions, "{text:?}");
        }
    }
}
