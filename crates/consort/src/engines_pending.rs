//! Stands in for `consort_engines` until that crate is there: the same names, the memory engine
//! only.

use std::path::PathBuf;
use std::sync::Arc;

use consort_kernel::{Log, Poison, Store, SystemClock, memory};

#[expect(dead_code, reason = "the memory engine needs few of them")]
pub(crate) struct Options {
    pub(crate) url: String,
    pub(crate) broker: Option<String>,
    pub(crate) namespace: String,
    pub(crate) shards: u16,
    pub(crate) durability: Durability,
    pub(crate) allow_volatile: bool,
    pub(crate) tls_ca: Option<PathBuf>,
}

pub(crate) enum Durability {
    Fsync,
    Process,
}

pub(crate) struct Engine {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) poison: Poison,
    pub(crate) report: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(String);

pub(crate) async fn open(options: &Options) -> Result<Engine, OpenError> {
    let Options { url, broker, namespace: _, shards, durability: _, allow_volatile: _, tls_ca: _ } =
        options;
    if url != "memory:" || broker.is_some() {
        return Err(OpenError("only memory: can be opened until the engines are wired".to_owned()));
    }
    let (log, store) = memory::open(*shards, Arc::new(SystemClock::default()));
    let report = vec!["memory: keeps nothing; everything is gone when the process ends".to_owned()];
    Ok(Engine { log: Arc::new(log), store: Arc::new(store), poison: Poison::new(), report })
}
