//! How far the views of each stream are behind, followed all the time: the gates need it, and every answer
//! says it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consort_views::{Definitions, Lag};
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};

use crate::cluster::Cluster;
use crate::streams::Streams;

/// How often the cluster is asked. Nodes say how far behind they are with every heartbeat, twice a second.
const EVERY: Duration = Duration::from_millis(250);

/// The lag of every stream. When all clones are dropped, nobody follows it any more.
#[derive(Clone, Debug)]
pub(super) struct Lags {
    known: Arc<Mutex<BTreeMap<String, Lag>>>,
    _following: Arc<Following>,
}

#[derive(Debug)]
struct Following(tokio::task::JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Lags {
    /// Follows the lag, and tells it to the streams' gates.
    pub(super) fn follow(
        definitions: &Arc<Definitions>,
        cluster: Cluster,
        streams: Streams,
    ) -> Lags {
        let known = Arc::default();
        let following = follow(Arc::clone(definitions), cluster, streams, Arc::clone(&known));
        Lags { known, _following: Arc::new(Following(tokio::spawn(following))) }
    }

    /// The lag of a stream as it was last heard; `None` while nothing is known.
    pub(super) fn of(&self, stream: &str) -> Option<Lag> {
        self.known.lock().get(stream).copied()
    }
}

async fn follow(
    definitions: Arc<Definitions>,
    cluster: Cluster,
    streams: Streams,
    known: Arc<Mutex<BTreeMap<String, Lag>>>,
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // While the cluster cannot be asked, what was known grows old: better nothing than that.
        let Ok(status) = cluster.recent().await else {
            known.lock().clear();
            continue;
        };
        for stream in &definitions.streams {
            let lag = Lag::of(stream, &status);
            known.lock().insert(stream.name.to_string(), lag);
            if let Some(entrance) = streams.entrances().get(stream.name.as_str()) {
                entrance.gate.lag(lag.behind);
            }
        }
    }
}
