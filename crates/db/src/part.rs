//! The roles of databases: a worker for each wanted slot, and a supervisor for each database.

use std::sync::Arc;

use consort_cluster::{Ended, Part, Role, Tenure};
use consort_kernel::{Expect, Operation};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::db::{Database, Databases};
use crate::head::DbHead;
use crate::settings::DatabaseSettings;
use crate::snapshot::making::keep_snapshots;
use crate::snapshot::verify::keep_verified;
use crate::store::{CellsAnswer, DbStoreError};
use crate::supervise::counting::keep_counts;
use crate::supervise::run::supervise;
use crate::supervise::wanted::WantedWorkers;
use crate::worker::work_slot;

/// The kind of the roles of workers: `db-worker:NAME/SLOT`.
pub const WORKER: &str = "db-worker";
/// The kind of the roles of supervisors: `db-supervisor:NAME`.
pub const SUPERVISOR: &str = "db-supervisor";

/// The workload of databases.
#[derive(Clone, Debug)]
pub struct DbPart(Databases);

impl DbPart {
    /// The roles of these databases.
    pub fn new(databases: Databases) -> Self {
        DbPart(databases)
    }
}

impl Part for DbPart {
    fn roles(&self) -> Vec<Role> {
        self.0.iter().flat_map(roles).collect()
    }

    /// The leader and the first reader are on different nodes while two live (C9).
    fn apart_kinds(&self) -> &'static [&'static str] {
        &[WORKER]
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        let role = tenure.role().clone();
        let (name, slot) = match role.name().rsplit_once('/') {
            Some((name, slot)) => (name, slot.parse().ok()),
            None => (role.name(), None),
        };
        let Some(database) = self.0.get(name).cloned() else {
            return unknown(role.clone()).boxed();
        };
        match (role.kind(), slot) {
            (WORKER, Some(slot)) => work_slot(database, slot, tenure).boxed(),
            (SUPERVISOR, None) => supervise(database, tenure).boxed(),
            _ => unknown(role.clone()).boxed(),
        }
    }
}

/// The roles of one database. Slots derive from the wanted cell (H26).
fn roles(database: &Database) -> Vec<Role> {
    let sight = database.sight();
    let slots = sight.wanted.iter().flat_map(|wanted| wanted.slots.iter());
    let worker = |slot| Role::new(WORKER, format!("{}/{slot}", database.name()));
    let supervisor = Role::new(SUPERVISOR, database.name());
    slots.map(worker).chain([supervisor]).collect()
}

async fn unknown(role: Role) -> Ended {
    Ended::Yielded { reason: format!("'{role}' is no role of a database of this node") }
}

/// Tells the node whenever the wanted slots have changed.
async fn tell_roles(database: Database) {
    let mut views = database.view().views();
    let mut known = None;
    loop {
        let slots = views.borrow_and_update().wanted.as_ref().map(|wanted| wanted.slots.clone());
        if slots != known
            && let Some(node) = database.node().handle()
        {
            known = slots;
            node.roles_changed();
        }
        if views.changed().await.is_err() {
            return;
        }
    }
}

impl Databases {
    /// What runs beside roles and views for as long as the node runs.
    pub fn background(&self) -> Vec<BoxFuture<'static, ()>> {
        let tasks = self.iter().flat_map(|database| {
            let probe = database.probe().clone();
            let (node, view) = (database.node().clone(), database.view().clone());
            let own = move || node.handle().map(|handle| handle.id().to_owned());
            [
                tell_roles(database.clone()).boxed(),
                probe.run(own, view).boxed(),
                keep_snapshots(database.clone()).boxed(),
                keep_counts(database.clone()).boxed(),
                keep_verified(database.clone()).boxed(),
            ]
        });
        tasks.collect()
    }

    /// Creates those that the store does not have yet.
    pub async fn create_missing(&self) -> Result<(), DbStoreError> {
        for database in self.iter() {
            database.create_if_missing().await?;
        }
        Ok(())
    }
}

impl Database {
    /// Head and wanted workers are written in one commit, which expects that there are none: of two nodes that
    /// create the same database, one does.
    async fn create_if_missing(&self) -> Result<(), DbStoreError> {
        let cells = self.store().cells();
        let sight = self.store().sight().await?;
        if sight.head.is_some() {
            return Ok(());
        }
        let id = u128::from(self.draw()) << 64 | u128::from(self.draw());
        let head = DbHead::created(id, self.draw(), rusqlite::version_number() as u32);
        let DatabaseSettings { readers, .. } = self.settings();
        let wanted = WantedWorkers::new(readers.min);
        let expect = [Expect::Bytes(cells.head(), None), Expect::Bytes(cells.wanted(), None)];
        let operations = vec![
            Operation::Put { key: cells.head(), value: head.encode() },
            Operation::Put { key: cells.wanted(), value: wanted.encode() },
        ];
        loop {
            match self.store().commit(expect.clone(), operations.clone()).await {
                CellsAnswer::Done | CellsAnswer::Stale => return Ok(()),
                CellsAnswer::Unknown(_) => tokio::time::sleep(crate::worker::RETRY_PAUSE).await,
                CellsAnswer::Failed(fault) => return Err(fault.into()),
            }
        }
    }
}

impl From<Databases> for Arc<dyn Part> {
    fn from(databases: Databases) -> Self {
        Arc::new(DbPart::new(databases))
    }
}
