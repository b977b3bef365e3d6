//! Looks at the cluster, shared by all who ask at about the same time.
//!
//! A look reads every cell of the cluster, so the number of looks must not follow the number of requests:
//! one is under way at a time, and whoever waited for it takes what it found, a failure as well.

use std::sync::Arc;
use std::time::Duration;

use consort_cluster::ClusterStatus;
use consort_kernel::Fault;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How old an answer may be. Nodes renew what they say every half second, so it costs no truth.
pub(super) const FRESH_FOR: Duration = Duration::from_millis(200);

/// How long a look may take, the wait for another's included: people wait, and so does a connection.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Looks {
    last: Mutex<Option<Look>>,
}

#[derive(Debug)]
struct Look {
    began: Instant,
    found: Found,
}

type Found = Result<Arc<ClusterStatus>, Fault>;

impl Looks {
    /// What a look finds that began at `not_before` or later; `read` makes one if there is none.
    pub(super) async fn look<Reading>(
        &self,
        not_before: Instant,
        read: impl FnOnce() -> Reading,
    ) -> Found
    where
        Reading: Future<Output = Result<ClusterStatus, Fault>>,
    {
        let look = async {
            let mut last = self.last.lock().await;
            if let Some(look) = &*last
                && look.began >= not_before
            {
                return look.found.clone();
            }
            let began = Instant::now();
            let found = read().await.map(Arc::new);
            *last = Some(Look { began, found: found.clone() });
            found
        };
        let late = || Err(Fault::Retryable(format!("no answer within {LOOK_WITHIN:?}")));
        tokio::time::timeout(LOOK_WITHIN, look).await.unwrap_or_else(|_| late())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::future::join_all;

    use super::*;

    fn status(now: u64) -> ClusterStatus {
        ClusterStatus { now, ..ClusterStatus::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_askers_cost_one_look() {
        let (looks, reads) = (Looks::default(), Cell::new(0));
        let read = async || {
            reads.set(reads.get() + 1);
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(status(reads.get()))
        };
        let since = Instant::now();
        let all = join_all((0..1000).map(|_| looks.look(since, read))).await;
        assert_eq!(reads.get(), 1);
        assert!(all.iter().all(|found| found.as_ref().is_ok_and(|status| status.now == 1)));

        tokio::time::sleep(FRESH_FOR).await;
        let later = looks.look(Instant::now(), read).await;
        assert_eq!(later.map(|status| status.now), Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_and_one_that_hangs_is_given_up() {
        let looks = Looks::default();
        let since = Instant::now();
        let gone = Fault::Retryable("gone".into());
        let failing = async || Err(gone.clone());
        assert_eq!(looks.look(since, failing).await, Err(gone.clone()));
        let unread = async || panic!("the failure was known");
        assert_eq!(looks.look(since, unread).await, Err(gone.clone()));

        tokio::time::sleep(FRESH_FOR).await;
        let hung = looks.look(Instant::now(), std::future::pending).await;
        assert_eq!(hung, Err(Fault::Retryable("no answer within 5s".into())));
        let well = looks.look(Instant::now(), async || Ok(status(7))).await;
        assert_eq!(well.map(|status| status.now), Ok(7));
    }
}
