//! Ingress: the way into a stream's log for any part. It admits records by the stream's gate, queues them by
//! partition, keeps the order of a request, remembers idempotency keys, counts, and knows how far the stream's
//! workers are behind.
//!
//! It knows no part: a part describes its stream by an [`IngressSpec`], makes records of its requests, picks their
//! partitions, and words the answers.

mod batch;
mod bulk;
mod demand;
mod keys;
mod lag;
mod metrics;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use consort_cluster::{
    Appending, Collector, Lag, PartitionQueue, Place, Runtime, StoreTime, StreamInput, SubmitError,
    SubmitOptions,
};
use consort_kernel::{Entropy, Name, Partition, Records, Store};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::cluster::Cluster;
use crate::gate::{Admission, Gate, GateKind, GateMetrics, Refused};
use crate::metrics::Metrics;
pub use batch::Batch;
pub use bulk::{BulkFailure, BulkOutcome, BulkSender};
pub use demand::OverloadDemand;
use keys::IdempotencyKeys;
pub(crate) use keys::VERSION as KEYS_VERSION;
pub use keys::{ClaimError, Keyed};
use lag::{Followed, LagFollower};
use metrics::IngressCounts;
pub use metrics::IngressMetrics;

/// How long a post may take in all: the gate's wait, the claim of its key, and the log's answer. No try to append its
/// records is sent later. The node's appender must give a frame up within this time, so that a post hears the log's
/// last word.
pub const POST_WITHIN: Duration = Duration::from_secs(10);

/// What a stream needs of its ingress.
#[derive(Clone, Debug)]
pub struct IngressSpec {
    /// The stream in the log.
    pub stream: Name,
    /// Over how many partitions it is spread.
    pub partitions: u32,
    /// How the gate meets overload.
    pub gate: GateKind,
    /// For how long the stream's workers know an idempotency key.
    pub keys_for: Duration,
}

/// What the ingresses of a node are built on.
#[derive(Debug)]
pub struct IngressOptions<'a> {
    /// Appends.
    pub collector: Collector,
    /// Keeps idempotency keys.
    pub store: Arc<dyn Store>,
    /// Timers.
    pub runtime: Arc<dyn Runtime>,
    /// Randomness for the gates.
    pub entropy: Arc<dyn Entropy>,
    /// Where their figures are shown.
    pub metrics: &'a mut Metrics,
}

/// The ingresses of a node; all clones are of the same ones.
#[derive(Clone)]
pub struct Ingresses(Arc<Shared>);

struct Shared {
    collector: Collector,
    store: Arc<dyn Store>,
    time: StoreTime,
    entropy: Arc<dyn Entropy>,
    gates: GateMetrics,
    counts: IngressCounts,
    opened: Followed,
    follower: OnceLock<LagFollower>,
}

impl Ingresses {
    /// Opens none yet.
    pub fn new(options: IngressOptions<'_>) -> Ingresses {
        let IngressOptions { collector, store, runtime, entropy, metrics } = options;
        Ingresses(Arc::new(Shared {
            collector,
            time: StoreTime::new(Arc::clone(&store), runtime),
            store,
            entropy,
            gates: GateMetrics::register(metrics),
            counts: IngressCounts::register(metrics.registry()),
            opened: Followed::default(),
            follower: OnceLock::new(),
        }))
    }

    /// Opens the ingress of a stream. A stream is opened once.
    pub fn open(&self, spec: IngressSpec) -> Ingress {
        let Shared { collector, store, time, entropy, gates, counts, opened, .. } = &*self.0;
        let IngressSpec { stream, partitions, gate, keys_for } = spec;
        let partition = |index| Partition::new(stream.clone(), index);
        let keys = IdempotencyKeys {
            store: Arc::clone(store),
            time: time.clone(),
            stream: stream.clone(),
            keys_for,
        };
        let ingress = Ingress(Arc::new(Inner {
            gate: Gate::new(stream.as_str(), gate, Arc::clone(entropy), gates),
            queues: (0..partitions).map(|index| collector.queue(&partition(index))).collect(),
            metrics: counts.of_stream(stream.as_str()),
            demand: OverloadDemand::default(),
            lag: Mutex::default(),
            keys,
            stream,
        }));
        opened.lock().insert(ingress.stream().clone(), ingress.clone());
        ingress
    }

    /// Begins to follow the lag of all streams, those opened later included, for as long as a clone of this lives,
    /// and tells it to their gates. Must be called within a tokio runtime; further calls change nothing.
    pub fn follow_lag(&self, cluster: Cluster) {
        self.0.follower.get_or_init(|| LagFollower::start(Arc::clone(&self.0.opened), cluster));
    }

    /// What came in for each stream on this node, for the scaling signal.
    pub fn inputs(&self) -> Vec<StreamInput> {
        let input = |ingress: &Ingress| StreamInput {
            stream: ingress.stream().to_string(),
            accepted: ingress.metrics().accepted.get(),
            refused: ingress.demand().refused(),
            delayed: ingress.demand().delayed(),
        };
        self.0.opened.lock().values().map(input).collect()
    }

