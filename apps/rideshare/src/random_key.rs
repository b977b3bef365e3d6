//! Idempotency keys.

/// A key that no other write has: 128 random bits.
pub(crate) fn random_key() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_texts_that_differ() {
        let (first, second) = (random_key(), random_key());
        assert_ne!(first, second);
        assert_eq!(first.len(), 32);
        assert!(first.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
