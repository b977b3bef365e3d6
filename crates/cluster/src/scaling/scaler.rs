//! The scaler: the role that decides how many nodes the cluster wants, and keeps the decision in its cell.
//!
//! The cell names the epoch of its writer, and a commit expects the cell as it was read. So an owner that was paused
//! past its lease cannot overwrite the decision of the next one:
//!
//! 1. The old owner reads the cell and is paused.
//! 2. The new owner commits its decision.
//! 3. The old owner wakes up and commits: the cell is no longer as it read it, and the store refuses the commit.
//! 4. It reads again, finds a higher epoch, and leaves the cell alone.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::{Fault, Store};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::cell::ScaleCell;
use super::rule::decide;
use super::settings::ScaleSettings;
use super::signal::ScaleSignal;
use crate::change::{Move, Outcome, change};
use crate::format::encode;
use crate::keys;
use crate::role::Role;
use crate::roster::Roster;
use crate::runtime::Runtime;
use crate::tenure::{Ended, Part, Tenure};

/// The kind of the role.
pub const KIND: &str = "scaler";

/// How often it decides: twice within the time for which pressure must last.
pub const DECIDE_EVERY: Duration = Duration::from_secs(5);

/// How soon it looks again when another wrote the cell, or the store failed.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The one role of the kind.
pub fn role() -> Role {
    Role::new(KIND, "cluster")
}

/// What a scaler needs.
#[derive(Clone, Debug)]
pub struct ScalerOptions {
    /// Where the cluster's cells are.
    pub store: Arc<dyn Store>,
    /// Timers.
    pub runtime: Arc<dyn Runtime>,
    /// The bounds.
    pub settings: ScaleSettings,
}

/// The part of a node that brings the scaler's role.
#[derive(Clone, Debug)]
pub struct Scaler(Arc<ScalerOptions>);

/// What came of one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The decision was written.
    Decided,
    /// Another scaler wrote the cell meanwhile.
    Overtaken,
    /// The cell is of a newer scaler.
    Superseded,
}

impl Scaler {
    /// A scaler that decides within these settings.
    pub fn new(options: ScalerOptions) -> Scaler {
        Scaler(Arc::new(options))
    }

    async fn run(self, tenure: Tenure) -> Ended {
        let (epoch, runtime) = (tenure.epoch(), Arc::clone(&self.0.runtime));
        let round = || async {
            match self.look(epoch).await {
                Ok(Look::Decided) => (None, DECIDE_EVERY),
                Ok(Look::Overtaken) => (None, RETRY_AFTER),
                // This node will hear soon that it lost the lease.
                Ok(Look::Superseded) => (Some("a newer scaler has decided".into()), DECIDE_EVERY),
                Err(fault) => (Some(fault.to_string()), RETRY_AFTER),
            }
        };
        tenure.rounds(&*runtime, round).await
    }

    /// Decides once, under this epoch of the lease.
    pub(super) async fn look(&self, epoch: u64) -> Result<Look, Fault> {
        let roster = Roster::read(&*self.0.store).await?;
        self.decide(&roster, epoch).await
    }

    /// Decides from what `roster` shows.
    pub(super) async fn decide(&self, roster: &Roster, epoch: u64) -> Result<Look, Fault> {
        let key = keys::scale();
        if let Some(cell) = roster.unreadable.iter().find(|cell| cell.key == key) {
            return Err(Fault::Retryable(format!(
                "the last decision cannot be read: {}",
                cell.reason
            )));
        }
        let before = roster.scale.as_ref();
        if before.is_some_and(|found| found.value.epoch > epoch) {
            return Ok(Look::Superseded);
        }
        let previous = before.map(|found| &found.value.state);
        let signal = ScaleSignal::from_roster(roster);
        let state = decide(&signal, previous, &self.0.settings, roster.now);
        if previous.is_none_or(|previous| previous.wanted != state.wanted) {
            let limited_by = state.limited_by.map(|limit| limit.as_str());
            tracing::info!(wanted = state.wanted, why = %state.why, limited_by, "nodes wanted");
        }
        let to = Some(encode(&ScaleCell { epoch, state }));
        let step = Move { key, from: before.map(|found| found.stored.clone()), to };
        match change(&*self.0.store, &[step], vec![]).await {
            Outcome::Done => Ok(Look::Decided),
            Outcome::Seen(_) => Ok(Look::Overtaken),
            Outcome::Failed(fault) => Err(fault),
        }
    }
}

impl Part for Scaler {
    fn roles(&self) -> Vec<Role> {
        vec![role()]
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        self.clone().run(tenure).boxed()
    }
}
