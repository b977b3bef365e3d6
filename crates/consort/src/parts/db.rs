//! The part of db: SQL databases that several services share. Their workers are roles; the door of every node takes
//! their requests.

mod schema;

use std::sync::Arc;

use async_trait::async_trait;
use consort_cluster::Agreement;
use consort_db::db::{DatabaseOptions, Databases};
use consort_db::part::DbPart;
use consort_db::view::OwnNode;
use consort_server::db::{self, DbHttp};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::schema::SchemaFiles;
use super::{OpenPart, Opening, Part, PartError, Running, StopPhase, link};
use crate::config::{self, Config, PartConfig};

/// The kind of its definitions in the cluster's agreement.
const KIND: &str = "db";

/// The folder of files on their way in and out, within the node's data. Names of databases have a folder of their own.
const TRANSFERS: &str = "db-transfers";

/// Databases.
#[derive(Debug)]
pub(super) struct Db;

#[async_trait]
impl Part for Db {
    fn config(&self) -> &'static PartConfig {
        &config::db::PART
    }

    fn define(&self, config: &Config, agreement: Agreement) -> Agreement {
        config.db().databases.iter().fold(agreement, |all, settings| {
            all.define(KIND, settings.name.as_str(), config::db::definition(settings))
        })
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let Opening { config, services, metrics, .. } = opening;
        let settings = &config.db().databases;
        if settings.is_empty() {
            return Ok(OpenPart::default());
        }
        let cluster = services.cluster.clone();
        let options = DatabaseOptions {
            store: Arc::clone(&services.store),
            entropy: Arc::clone(&services.entropy),
            folder: services.data.clone(),
            node: OwnNode::new(move || cluster.node().cloned()),
        };
        let (databases, keepers) = Databases::new(settings.clone(), &options);
        databases.create_missing().await.map_err(PartError::failed)?;
        let schema = SchemaFiles::read(settings)?;
        schema.check(&databases).await?;
        let http = DbHttp::new(db::Options {
            databases: databases.clone(),
            peers: services.peers.clone(),
            cluster: services.cluster.clone(),
            intake: Arc::clone(&services.intake),
            entropy: Arc::clone(&services.entropy),
            transfers: services.data.join(TRANSFERS),
            metrics,
        });
        let mut background = JoinSet::new();
        for keeper in keepers {
            background.spawn(keeper.run());
        }
        for work in databases.background() {
            background.spawn(work);
        }
        let shown = databases.iter().map(|database| {
            link(format!("/db/{}", database.name()), "a SQL database: its leader, workers and size")
        });
        let all = link("/db", "the SQL databases");
        Ok(OpenPart {
            workloads: vec![Arc::new(DbPart::new(databases.clone()))],
            links: [all].into_iter().chain(shown).collect(),
            routes: http.routes(),
            long_bodies: http.long_bodies(),
            running: Box::new(RunningDb {
                http,
                databases,
                schema: Some(schema),
                is_handed_over: watch::Sender::new(false),
                background,
            }),
            ..OpenPart::default()
        })
    }
}

/// The views of the databases, and the subscribers. Dropping it ends them.
#[derive(Debug)]
struct RunningDb {
    http: DbHttp,
    databases: Databases,
    /// The files that are handed over once the node has joined.
    schema: Option<SchemaFiles>,
    /// Whether the leaders have them.
    is_handed_over: watch::Sender<bool>,
    background: JoinSet<()>,
}

impl Running for RunningDb {
    fn joined(&mut self) {
        let Some(schema) = self.schema.take() else { return };
        let (http, is_handed_over) = (self.http.clone(), self.is_handed_over.clone());
        let handing = schema
            .into_databases()
            .into_iter()
            .map(move |(database, files)| schema::hand_over(http.clone(), database, files));
        self.background.spawn(async move {
            join_all(handing).await;
            is_handed_over.send_replace(true);
        });
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        async {
            for database in self.databases.iter() {
                let mut views = database.view().views();
                // A view that ends is that of a node that ends.
                let _ = views.wait_for(|view| view.leader().is_some()).await;
            }
            let mut handed_over = self.is_handed_over.subscribe();
            let _ = handed_over.wait_for(|is_over| *is_over).await;
        }
        .boxed()
    }

    fn stop(&mut self, phase: StopPhase) -> BoxFuture<'_, ()> {
        async move {
            match phase {
                StopPhase::Sources => {}
                StopPhase::Subscribers => self.http.close(),
                // Requests need the views until the last one is answered.
                StopPhase::Computations => self.background.shutdown().await,
            }
        }
        .boxed()
    }
}
