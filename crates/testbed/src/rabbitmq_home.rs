//! The installed RabbitMQ: where its libraries are, and which of them a broker needs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::program;

/// Where the Debian package puts its one `rabbitmq_server-VERSION`.
const LIBRARIES: &str = "/usr/lib/rabbitmq/lib";

/// The folder of the installed version.
///
/// # Panics
///
/// If RabbitMQ is not installed.
pub(crate) fn find() -> PathBuf {
    entries(Path::new(LIBRARIES))
        .into_iter()
        .find(|folder| folder.join("plugins").is_dir())
        .unwrap_or_else(|| panic!("{}", program::not_installed("rabbitmq-server")))
}

/// Fills `folder` with links to the libraries that a broker without plugins needs, and returns
/// their code folders.
///
/// A broker looks into every library it is shown, and the fifty plugins that tests never enable
/// double the time of its start.
pub(crate) fn link_libraries(home: &Path, folder: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(folder).expect("a folder for libraries can be made");
    let mut code = Vec::new();
    for library in entries(&home.join("plugins")) {
        let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_plugin = name.starts_with("rabbitmq_") && !name.starts_with("rabbitmq_prelaunch-");
        if library.is_dir() && !is_plugin {
            let link = folder.join(name);
            let _ = fs::remove_file(&link);
            symlink(&library, &link).expect("a library can be linked");
            code.push(link.join("ebin"));
        }
    }
    code
}

/// In the order of their names; none where the folder is missing.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
