//! The seed of a test that goes by chance: printed, and taken from the environment to see a failure
//! again.

/// The variable that gives the seed.
const VARIABLE: &str = "CONSORT_TESTBED_SEED";

/// The seed for this run, printed with `test` so that a failure names it.
///
/// # Panics
///
/// If the variable is set to something that is no number.
pub fn seed(test: &str) -> u64 {
    let seed = match std::env::var(VARIABLE) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{VARIABLE} is a whole number, not {text:?}"))
        }
        Err(_) => rand::random(),
    };
    eprintln!("{test}: {VARIABLE}={seed}");
    seed
}
