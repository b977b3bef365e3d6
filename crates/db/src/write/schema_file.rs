//! Schema files: the `*.sql` files of a database's folder, applied in order of name, each once, each as one entry.

use ring::digest::{SHA256, digest};
use rusqlite::{Connection, OptionalExtension};

use super::job::{JobArgs, JobError, JobErrorKind, JobStatement, WriteJob};
use super::script;

/// Most statements of one file.
const STATEMENTS: usize = 10_000;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFile {
    /// Its name, without its folder.
    pub name: String,
    /// Its text.
    pub sql: String,
}

/// A file as it was applied: its name, and the SHA-256 of its text.
pub type AppliedFile = (String, [u8; 32]);

impl SchemaFile {
    /// The SHA-256 of its text.
    pub fn hash(&self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, self.sql.as_bytes()).as_ref());
        hash
    }

    /// Its statements, as a request.
    pub(super) fn job(&self) -> Result<WriteJob, JobError> {
        let refuse = |message: String| JobError::new(JobErrorKind::Request, message);
        let statements = script::statements(&self.sql);
        if statements.len() > STATEMENTS {
            return Err(refuse(format!("{} has more than {STATEMENTS} statements", self.name)));
        }
        let statement = |sql: &str| JobStatement {
            sql: sql.to_owned(),
            args: JobArgs::Positional(vec![]),
            changes: None,
        };
        Ok(WriteJob { statements: statements.into_iter().map(statement).collect(), key: None })
    }
}

/// The error for a file whose text is not the one that was applied under its name.
pub fn changed_file(name: &str) -> JobError {
    let message = format!(
        "{name} was changed after it was applied: put the change into a new file, whose name comes behind it"
    );
    JobError::new(JobErrorKind::Schema, message)
}

/// The hash under which a file of this name was applied.
pub(super) fn applied_hash(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<[u8; 32]>> {
    let sql = "SELECT hash FROM _consort_schema WHERE name = ?1";
    connection.query_row(sql, [name], |row| row.get(0)).optional()
}

/// Notes a file within the open transaction.
pub(super) fn note_file(connection: &Connection, file: &SchemaFile) -> rusqlite::Result<()> {
    let sql = "INSERT INTO _consort_schema (name, hash) VALUES (?1, ?2)";
    connection.execute(sql, (&file.name, file.hash())).map(drop)
}

/// All files that were applied.
pub(crate) fn applied_files(connection: &Connection) -> rusqlite::Result<Vec<AppliedFile>> {
    let mut statement =
        connection.prepare("SELECT name, hash FROM _consort_schema ORDER BY name")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_at_the_ends_of_its_statements() {
        let sql = "-- tables\nCREATE TABLE t (a TEXT DEFAULT ';');\n\
            CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END;\n\n\
            CREATE INDEX i ON t (a) -- the last one has no semicolon\n";
        let job = SchemaFile { name: "1.sql".into(), sql: sql.into() }.job().unwrap();
        assert_eq!(job.statements.len(), 3, "{job:?}");
        assert!(job.statements[1].sql.contains("SELECT 2; END;"));
        assert!(job.statements[2].sql.starts_with("CREATE INDEX"));
    }
}
