//! A folder of schema files: its `*.sql` files in the order of their names.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use consort_server::db::{SCHEMA_FILE_MOST, SchemaFile};

/// Most files of one folder: a migration a day for some years.
const FILES_MOST: usize = 1_000;

/// The files of a folder, or what is wrong with it.
pub(crate) fn schema_files(folder: &Path) -> Result<Vec<SchemaFile>, String> {
    let told = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.extension() == Some(OsStr::new("sql")) && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    match paths.len() {
        0 => Err(format!("{} has no *.sql files", folder.display())),
        1..=FILES_MOST => paths.iter().map(read_file).collect(),
        many => Err(format!("{} has {many} files, and the most is {FILES_MOST}", folder.display())),
    }
}

fn read_file(path: &PathBuf) -> Result<SchemaFile, String> {
    let shown = path.display();
    let name = path.file_name().and_then(OsStr::to_str);
    let name = name.ok_or_else(|| format!("{shown} has a name that is not UTF-8"))?.to_owned();
    let length = fs::metadata(path).map_err(|error| format!("cannot read {shown}: {error}"))?.len();
    if length > SCHEMA_FILE_MOST as u64 {
        let most = super::size_text(SCHEMA_FILE_MOST as u64);
        return Err(format!("{shown} has {length} bytes, and the most is {most}: split it"));
    }
    let sql = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    match sql.trim().is_empty() {
        true => Err(format!("{shown} is empty")),
        false => Ok(SchemaFile { name, sql }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sql_files_of_a_folder_come_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        assert!(schema_files(folder.path()).unwrap_err().ends_with("has no *.sql files"));
        put("readme.md", b"x");
        put("002-b.sql", b"B");
        put("001-a.sql", b"A");
        put("010-c.sql", b"C");
        fs::create_dir(folder.path().join("old.sql")).unwrap();
        let files = schema_files(folder.path()).unwrap();
        let files: Vec<_> = files.iter().map(|file| (&*file.name, &*file.sql)).collect();
        assert_eq!(files, [("001-a.sql", "A"), ("002-b.sql", "B"), ("010-c.sql", "C")]);
        for (text, told) in [
            (&b" \n"[..], "is empty"),
            (b"\xff", "cannot read"),
            (&vec![b'x'; SCHEMA_FILE_MOST + 1], "the most is 1MiB: split it"),
        ] {
            put("020-bad.sql", text);
            let error = schema_files(folder.path()).unwrap_err();
            assert!(error.contains("020-bad.sql") && error.contains(told), "{error}");
        }
        assert!(schema_files(&folder.path().join("nowhere")).unwrap_err().contains("cannot read"));
    }
}