    /// The lag of a stream as it was last heard; `None` while nothing is known.
    pub fn lag(&self, stream: &Name) -> Option<Lag> {
        self.0.opened.lock().get(stream).and_then(Ingress::lag)
    }
}

impl fmt::Debug for Ingresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.opened.lock().keys()).finish()
    }
}

/// The ingress of one stream; all clones are of the same one.
#[derive(Clone)]
pub struct Ingress(Arc<Inner>);

struct Inner {
    stream: Name,
    gate: Gate,
    /// By the partitions' numbers.
    queues: Vec<PartitionQueue>,
    keys: IdempotencyKeys,
    metrics: IngressMetrics,
    demand: OverloadDemand,
    lag: Mutex<Option<Lag>>,
}

/// Why records were not appended, or not for certain.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IngressError {
    /// The gate refused them.
    #[error(transparent)]
    Overloaded(Refused),
    /// Their idempotency key could not be claimed. They are not stored.
    #[error(transparent)]
    Key(#[from] ClaimError),
    /// The log did not take them, or not for certain.
    #[error(transparent)]
    Append(#[from] SubmitError),
}

impl Ingress {
    /// The stream.
    pub fn stream(&self) -> &Name {
        &self.0.stream
    }

    /// Over how many partitions it is spread.
    pub fn partitions(&self) -> u32 {
        self.0.queues.len() as u32
    }

    /// What this node counts of the stream's input.
    pub fn metrics(&self) -> &IngressMetrics {
        &self.0.metrics
    }

    /// The demand beyond what was accepted. Whatever holds input back for overload notes it here.
    pub fn demand(&self) -> &OverloadDemand {
        &self.0.demand
    }

    /// How far the stream's workers are behind; `None` while nothing is known.
    pub fn lag(&self) -> Option<Lag> {
        *self.0.lag.lock()
    }

    /// Tells the lag in place of a cluster.
    #[cfg(test)]
    pub(crate) fn set_lag(&self, lag: Lag) {
        *self.0.lag.lock() = Some(lag);
    }

    /// The stream's gate, for parts that admit and append in steps of their own.
    pub fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// Has records appended to a partition, without asking the gate: see [`PartitionQueue::enqueue`].
    pub fn enqueue(
        &self,
        partition: u32,
        records: Records,
        options: SubmitOptions<'_>,
    ) -> Result<Appending, SubmitError> {
        self.0.queues[partition as usize].enqueue(records, options)
    }

    /// Appends the records of a small request to one partition: through the gate, with its key if it has one, and by
    /// its deadline. What comes of it is counted.
    pub async fn append(
        &self,
        partition: u32,
        records: Records,
        keyed: Option<Keyed<'_>>,
        deadline: Instant,
    ) -> Result<Place, IngressError> {
        let count = records.len() as u64;
        let metrics = &self.0.metrics;
        let entered = self.0.gate.enter(count, deadline).await;
        let mut admission = entered.map_err(|refused| {
            self.demand().note_refused(count);
            IngressError::Overloaded(refused)
        })?;
        if admission.has_waited() {
            self.demand().note_delayed(count);
        }
        if let Some(keyed) = keyed {
            // Apart: most posts have no key, and should not take the room for it. The gate measures the log alone.
            admission = Box::pin(self.claim(keyed, deadline, admission)).await?;
        }
        match self.submit(partition, records, deadline).await {
            Ok(place) => {
                admission.done(count);
                metrics.accepted.inc_by(count);
                Ok(place)
            }
            Err(error) => {
                admission.failed();
                metrics.unappended.inc_by(count);
                Err(error.into())
            }
        }
    }

    async fn claim(
        &self,
        keyed: Keyed<'_>,
        deadline: Instant,
        admission: Admission,
    ) -> Result<Admission, ClaimError> {
        let claimed = self.0.keys.claim(keyed, deadline).await;
        match &claimed {
            Ok(()) => {}
            Err(ClaimError::Reused) => {
                self.0.metrics.rejected.inc();
            }
            Err(ClaimError::Unsettled(_)) => {
                self.0.metrics.unappended.inc();
            }
        }
        claimed.map(|()| admission.timed_from_now())
    }

    async fn submit(
        &self,
        partition: u32,
        records: Records,
        deadline: Instant,
    ) -> Result<Place, SubmitError> {
        let within = Some(deadline.saturating_duration_since(Instant::now()));
        let mut appending =
            self.enqueue(partition, records, SubmitOptions { within, ticket: None })?;
        match timeout_at(deadline, &mut appending).await {
            Ok(settled) => settled,
            Err(_) => appending.withdraw(),
        }
    }

    /// For the records of one large request.
    pub fn bulk(&self) -> BulkSender<'_> {
        BulkSender::new(self)
    }
}

impl fmt::Debug for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingress").field("stream", &self.0.stream).finish_non_exhaustive()
    }
}
