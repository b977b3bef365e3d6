//! The rules for tables: which ones a changeset can carry without losing rows (T1, T2, T8).
//!
//! A table that is refused gets a message with the corrected line.

/// A table, as SQLite describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableShape {
    /// Its name.
    pub name: String,
    /// Declared `STRICT`.
    pub is_strict: bool,
    /// Declared `WITHOUT ROWID`.
    pub is_without_rowid: bool,
    /// Whether its primary key is another name of the rowid: a single `INTEGER PRIMARY KEY`.
    pub has_rowid_key: bool,
    /// Its columns, in order.
    pub columns: Vec<ColumnShape>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnShape {
    /// Its name.
    pub name: String,
    /// The declared type, as written; empty if there is none.
    pub declared: String,
    /// Declared `NOT NULL`.
    pub is_not_null: bool,
    /// Its place in the primary key, from 1; 0 if it is not in it.
    pub key_place: u32,
    /// The collation of the column in the primary key.
    pub key_collation: String,
}

/// A table that cannot be replicated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("table {table} cannot be replicated: {reason}. Write: {corrected}")]
pub struct TableRefusal {
    /// The table.
    pub table: String,
    /// The rule it breaks.
    pub rule: &'static str,
    /// Why that would lose data.
    pub reason: String,
    /// A line that would be accepted.
    pub corrected: String,
}

/// The conversion that SQLite applies to the values of a column, from its declared type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Converts to integers where it can.
    Integer,
    /// Converts numbers to texts.
    Text,
    /// Converts nothing.
    Blob,
    /// Converts to reals where it can.
    Real,
    /// Converts to numbers where it can.
    Numeric,
}

/// Refuses a table whose rows a changeset could lose or confuse.
pub fn check_table(table: &TableShape) -> Result<(), TableRefusal> {
    if table.has_rowid_key {
        return Ok(());
    }
    let mut key: Vec<&ColumnShape> = table.columns.iter().filter(|c| c.key_place > 0).collect();
    key.sort_by_key(|column| column.key_place);
    if key.is_empty() {
        return check_without_key(table);
    }
    let is_single = key.len() == 1;
    key.into_iter().try_for_each(|column| check_key_column(table, column, is_single))
}

/// T1: the rows of a table without a primary key are named by their rowid, under the name `_rowid_`.
fn check_without_key(table: &TableShape) -> Result<(), TableRefusal> {
    match table.columns.iter().find(|c| c.name.eq_ignore_ascii_case("_rowid_")) {
        None => Ok(()),
        Some(column) => Err(TableRefusal {
            table: table.name.clone(),
            rule: "T1",
            reason: format!(
                "it has no primary key, and its column {} hides the rowid that would name its rows",
                column.name
            ),
            corrected: "id INTEGER PRIMARY KEY, and another name for that column".into(),
        }),
    }
}

fn check_key_column(
    table: &TableShape,
    column: &ColumnShape,
    is_single: bool,
) -> Result<(), TableRefusal> {
    let refuse = |rule, reason: &str| {
        Err(TableRefusal {
            table: table.name.clone(),
            rule,
            reason: format!("the key column {} {reason}", column.name),
            corrected: corrected_line(table, column, is_single),
        })
    };
    if !table.is_strict && !table.is_without_rowid && !column.is_not_null {
        return refuse("T2", "may be NULL, and rows with a NULL key would not reach other workers");
    }
    if !column.key_collation.eq_ignore_ascii_case("BINARY") {
        return refuse("T8", "has a collation under which different values are equal");
    }
    if !converts(table, column) {
        return refuse("T8", "has a type under which 1 and 1.0 are equal and stay different");
    }
    Ok(())
}

/// Whether the column's type gives equal values one form.
fn converts(table: &TableShape, column: &ColumnShape) -> bool {
    if column.declared.eq_ignore_ascii_case("ANY") {
        return false;
    }
    affinity(&column.declared) != Affinity::Blob || table.is_strict
}

fn corrected_line(table: &TableShape, column: &ColumnShape, is_single: bool) -> String {
    let declared = match converts(table, column) {
        true => column.declared.as_str(),
        false => "TEXT",
    };
    let key = if is_single { " PRIMARY KEY" } else { "" };
    format!("{} {declared} NOT NULL{key}", quoted(&column.name))
}

