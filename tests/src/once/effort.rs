//! How often a trial is repeated: few times by default, so that a run of all tests stays short, and as often as
//! the environment says.

/// The number in `variable`, or `usual`.
///
/// # Panics
///
/// If it is set to something that is no number.
pub fn times(variable: &str, usual: usize) -> usize {
    match std::env::var(variable) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number, not {text:?}"))
        }
        Err(_) => usual,
    }
}
