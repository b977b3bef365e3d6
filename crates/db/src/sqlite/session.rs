//! SQLite's session extension: recording the changes of a connection, walking them, and applying them.
//!
//! `libsqlite3-sys` declares these functions without a feature of its own (C1); `build.rs` checks that
//! SQLite is compiled with them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use bytes::Bytes;
use rusqlite::{Connection, ffi};

use crate::hash::HashedValue;

/// A failure of the session extension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// SQLite refused a call.
    #[error("SQLite's session extension failed with code {0}")]
    Code(i32),
    /// A change does not fit the file it is applied to.
    #[error("a change of table {table} does not fit this file ({conflict})")]
    Conflict {
        /// The table.
        table: String,
        /// The kind of conflict, in words.
        conflict: &'static str,
    },
}

/// A connection whose changes can be recorded.
///
/// A *sentinel* session, which records nothing, lives as long as the connection. While any session exists,
/// SQLite does not choose truncation for a `DELETE` without a condition. Without the sentinel a statement
/// prepared between two recordings would lose all its deletions (T3).
#[derive(Debug)]
pub struct RecordedConnection {
    /// The running recording, or null.
    recording: Arc<AtomicPtr<ffi::sqlite3_session>>,
    sentinel: *mut ffi::sqlite3_session,
    connection: Connection,
}

// SAFETY: the pointers belong to this connection alone. SQLite is compiled with SQLITE_THREADSAFE=1, so a
// connection and its sessions may move between threads as long as one thread uses them at a time, which
// `&mut` and the lack of `Sync` guarantee.
unsafe impl Send for RecordedConnection {}

impl RecordedConnection {
    /// Takes over a connection. No statement of a user may have been prepared on it before (T3).
    pub fn new(connection: Connection) -> Result<Self, SessionError> {
        let sentinel = create_session(&connection)?;
        let recording = Arc::new(AtomicPtr::new(ptr::null_mut()));
        Ok(RecordedConnection { recording, sentinel, connection })
    }

    /// The connection. It is not handed out mutably: replacing it would free it under its sessions.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Begins a new recording and ends the one before, in this order, so that recording is never off.
    pub fn begin(&mut self) -> Result<(), SessionError> {
        let session = create_session(&self.connection)?;
        if let Err(error) = attach(session) {
            delete(session);
            return Err(error);
        }
        delete(self.recording.swap(session, Ordering::Relaxed));
        Ok(())
    }

    /// Begins a recording unless one runs.
    pub fn begin_if_off(&mut self) -> Result<(), SessionError> {
        match self.recording.load(Ordering::Relaxed).is_null() {
            true => self.begin(),
            false => Ok(()),
        }
    }

    /// Ends the recording: for DDL, which no session may see (T6).
    pub fn end(&mut self) {
        delete(self.recording.swap(ptr::null_mut(), Ordering::Relaxed));
    }

    /// The changes recorded so far; empty without a recording.
    pub fn changeset(&self) -> Result<Bytes, SessionError> {
        let session = self.recording.load(Ordering::Relaxed);
        if session.is_null() {
            return Ok(Bytes::new());
        }
        let (mut length, mut buffer) = (0, ptr::null_mut());
        // SAFETY: the session lives, and SQLite fills both places or returns an error.
        check(unsafe { ffi::sqlite3session_changeset(session, &mut length, &mut buffer) })?;
        if buffer.is_null() {
            return Ok(Bytes::new());
        }
        let length = usize::try_from(length).unwrap_or(0);
        // SAFETY: SQLite returned a buffer of this length, which belongs to the caller until it is freed.
        let changes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length) };
        let copied = Bytes::copy_from_slice(changes);
        // SAFETY: the buffer came from SQLite's allocator and is not used any more.
        unsafe { ffi::sqlite3_free(buffer) };
        Ok(copied)
    }

    /// The memory that the recording takes.
    pub fn memory(&self) -> u64 {
        memory_of(&self.recording)
    }

    /// Whether deferred foreign keys are violated within the open transaction (H37).
    pub fn has_deferred_violations(&self) -> Result<bool, SessionError> {
        let (mut now, mut highest) = (0, 0);
        let op = ffi::SQLITE_DBSTATUS_DEFERRED_FKS;
        // SAFETY: the connection lives, and both places are valid for writing.
        check(unsafe {
            ffi::sqlite3_db_status(self.connection.handle(), op, &mut now, &mut highest, 0)
        })?;
        Ok(now != 0)
    }

    /// Makes `last_insert_rowid()` 0, so that no job sees the id of another client's row (H38).
    pub fn forget_last_insert(&self) {
        // SAFETY: the connection lives.
        unsafe { ffi::sqlite3_set_last_insert_rowid(self.connection.handle(), 0) };
    }

    /// A view of the recording's memory for the progress handler, which runs within this connection.
    pub(crate) fn memory_probe(&self) -> SessionMemory {
        SessionMemory(Arc::clone(&self.recording))
    }
}

