//! The part of once: the first request computes, and all others get its answer. Its background work runs as long
//! as the node does, and releases at a stop what the node still computes.

use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use async_trait::async_trait;
use consort_cluster::Runtime;
use consort_kernel::Turns;
use consort_once::{Once as Handle, Options};
use consort_server::once::{self, Space, Spaces};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{OpenPart, Opening, Part, PartError, Running, StopPhase, link};
use crate::config::{self, OnceConfig, PartConfig};
use crate::services::Services;

/// How long a stop waits for leases to be released. What is not, lapses.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);

/// Answers that are computed once.
#[derive(Debug)]
pub(super) struct Once;

#[async_trait]
impl Part for Once {
    fn config(&self) -> &'static PartConfig {
        &config::once::PART
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let Opening { config, services, metrics, .. } = opening;
        let options = options(config.once(), services).map_err(PartError::failed)?;
        let handle = Handle::new(options);
        let spaces = Spaces::new(once::Options {
            spaces: config.once().spaces.clone(),
            once: handle.clone(),
            metrics,
        });
        let space_link = |space: &Space| {
            let path = format!("/once/{}/", space.name);
            link(path, "a space of answers that are computed once")
        };
        let all = link("/once", "the spaces of answers that are computed once");
        let links = [all].into_iter().chain(config.once().spaces.iter().map(space_link)).collect();
        Ok(OpenPart {
            links,
            routes: spaces.routes(),
            running: Box::new(Background::start(handle)),
            ..OpenPart::default()
        })
    }
}

/// The settings of the node's handle. Computations have threads of their own, so that a herd of requests does not
/// delay the one that computes for it.
fn options(config: &OnceConfig, services: &Services) -> io::Result<Options> {
    let runtime: Arc<dyn Runtime> = match config.spaces.is_empty() {
        true => Arc::clone(&services.runtime),
        false => {
            let half = available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
            services.threads("once", half, Turns::Usual)?
        }
    };
    let (store, entropy) = (Arc::clone(&services.store), Arc::clone(&services.entropy));
    Ok(Options {
        cache_bytes: usize::try_from(config.cache).unwrap_or(usize::MAX),
        waiters: config.waiters,
        waiters_per_key: config.waiters_per_key,
        sole: services.sole,
        ..Options::new(store, runtime, entropy)
    })
}

/// The background work. Dropping it ends it without waiting.
#[derive(Debug)]
struct Background(Option<(oneshot::Sender<()>, JoinHandle<()>)>);

impl Background {
    /// Must be called within a tokio runtime.
    fn start(once: Handle) -> Background {
        let (stop, stopped) = oneshot::channel::<()>();
        // Resolves when the stop is sent, and as well when the node is dropped.
        let ended = tokio::spawn(async move { once.run(async { drop(stopped.await) }).await });
        Background(Some((stop, ended)))
    }
}

impl Running for Background {
    fn stop(&mut self, phase: StopPhase) -> BoxFuture<'_, ()> {
        async move {
            if phase == StopPhase::Computations
                && let Some((stop, ended)) = self.0.take()
            {
                // An error means that it has ended already, as it should.
                let _ = stop.send(());
                report(tokio::time::timeout(RELEASED_WITHIN, ended).await);
            }
        }
        .boxed()
    }
}

fn report(ended: Result<Result<(), tokio::task::JoinError>, tokio::time::error::Elapsed>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(
            %error,
            "the background work of once failed; this is a defect of Consort, please report it"
        ),
        Err(_) => tracing::warn!(
            "what this node computes could not be released; others take over when its leases lapse"
        ),
    }
}
