//! How long partitions had no owner when they moved, as nodes show it in `/cluster` while the trial goes on: the pause of
//! each tenure of a worker, to the millisecond.

use std::time::Duration;

use consort_cluster::PauseCause;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster::operator;
use crate::scaling::pauses::Pauses;

/// Between two looks: shorter than a tenure lasts, so that hardly any pause is missed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks at the cluster until it is stopped.
#[derive(Debug)]
pub(super) struct PauseWatch {
    stop: watch::Sender<bool>,
    looking: JoinHandle<Pauses>,
}

impl PauseWatch {
    /// Asks whatever node is behind this address.
    pub(super) fn start(address: String) -> PauseWatch {
        let (stop, stopped) = watch::channel(false);
        let looking = tokio::spawn(async move {
            let mut pauses = Pauses::default();
            while !*stopped.borrow() {
                if let Ok(cluster) = operator::cluster(&address).await {
                    pauses.note(&cluster);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            pauses
        });
        PauseWatch { stop, looking }
    }

    /// What was seen, for people. Partitions must have been handed over and taken over.
    pub(super) async fn stop(self) -> String {
        self.stop.send_replace(true);
        let pauses = self.looking.await.expect("looking does not panic");
        for cause in [PauseCause::HandedOver, PauseCause::TakenOver] {
            assert!(!pauses.of_cause(cause).is_empty(), "no partition was {}", cause.as_str());
        }
        format!("pauses of partitions: {}", pauses.report())
    }
}