impl Drop for RecordedConnection {
    fn drop(&mut self) {
        self.end();
        delete(self.sentinel);
    }
}

/// The memory of the running recording. To be read on the thread that uses the connection.
#[derive(Debug)]
pub(crate) struct SessionMemory(Arc<AtomicPtr<ffi::sqlite3_session>>);

impl SessionMemory {
    /// Only the connection's own progress handler calls this, while a statement runs on the connection: then
    /// no recording begins or ends, since both need the connection for themselves.
    pub(crate) fn bytes(&self) -> u64 {
        memory_of(&self.0)
    }
}

fn memory_of(session: &AtomicPtr<ffi::sqlite3_session>) -> u64 {
    let session = session.load(Ordering::Relaxed);
    if session.is_null() {
        return 0;
    }
    // SAFETY: a session in this place lives: it is taken out before it is deleted.
    let bytes = unsafe { ffi::sqlite3session_memory_used(session) };
    u64::try_from(bytes).unwrap_or(0)
}

fn create_session(connection: &Connection) -> Result<*mut ffi::sqlite3_session, SessionError> {
    let mut session = ptr::null_mut();
    // SAFETY: the connection outlives the session: `RecordedConnection` deletes its sessions first.
    check(unsafe {
        ffi::sqlite3session_create(connection.handle(), c"main".as_ptr(), &mut session)
    })?;
    Ok(session)
}

fn attach(session: *mut ffi::sqlite3_session) -> Result<(), SessionError> {
    let mut on: c_int = 1;
    let op = ffi::SQLITE_SESSION_OBJCONFIG_ROWID;
    // SAFETY: the session was just created. The option takes a pointer to an int. The filter reads nothing
    // but the name it is given. A null table name attaches all tables.
    unsafe {
        check(ffi::sqlite3session_object_config(session, op, (&raw mut on).cast()))?;
        ffi::sqlite3session_table_filter(session, Some(is_recorded), ptr::null_mut());
        check(ffi::sqlite3session_attach(session, ptr::null()))
    }
}

/// Tables of SQLite and the worker's own notes are not part of the database.
unsafe extern "C" fn is_recorded(_: *mut c_void, table: *const c_char) -> c_int {
    // SAFETY: SQLite passes a name that ends with a zero byte.
    let name = unsafe { CStr::from_ptr(table) }.to_bytes();
    c_int::from(is_replicated(name))
}

/// Whether changes of this table travel to other workers.
pub fn is_replicated(table: &[u8]) -> bool {
    let is_internal = table.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"sqlite_"));
    !is_internal && table != b"_consort_local"
}

fn delete(session: *mut ffi::sqlite3_session) {
    if !session.is_null() {
        // SAFETY: each session is deleted once, by its owner, before its connection closes.
        unsafe { ffi::sqlite3session_delete(session) };
    }
}

fn check(code: c_int) -> Result<(), SessionError> {
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(SessionError::Code(code)),
    }
}

/// The kind of a row change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOperation {
    /// A row was added.
    Insert,
    /// A row was changed; its key is the same.
    Update,
    /// A row was removed.
    Delete,
}

/// A change of one row, during a walk.
#[derive(Debug)]
pub struct RowChange<'a> {
    /// The table.
    pub table: &'a str,
    /// What happened to the row.
    pub operation: RowOperation,
    /// For each column, whether it is part of the key.
    pub key: &'a [u8],
    iterator: *mut ffi::sqlite3_changeset_iter,
}

