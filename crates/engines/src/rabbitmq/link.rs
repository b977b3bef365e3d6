//! A connection that is made again whenever it was lost.
//!
//! Whoever needs it first after a loss makes it; the others wait for that attempt and share its
//! outcome. Nothing runs in the background, and a call that finds the broker away says so soon.

use std::sync::Arc;
use std::time::Duration;

use consort_kernel::Fault;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::session::{Declaring, Session};
use super::target::{DIAL_WITHIN, Target};

/// After a failed attempt, how long its fault answers every call. It keeps a broker that comes up from
/// being flooded, and is short against the seconds that one takes to start.
const REDIAL_AFTER: Duration = Duration::from_millis(250);

/// The way to the broker, for one purpose.
#[derive(Debug)]
pub(super) struct Link {
    target: Arc<Target>,
    name: String,
    declaring: Declaring,
    live: Mutex<Option<Arc<Session>>>,
    dialing: tokio::sync::Mutex<Option<Failed>>,
}

#[derive(Debug)]
struct Failed {
    when: Instant,
    fault: Fault,
}

impl Link {
    pub(super) fn new(target: Arc<Target>, name: String, declaring: Declaring) -> Self {
        let (live, dialing) = (Mutex::default(), tokio::sync::Mutex::default());
        Link { target, name, declaring, live, dialing }
    }

    /// The session there is, or a new one.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Fault> {
        let told = |text| format!("cannot connect to RabbitMQ at {:?}: {text}", self.target);
        self.connected().await.map_err(|fault| match fault {
            Fault::Retryable(text) => Fault::Retryable(told(text)),
            Fault::Fatal(text) => Fault::Fatal(told(text)),
        })
    }

    /// The same, with the bare reason where there is none.
    pub(super) async fn connected(&self) -> Result<Arc<Session>, Fault> {
        if let Some(session) = self.live() {
            return Ok(session);
        }
        let Ok(mut failed) = timeout(DIAL_WITHIN, self.dialing.lock()).await else {
            return Err(Fault::Retryable("another call is still trying".into()));
        };
        // Two callers find no session, and one gets the lock and dials. When the other gets the lock,
        // the first has left either a session, which this second look finds, or a fresh failure.
        if let Some(session) = self.live() {
            return Ok(session);
        }
        if let Some(failed) = failed.as_ref().filter(|failed| failed.when.elapsed() < REDIAL_AFTER)
        {
            return Err(failed.fault.clone());
        }
        match self.target.dial(&self.name).await {
            Ok((connection, socket)) => {
                tracing::info!(target = ?self.target, name = self.name, "connected to RabbitMQ");
                let session = Session::start(connection, socket, self.declaring.clone());
                *self.live.lock() = Some(session.clone());
                *failed = None;
                Ok(session)
            }
            Err(fault) => {
                tracing::warn!(target = ?self.target, name = self.name, "no RabbitMQ: {fault}");
                *failed = Some(Failed { when: Instant::now(), fault: fault.clone() });
                Err(fault)
            }
        }
    }

    fn live(&self) -> Option<Arc<Session>> {
        let mut live = self.live.lock();
        if live.as_ref().is_some_and(|session| !session.usable()) {
            // With it go its readers: the next read attaches anew and checks the vouched entry.
            *live = None;
        }
        live.clone()
    }
}
