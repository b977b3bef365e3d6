//! Calls that are written elsewhere at the same time. Replace `DbPart` by `consort_db::part::DbPart`, and
//! `check_schema_files` by `consort_db::schema_files::check`.

use consort_cluster::{Ended, Part, Role, Tenure};
use consort_db::db::{Database, Databases};
use consort_server::db::SchemaFile;
use futures::FutureExt as _;
use futures::future::BoxFuture;

/// The roles of all databases.
#[derive(Debug)]
pub(super) struct DbPart;

impl DbPart {
    pub(super) fn new(_databases: Databases) -> DbPart {
        DbPart
    }
}

impl Part for DbPart {
    fn roles(&self) -> Vec<Role> {
        Vec::new()
    }

    fn work(&self, _tenure: Tenure) -> BoxFuture<'static, Ended> {
        async { Ended::Drained }.boxed()
    }
}

pub(super) async fn check_schema_files(_: &Database, _: &[SchemaFile]) -> Result<(), String> {
    Ok(())
}
