//! The statements that users may run: an allow list, asked by SQLite while it prepares (H19).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Whose statements are prepared on a connection, and of which kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqlScope {
    /// The worker's own: everything is allowed.
    #[default]
    Own,
    /// A user's, in a request without DDL.
    Rows,
    /// A user's, in a request with DDL.
    Schema,
}

/// The allow list of one connection.
#[derive(Clone, Debug, Default)]
pub struct SqlGuard(Arc<Mutex<GuardState>>);

#[derive(Debug, Default)]
struct GuardState {
    scope: SqlScope,
    /// Whether the statement runs: then modules such as `fts5` prepare statements of their own.
    is_running: bool,
    /// Tables whose rowid must not be read, in lower case (T5).
    hidden_rowids: BTreeSet<String>,
    seen: SeenActions,
    denied: Option<String>,
}

/// The actions of a statement that decide on those that follow.
#[derive(Debug, Default)]
struct SeenActions {
    creates_table: bool,
    creates_index: bool,
    changes_schema: bool,
    /// The table that the statement itself inserts into, and not one of its triggers.
    inserts_into: Option<String>,
}

const PRAGMAS: [&str; 9] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "foreign_key_check",
    "quick_check",
];
/// Read by `fts5` and `rtree` themselves (T15).
const MODULE_PRAGMAS: [&str; 2] = ["data_version", "page_size"];
const MODULES: [&str; 2] = ["fts5", "rtree"];
const DENIED_FUNCTIONS: [&str; 2] = ["load_extension", "fts3_tokenizer"];