impl RowChange<'_> {
    /// The value before the change; `None` for an insert, or a column that did not change.
    pub fn old(&self, column: usize) -> Option<HashedValue<'_>> {
        if self.operation == RowOperation::Insert || column >= self.key.len() {
            return None;
        }
        self.value(ffi::sqlite3changeset_old, column)
    }

    /// The value after the change; `None` for a delete, or a column that did not change.
    pub fn new_value(&self, column: usize) -> Option<HashedValue<'_>> {
        if self.operation == RowOperation::Delete || column >= self.key.len() {
            return None;
        }
        self.value(ffi::sqlite3changeset_new, column)
    }

    fn value(&self, get: ValueGetter, column: usize) -> Option<HashedValue<'_>> {
        let mut value = ptr::null_mut();
        let column = c_int::try_from(column).ok()?;
        // SAFETY: the iterator stands on a row with this column, and the operation has such values.
        let code = unsafe { get(self.iterator, column, &mut value) };
        if code != ffi::SQLITE_OK || value.is_null() {
            return None;
        }
        // SAFETY: the value lives as long as the iterator stands on this row, which `&self` outlives not.
        Some(unsafe { read_value(value) })
    }
}

type ValueGetter = unsafe extern "C" fn(
    *mut ffi::sqlite3_changeset_iter,
    c_int,
    *mut *mut ffi::sqlite3_value,
) -> c_int;

/// # Safety
/// `value` must be valid for `'a`, and no other call may convert it meanwhile.
unsafe fn read_value<'a>(value: *mut ffi::sqlite3_value) -> HashedValue<'a> {
    // SAFETY: by this function's contract. `sqlite3_value_blob` converts neither texts nor blobs.
    unsafe {
        let bytes = || {
            let start = ffi::sqlite3_value_blob(value).cast::<u8>();
            let length = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
            match start.is_null() {
                true => &[][..],
                false => std::slice::from_raw_parts(start, length),
            }
        };
        match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_INTEGER => HashedValue::Integer(ffi::sqlite3_value_int64(value)),
            ffi::SQLITE_FLOAT => HashedValue::Real(ffi::sqlite3_value_double(value)),
            ffi::SQLITE_TEXT => HashedValue::Text(bytes()),
            ffi::SQLITE_BLOB => HashedValue::Blob(bytes()),
            _ => HashedValue::Null,
        }
    }
}

/// Calls `each` with every row change of a changeset, in order.
pub fn walk(changeset: &[u8], mut each: impl FnMut(&RowChange<'_>)) -> Result<(), SessionError> {
    let length =
        c_int::try_from(changeset.len()).map_err(|_| SessionError::Code(ffi::SQLITE_TOOBIG))?;
    let mut iterator = ptr::null_mut();
    // SAFETY: the changeset outlives the iterator, which only reads it.
    check(unsafe {
        ffi::sqlite3changeset_start(&mut iterator, length, changeset.as_ptr().cast_mut().cast())
    })?;
    let walker = Walker(iterator);
    while walker.advance()? {
        each(&walker.change()?);
    }
    Ok(())
}

struct Walker(*mut ffi::sqlite3_changeset_iter);

impl Walker {
    fn advance(&self) -> Result<bool, SessionError> {
        // SAFETY: the iterator lives until this walker is dropped.
        match unsafe { ffi::sqlite3changeset_next(self.0) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(SessionError::Code(code)),
        }
    }

    fn change(&self) -> Result<RowChange<'_>, SessionError> {
        let (mut table, mut columns, mut operation, mut indirect) = (ptr::null(), 0, 0, 0);
        let (mut key, mut key_columns) = (ptr::null_mut(), 0);
        // SAFETY: the iterator stands on a row; name and key flags live as long as it does.
        let (table, key) = unsafe {
            check(ffi::sqlite3changeset_op(
                self.0,
                &mut table,
                &mut columns,
                &mut operation,
                &mut indirect,
            ))?;
            check(ffi::sqlite3changeset_pk(self.0, &mut key, &mut key_columns))?;
            let columns = usize::try_from(key_columns).unwrap_or(0);
            (CStr::from_ptr(table), std::slice::from_raw_parts(key, columns))
        };
        let table = table.to_str().map_err(|_| SessionError::Code(ffi::SQLITE_CORRUPT))?;
        let operation = match operation {
            ffi::SQLITE_INSERT => RowOperation::Insert,
            ffi::SQLITE_UPDATE => RowOperation::Update,
            _ => RowOperation::Delete,
        };
        Ok(RowChange { table, operation, key, iterator: self.0 })
    }
}

