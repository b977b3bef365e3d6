//! The way between a node and the engine: it takes time, and things get lost on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_cluster::Runtime;
use consort_kernel::wake::Wake;
use consort_kernel::{AppendError, CommitError, Fault};
use futures::future::BoxFuture;

use crate::faults::{FaultKind, Faults};
use crate::runtime::NodeRuntime;

/// A waiting read looks again by itself this often, as engines do: a tail that was lost wakes nobody.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// One node's way to the engine.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    runtime: NodeRuntime,
    faults: Arc<Faults>,
}

/// The two ways in which a write can fail by the engine.
pub(crate) trait WriteError: fmt::Display + Send {
    fn failed(fault: Fault) -> Self;
    fn unknown(fault: Fault) -> Self;
}

impl WriteError for CommitError {
    fn failed(fault: Fault) -> Self {
        CommitError::Engine(fault)
    }

    fn unknown(fault: Fault) -> Self {
        CommitError::Unknown(fault)
    }
}

impl WriteError for AppendError {
    fn failed(fault: Fault) -> Self {
        AppendError::Engine(fault)
    }

    fn unknown(fault: Fault) -> Self {
        AppendError::Unknown(fault)
    }
}

/// What a write does to the engine. It may be done by the world when its node is dead.
pub(crate) type Effect<T, E> = BoxFuture<'static, Result<T, E>>;

impl Link {
    pub(crate) fn new(runtime: NodeRuntime, faults: Arc<Faults>) -> Self {
        Link { runtime, faults }
    }

    pub(crate) fn strikes(&self, kind: FaultKind) -> bool {
        self.faults.strikes(kind)
    }

    /// A call that changes something. Before and after `effect` there is time to die.
    pub(crate) async fn write<T, E>(&self, what: &str, effect: Effect<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: WriteError + 'static,
    {
        self.travel().await;
        let result = self.apply(what, effect).await;
        self.note(what, &result);
        self.travel().await;
        result
    }

    async fn apply<T, E>(&self, what: &str, effect: Effect<T, E>) -> Result<T, E>
    where
        T: Send + 'static,
        E: WriteError + 'static,
    {
        if let Some(fatal) = self.faults.fatal(&self.runtime) {
            return Err(E::failed(fatal));
        }
        let unknown = || Err(E::unknown(injected("no answer")));
        if self.strikes(FaultKind::WriteFails) {
            return Err(E::failed(injected("the engine is out of reach")));
        }
        if self.strikes(FaultKind::RequestLost) {
            return unknown();
        }
        if self.strikes(FaultKind::AnswerLost) {
            let lost = effect.await;
            self.note(&format!("{what}, answer lost"), &lost);
            return unknown();
        }
        if self.strikes(FaultKind::Straggles) {
            self.straggle(what, effect);
            return unknown();
        }
        effect.await
    }

    /// Leaves `effect` to the world, which lets it happen some time later.
    fn straggle<T, E>(&self, what: &str, effect: Effect<T, E>)
    where
        T: Send + 'static,
        E: WriteError + 'static,
    {
        let link = self.clone();
        let what = format!("{what}, late");
        let late = self.runtime.handle().sleep(self.faults.lateness());
        self.runtime.handle().spawn("straggler", async move {
            late.await;
            let result = effect.await;
            link.note(&what, &result);
        });
    }

    /// A call that only looks, or whose effect may as well not happen.
    pub(crate) async fn read<T, E>(
        &self,
        what: &str,
        kind: FaultKind,
        look: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        E: From<Fault> + fmt::Display,
    {
        self.travel().await;
        let result = match self.faults.fatal(&self.runtime) {
            Some(fatal) => Err(fatal.into()),
            None if self.strikes(kind) => Err(injected("the engine is out of reach").into()),
            None => look.await,
        };
        self.note(what, &result);
        self.travel().await;
        result
    }

    /// Looks until something is there or `wait` is over, in virtual time: when woken, and by itself.
    pub(crate) async fn look_for<T, E, F>(
        &self,
        wait: Duration,
        listen: impl FnOnce() -> Wake,
        mut look: impl FnMut() -> F,
    ) -> Result<Vec<T>, E>
    where
        F: Future<Output = Result<Vec<T>, E>>,
    {
        let started = self.runtime.elapsed();
        let mut wake = listen();
        loop {
            let found = look().await?;
            let left = wait.saturating_sub(self.runtime.elapsed() - started);
            if !found.is_empty() || left.is_zero() {
                return Ok(found);
            }
            tokio::select! {
                biased;
                () = wake.changed() => {}
                () = self.runtime.sleep(left.min(LOOK_EVERY)) => {}
            }
        }
    }

    /// One way. Even when it takes no time, others may run first.
    async fn travel(&self) {
        self.runtime.sleep(self.faults.delay()).await;
    }

    fn note<T, E: fmt::Display>(&self, what: &str, result: &Result<T, E>) {
        let node = self.runtime.node();
        match result {
            Ok(_) => self.runtime.handle().note(format_args!("node {node}: {what}: ok")),
            Err(error) => self.runtime.handle().note(format_args!("node {node}: {what}: {error}")),
        }
    }
}

fn injected(what: &str) -> Fault {
    Fault::Retryable(format!("{what} (injected)"))
}