/// The name as it can be written in SQL, quoted where it must be.
pub fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match starts_plain && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The affinity of a declared type, by the rules of SQLite's manual, section 3.1 of *Datatypes*.
pub fn affinity(declared: &str) -> Affinity {
    let declared = declared.to_ascii_uppercase();
    let has = |names: &[&str]| names.iter().any(|name| declared.contains(name));
    if has(&["INT"]) {
        Affinity::Integer
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        Affinity::Text
    } else if declared.is_empty() || has(&["BLOB"]) {
        Affinity::Blob
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        Affinity::Real
    } else {
        Affinity::Numeric
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, declared: &str, key_place: u32) -> ColumnShape {
        ColumnShape {
            name: name.into(),
            declared: declared.into(),
            is_not_null: true,
            key_place,
            key_collation: "BINARY".into(),
        }
    }

    fn table(columns: Vec<ColumnShape>) -> TableShape {
        TableShape { name: "t".into(), columns, ..TableShape::default() }
    }

    fn nullable(column: ColumnShape) -> ColumnShape {
        ColumnShape { is_not_null: false, ..column }
    }

    fn nocase(column: ColumnShape) -> ColumnShape {
        ColumnShape { key_collation: "NOCASE".into(), ..column }
    }

    fn strict(table: TableShape) -> TableShape {
        TableShape { is_strict: true, ..table }
    }

    fn without_rowid(table: TableShape) -> TableShape {
        TableShape { is_without_rowid: true, ..table }
    }

    fn rowid_key(table: TableShape) -> TableShape {
        TableShape { has_rowid_key: true, ..table }
    }

    #[test]
    fn tables_that_a_changeset_can_carry_are_accepted() {
        let cases = [
            ("no key", table(vec![column("a", "", 0)])),
            ("no key, two names of the rowid taken", {
                table(vec![column("rowid", "", 0), column("oid", "", 0)])
            }),
            ("INTEGER PRIMARY KEY", rowid_key(table(vec![nullable(column("id", "INTEGER", 1))]))),
            ("a key NOT NULL", table(vec![column("a", "VARCHAR(20)", 1)])),
            ("two columns", table(vec![column("a", "TEXT", 2), column("b", "INT", 1)])),
            ("STRICT", strict(table(vec![nullable(column("a", "TEXT", 1))]))),
            ("STRICT BLOB", strict(table(vec![nullable(column("a", "BLOB", 1))]))),
            ("WITHOUT ROWID", without_rowid(table(vec![nullable(column("a", "REAL", 1))]))),
            ("a date", table(vec![column("a", "DATE", 1)])),
            (
                "NOCASE outside the key",
                table(vec![column("k", "INT", 1), nocase(column("a", "", 0))]),
            ),
        ];
        for (what, table) in cases {
            assert_eq!(check_table(&table), Ok(()), "{what}");
        }
    }

    #[test]
    fn t1_t2_t8_tables_that_would_lose_rows_are_refused_with_the_corrected_line() {
        let cases = [
            (
                "T1",
                table(vec![column("rowid", "", 0), column("_rowid_", "", 0), column("oid", "", 0)]),
                "id INTEGER PRIMARY KEY, and another name for that column",
            ),
            ("T2", table(vec![nullable(column("a", "TEXT", 1))]), "a TEXT NOT NULL PRIMARY KEY"),
            (
                "T2",
                table(vec![column("a", "TEXT", 1), nullable(column("b c", "INT", 2))]),
                "\"b c\" INT NOT NULL",
            ),
            ("T8", table(vec![nocase(column("a", "TEXT", 1))]), "a TEXT NOT NULL PRIMARY KEY"),
            ("T8", table(vec![column("a", "", 1)]), "a TEXT NOT NULL PRIMARY KEY"),
            ("T8", table(vec![column("a", "BLOB", 1)]), "a TEXT NOT NULL PRIMARY KEY"),
            ("T8", strict(table(vec![column("a", "ANY", 1)])), "a TEXT NOT NULL PRIMARY KEY"),
            (
                "T8",
                without_rowid(table(vec![column("a", "any", 1)])),
                "a TEXT NOT NULL PRIMARY KEY",
            ),
            (
                "T8",
                without_rowid(table(vec![nocase(column("a", "TEXT", 1))])),
                "a TEXT NOT NULL PRIMARY KEY",
            ),
        ];
        for (rule, table, corrected) in cases {
            let refusal = check_table(&table).unwrap_err();
            assert_eq!((refusal.rule, refusal.corrected.as_str()), (rule, corrected), "{table:?}");
            assert!(refusal.to_string().ends_with(corrected), "{refusal}");
        }
    }

    #[test]
    fn declared_types_have_the_affinity_that_sqlite_gives_them() {
        let cases = [
            ("BIGINT", Affinity::Integer),
            ("floating point", Affinity::Integer),
            ("CHARINT", Affinity::Integer),
            ("varchar(9)", Affinity::Text),
            ("BLOB", Affinity::Blob),
            ("", Affinity::Blob),
            ("DOUBLE", Affinity::Real),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("STRING", Affinity::Numeric),
        ];
        for (declared, expected) in cases {
            assert_eq!(affinity(declared), expected, "{declared}");
        }
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(quoted("a_1"), "a_1");
        assert_eq!(quoted("1a"), "\"1a\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