impl Drop for Walker {
    fn drop(&mut self) {
        // SAFETY: the iterator is finalized once, and no change outlives it.
        unsafe { ffi::sqlite3changeset_finalize(self.0) };
    }
}

/// Applies a changeset within the open transaction. Any conflict ends it with an error; then the caller rolls
/// its transaction back (T7).
pub fn apply(connection: &Connection, changeset: &[u8]) -> Result<(), SessionError> {
    let length =
        c_int::try_from(changeset.len()).map_err(|_| SessionError::Code(ffi::SQLITE_TOOBIG))?;
    let mut conflict: Option<SessionError> = None;
    // SAFETY: connection and changeset outlive the call; the context is the place that `on_conflict` writes.
    let code = unsafe {
        ffi::sqlite3changeset_apply_v2(
            connection.handle(),
            length,
            changeset.as_ptr().cast_mut().cast(),
            None,
            Some(on_conflict),
            (&raw mut conflict).cast(),
            ptr::null_mut(),
            ptr::null_mut(),
            ffi::SQLITE_CHANGESETAPPLY_NOSAVEPOINT,
        )
    };
    match (conflict, code) {
        (Some(conflict), _) => Err(conflict),
        (None, code) => check(code),
    }
}

unsafe extern "C" fn on_conflict(
    context: *mut c_void,
    kind: c_int,
    iterator: *mut ffi::sqlite3_changeset_iter,
) -> c_int {
    let conflict = match kind {
        ffi::SQLITE_CHANGESET_DATA => "the row has other values",
        ffi::SQLITE_CHANGESET_NOTFOUND => "there is no such row",
        ffi::SQLITE_CHANGESET_CONFLICT => "the row exists already",
        ffi::SQLITE_CHANGESET_CONSTRAINT => "a constraint forbids it",
        _ => "a foreign key is violated",
    };
    let (mut table, mut columns, mut operation, mut indirect) = (ptr::null(), 0, 0, 0);
    // SAFETY: `apply` passes a pointer to its `conflict` and waits for this call; the iterator stands on the
    // conflicting row, except for foreign keys, where SQLite returns an error and leaves the name null.
    unsafe {
        ffi::sqlite3changeset_op(iterator, &mut table, &mut columns, &mut operation, &mut indirect);
        let table = match table.is_null() {
            true => String::new(),
            false => CStr::from_ptr(table).to_string_lossy().into_owned(),
        };
        *context.cast::<Option<SessionError>>() = Some(SessionError::Conflict { table, conflict });
    }
    ffi::SQLITE_CHANGESET_ABORT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t3_a_delete_that_was_prepared_before_the_recording_is_recorded() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)").unwrap();
        let mut file = RecordedConnection::new(connection).unwrap();
        drop(file.connection().prepare_cached("DELETE FROM t").unwrap());
        file.begin().unwrap();
        assert_eq!(file.connection().prepare_cached("DELETE FROM t").unwrap().execute([]), Ok(2));
        let mut deleted = 0;
        walk(&file.changeset().unwrap(), |change| {
            assert_eq!(change.operation, RowOperation::Delete);
            deleted += 1;
        })
        .unwrap();
        assert_eq!(deleted, 2);
    }

    #[test]
    fn a_recording_ends_where_the_next_one_begins() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a)").unwrap();
        let mut file = RecordedConnection::new(connection).unwrap();
        file.begin().unwrap();
        file.connection().execute("INSERT INTO t VALUES (1)", []).unwrap();
        assert!(file.memory() > 0);
        file.begin().unwrap();
        assert!(file.changeset().unwrap().is_empty());
        file.end();
        file.connection().execute("INSERT INTO t VALUES (2)", []).unwrap();
        assert!(file.changeset().unwrap().is_empty());
    }

    #[test]
    fn bytes_that_are_no_changeset_are_refused() {
        let connection = Connection::open_in_memory().unwrap();
        for bytes in [&b"x"[..], b"T\xff\xff\xff\xff\xff", b"T\x01\x01t\0\x12\0"] {
            assert!(walk(bytes, |_| ()).is_err(), "{bytes:?}");
            assert!(apply(&connection, bytes).is_err(), "{bytes:?}");
        }
    }
}