impl SqlGuard {
    /// Puts a guard before every statement of `connection`.
    pub fn install(connection: &mut Connection) -> rusqlite::Result<Self> {
        let guard = SqlGuard::default();
        let asked = guard.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| asked.judge(&context)))?;
        Ok(guard)
    }

    /// The next statement is prepared for this scope.
    pub fn prepare(&self, scope: SqlScope) {
        self.with(|state| {
            state.scope = scope;
            state.is_running = false;
            state.seen = SeenActions::default();
            state.denied = None;
        });
    }

    /// The statement was prepared and runs now.
    pub fn run(&self) {
        self.with(|state| state.is_running = true);
    }

    /// Statements of the worker follow.
    pub fn own(&self) {
        self.prepare(SqlScope::Own);
    }

    /// Why the statement was refused, if it was.
    pub fn take_denial(&self) -> Option<String> {
        self.with(|state| state.denied.take())
    }

    /// Whether the prepared statement inserts into a table whose rowids are the same on every worker; `None` if
    /// it does not insert, or came from the cache.
    pub fn inserts_with_shared_rowid(&self) -> Option<bool> {
        self.with(|state| {
            let table = state.seen.inserts_into.as_ref()?;
            Some(!state.hidden_rowids.contains(&table.to_ascii_lowercase()))
        })
    }

    /// After a change of the schema: the tables whose rowid must not be read.
    pub fn hide_rowids(&self, tables: BTreeSet<String>) {
        self.with(|state| state.hidden_rowids = tables);
    }

    fn judge(&self, context: &AuthContext<'_>) -> Authorization {
        self.with(|state| match state.judge(context) {
            Ok(()) => Authorization::Allow,
            Err(reason) => {
                state.denied.get_or_insert(reason);
                Authorization::Deny
            }
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut GuardState) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl GuardState {
    fn judge(&mut self, context: &AuthContext<'_>) -> Result<(), String> {
        if self.scope == SqlScope::Own {
            return Ok(());
        }
        let is_temp = context.database_name.is_some_and(|name| name.eq_ignore_ascii_case("temp"));
        if is_temp && !self.may_touch_temp(&context.action) {
            return Err("TEMP objects are not allowed: they would exist on one worker only".into());
        }
        match &context.action {
            AuthAction::Select | AuthAction::Recursive => self.judge_select(),
            AuthAction::Read { table_name, column_name } => {
                self.judge_read(table_name, column_name)
            }
            AuthAction::Insert { table_name } if context.accessor.is_none() => {
                self.seen.inserts_into.get_or_insert_with(|| (*table_name).to_owned());
                self.judge_write(table_name)
            }
            AuthAction::Insert { table_name }
            | AuthAction::Delete { table_name }
            | AuthAction::Update { table_name, .. } => self.judge_write(table_name),
            AuthAction::Function { function_name } => judge_function(function_name),
            AuthAction::Pragma { pragma_name, pragma_value } => {
                self.judge_pragma(pragma_name, pragma_value.is_some())
            }
            AuthAction::Reindex { .. } if self.seen.creates_index || self.is_running => Ok(()),
            AuthAction::Savepoint { .. } if self.is_running => Ok(()),
            action => self.judge_schema(action),
        }
    }

    /// A rename looks for its table in the texts of TEMP objects, too, and finds none.
    fn may_touch_temp(&self, action: &AuthAction<'_>) -> bool {
        match action {
            AuthAction::Read { .. } => true,
            AuthAction::Update { .. } => self.seen.changes_schema,
            _ => false,
        }
    }

    fn judge_select(&self) -> Result<(), String> {
        // While `fts5` creates its tables, it also reads them.
        if self.seen.creates_table && !self.is_running {
            return Err(
                "CREATE TABLE … AS SELECT is not allowed, because its rows would not reach \
                other workers: create the table, then INSERT … SELECT"
                    .into(),
            );
        }
        Ok(())
    }

    fn judge_read(&self, table: &str, column: &str) -> Result<(), String> {
        check_name(table)?;
        let is_rowid = column.eq_ignore_ascii_case("rowid");
        if is_rowid && !self.is_running && self.hidden_rowids.contains(&table.to_ascii_lowercase())
        {
            return Err(format!(
                "the rowid of {table} differs between workers, because the table has another primary key: \
                 use that key"
            ));
        }
        Ok(())
    }

    fn judge_write(&self, table: &str) -> Result<(), String> {
        check_name(table)?;
        let is_sqlites = table.to_ascii_lowercase().starts_with("sqlite_");
        // CREATE, ALTER and DROP write these tables themselves.
        match is_sqlites && !self.seen.changes_schema && !self.is_running {
            true if self.scope == SqlScope::Schema && is_catalog(table) => Ok(()),
            true => Err(format!("{table} belongs to SQLite and cannot be written")),
            false => Ok(()),
        }
    }

    fn judge_pragma(&self, name: &str, has_value: bool) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let is = |names: &[&str]| names.contains(&name.as_str());
        let is_user_version =
            name == "user_version" && (!has_value || self.scope == SqlScope::Schema);
        if is(&PRAGMAS) || is_user_version || (is(&MODULE_PRAGMAS) && !has_value) {
            return Ok(());
        }
        Err(match name.as_str() {
            "user_version" => "PRAGMA user_version cannot be set here".into(),
            _ => format!("PRAGMA {name} is not allowed"),
        })
    }

    fn judge_schema(&mut self, action: &AuthAction<'_>) -> Result<(), String> {
        let names = schema_names(action)?;
        if self.scope != SqlScope::Schema {
            return Err("a change of the schema cannot stand here".into());
        }
        names.into_iter().try_for_each(check_name)?;
        self.seen.changes_schema = true;
        self.seen.creates_table |= matches!(action, AuthAction::CreateTable { .. });
        self.seen.creates_index |= matches!(action, AuthAction::CreateIndex { .. });
        Ok(())
    }
}

/// The names that a change of the schema mentions; an error for every action that is on no list.
fn schema_names<'a>(action: &AuthAction<'a>) -> Result<Vec<&'a str>, String> {
    Ok(match *action {
        AuthAction::CreateTable { table_name } | AuthAction::DropTable { table_name } => {
            vec![table_name]
        }
        AuthAction::AlterTable { table_name, .. } => vec![table_name],
        AuthAction::CreateIndex { index_name, table_name }
        | AuthAction::DropIndex { index_name, table_name } => vec![index_name, table_name],
        AuthAction::CreateTrigger { trigger_name, table_name }
        | AuthAction::DropTrigger { trigger_name, table_name } => vec![trigger_name, table_name],
        AuthAction::CreateView { view_name } | AuthAction::DropView { view_name } => {
            vec![view_name]
        }
        AuthAction::CreateVtable { table_name, module_name }
        | AuthAction::DropVtable { table_name, module_name } => {
            if !MODULES.iter().any(|module| module.eq_ignore_ascii_case(module_name)) {
                return Err(format!(
                    "virtual tables of {module_name} cannot be replicated: fts5 and rtree can"
                ));
            }
            vec![table_name]
        }
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
            return Err(
                "a request is a transaction by itself: leave out BEGIN, COMMIT, ROLLBACK and \
                SAVEPOINT"
                    .into(),
            );
        }
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            return Err("ATTACH, DETACH and VACUUM are not allowed: a database is one file".into());
        }
        AuthAction::Analyze { .. } => {
            return Err("ANALYZE is not allowed: run `consort db analyze`".into());
        }
        AuthAction::Reindex { .. } => return Err("REINDEX is not allowed".into()),
        _ => {
            return Err(
                "the statement is not allowed: TEMP objects would exist on one worker".into()
            );
        }
    })
}

fn judge_function(name: &str) -> Result<(), String> {
    match DENIED_FUNCTIONS.iter().any(|denied| denied.eq_ignore_ascii_case(name)) {
        true => Err(format!("the function {name} is not allowed")),
        false => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    match name.to_ascii_lowercase().starts_with("_consort") {
        true => {
            Err(format!("{name} is reserved: names that begin with _consort belong to Consort"))
        }
        false => Ok(()),
    }
}

fn is_catalog(table: &str) -> bool {
    ["sqlite_master", "sqlite_schema"].iter().any(|name| name.eq_ignore_ascii_case(table))
}
