//! The end of a statement in a text, as SQLite sees it.

use std::ffi::CString;

use rusqlite::ffi;

/// Whether the text ends with the end of a statement. A trigger has semicolons of its own.
pub fn is_complete(sql: &str) -> Result<bool, &'static str> {
    let text = CString::new(sql).map_err(|_| "the text has a zero byte")?;
    // SAFETY: the text ends with a zero byte and outlives the call, which keeps nothing of it.
    match unsafe { ffi::sqlite3_complete(text.as_ptr()) } {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("SQLite has no memory to read the text"),
    }
}
