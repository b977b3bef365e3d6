//! The nearest right name for a wrong one.

/// The candidate that a slip of the fingers is most likely to have meant, if any is near.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let furthest = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= furthest && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_find_their_name_and_strangers_find_none() {
        let names = ["listen", "tokens", "max_body", "id", "url"];
        for (given, expected) in [
            ("lisen", Some("listen")),
            ("lsiten", Some("listen")),
            ("maxbody", Some("max_body")),
            ("tokns", Some("tokens")),
            ("ul", Some("url")),
            ("password", None),
            ("x", None),
        ] {
            assert_eq!(nearest(given, names), expected, "{given}");
        }
    }
}
