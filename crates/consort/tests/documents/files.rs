//! The project's files, by their paths from its root.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// All documents: those at the root and all pages under `docs/`, in order.
pub(crate) fn documents() -> Vec<String> {
    let mut found = Vec::new();
    let at_root = entries(root()).into_iter().filter(|path| path.is_file());
    found.extend(at_root.filter_map(|path| markdown(&path)));
    collect(&root().join("docs"), &mut found);
    found.sort();
    found
}

/// The text of a file.
pub(crate) fn read(file: &str) -> String {
    let path = root().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {file}: {error}"))
}

/// Whether there is a file or a folder of this path.
pub(crate) fn exists(file: &str) -> bool {
    root().join(file).exists()
}

fn collect(folder: &Path, found: &mut Vec<String>) {
    for path in entries(folder) {
        match path.is_dir() {
            true => collect(&path, found),
            false => found.extend(markdown(&path)),
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    entries.map(|entry| entry.expect("an entry can be read").path()).collect()
}

fn markdown(path: &Path) -> Option<String> {
    let is_markdown = path.extension().is_some_and(|extension| extension == "md");
    let inside = path.strip_prefix(root()).expect("the path is within the project");
    is_markdown.then(|| inside.to_str().expect("names of documents are UTF-8").to_owned())
}
