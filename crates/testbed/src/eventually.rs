//! Waiting for a condition: what a test does instead of sleeping.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// Between two looks at a condition. Short, because what is looked at is on this machine.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Something that holds or does not hold yet.
pub trait Condition {
    /// What is known once it holds.
    type Found;

    /// The finding, or nothing as long as the condition does not hold.
    fn found(self) -> Option<Self::Found>;
}

impl Condition for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Condition for Option<T> {
    type Found = T;

    fn found(self) -> Option<T> {
        self
    }
}

impl<T, E> Condition for Result<T, E> {
    type Found = T;

    fn found(self) -> Option<T> {
        self.ok()
    }
}

/// Looks at `condition` again and again until it holds, and returns what was found.
///
/// A look that is still under way at the deadline is given up, so a hanging server cannot hang the
/// test.
///
/// # Panics
///
/// If the condition does not hold `within` that time; the message is `what`, so word it as the
/// sentence that should become true.
pub async fn eventually<C, L, F>(what: &str, within: Duration, mut condition: L) -> C::Found
where
    C: Condition,
    L: FnMut() -> F,
    F: Future<Output = C>,
{
    let deadline = Instant::now() + within;
    loop {
        match tokio::time::timeout_at(deadline, condition()).await.map(C::found) {
            Ok(Some(found)) => return found,
            Ok(None) if Instant::now() < deadline => tokio::time::sleep(LOOK_EVERY).await,
            Ok(None) | Err(_) => panic!("not within {within:?}: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_found_is_returned() {
        let mut looks = 0;
        let found = eventually("the third look finds it", Duration::from_secs(5), || {
            looks += 1;
            let found = (looks == 3).then_some(looks);
            async move { found }
        })
        .await;
        assert_eq!(found, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "not within 30ms: the sun rises in the west")]
    async fn a_condition_that_never_holds_panics_with_its_name() {
        eventually("the sun rises in the west", Duration::from_millis(30), || async { false })
            .await;
    }

    #[tokio::test]
    #[should_panic(expected = "the answer comes")]
    async fn a_look_that_hangs_is_given_up() {
        eventually("the answer comes", Duration::from_millis(30), std::future::pending::<bool>)
            .await;
    }
}
