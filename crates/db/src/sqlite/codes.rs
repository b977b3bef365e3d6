//! SQLite's extended result codes by name, as answers tell them.

use rusqlite::ffi;

/// The name of an extended code, or else of its primary code.
pub fn code_name(code: i32) -> Option<&'static str> {
    let name = |code: i32| NAMES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name);
    name(code).or_else(|| name(code & 0xff))
}

macro_rules! names {
    ($($name:ident),* $(,)?) => {
        /// Codes that a statement of a client can meet.
        const NAMES: &[(i32, &str)] = &[$((ffi::$name, stringify!($name))),*];
    };
}

names! {
    SQLITE_ERROR, SQLITE_INTERNAL, SQLITE_PERM, SQLITE_ABORT, SQLITE_BUSY, SQLITE_LOCKED, SQLITE_NOMEM,
    SQLITE_READONLY, SQLITE_INTERRUPT, SQLITE_IOERR, SQLITE_CORRUPT, SQLITE_NOTFOUND, SQLITE_FULL, SQLITE_CANTOPEN,
    SQLITE_PROTOCOL, SQLITE_SCHEMA, SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_MISUSE, SQLITE_AUTH,
    SQLITE_RANGE, SQLITE_NOTADB, SQLITE_ABORT_ROLLBACK, SQLITE_CORRUPT_INDEX, SQLITE_CORRUPT_VTAB,
    SQLITE_ERROR_MISSING_COLLSEQ, SQLITE_ERROR_RETRY, SQLITE_ERROR_SNAPSHOT, SQLITE_CONSTRAINT_CHECK,
    SQLITE_CONSTRAINT_COMMITHOOK, SQLITE_CONSTRAINT_DATATYPE, SQLITE_CONSTRAINT_FOREIGNKEY,
    SQLITE_CONSTRAINT_FUNCTION, SQLITE_CONSTRAINT_NOTNULL, SQLITE_CONSTRAINT_PINNED, SQLITE_CONSTRAINT_PRIMARYKEY,
    SQLITE_CONSTRAINT_ROWID, SQLITE_CONSTRAINT_TRIGGER, SQLITE_CONSTRAINT_UNIQUE, SQLITE_CONSTRAINT_VTAB,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_sqlites_own_name_and_an_unknown_one_that_of_its_family() {
        for (code, name) in [
            (19, Some("SQLITE_CONSTRAINT")),
            (2067, Some("SQLITE_CONSTRAINT_UNIQUE")),
            (1555, Some("SQLITE_CONSTRAINT_PRIMARYKEY")),
            (787, Some("SQLITE_CONSTRAINT_FOREIGNKEY")),
            (1, Some("SQLITE_ERROR")),
            (19 | (99 << 8), Some("SQLITE_CONSTRAINT")),
            (77, None),
        ] {
            assert_eq!(code_name(code), name, "{code}");
        }
    }
}
