//! Counts the steps in which work is done, for tests.

use std::pin::pin;
use std::task::Poll;

use futures::poll;

/// The result of work that waits for nothing but its own yields, and their number.
pub(crate) async fn counting_yields<T>(work: impl Future<Output = T>) -> (T, usize) {
    let (mut work, mut yields) = (pin!(work), 0);
    loop {
        match poll!(&mut work) {
            Poll::Ready(result) => return (result, yields),
            Poll::Pending => yields += 1,
        }
    }
}
