//! Work on files, away from the threads that serve requests.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// What SQLite puts behind the name of a file for the files beside it.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Runs work on files on a thread that may wait for a disk.
pub(crate) async fn on_file_thread<T, E>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<io::Error> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(format!("work on a file failed: {error}")).into()),
    }
}

/// Removes a file of SQLite and those beside it. A file that is not there is no error.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    let beside = BESIDE.iter().map(|end| {
        let mut name = OsString::from(path.as_os_str());
        name.push(end);
        PathBuf::from(name)
    });
    for path in beside.chain([path.to_owned()]) {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A file of SQLite that exists while work on it goes on: removed when this is dropped.
#[derive(Debug)]
pub(crate) struct ScratchFile(PathBuf);

impl ScratchFile {
    /// The file at `path`, which an earlier process may have left. Its folder is made.
    pub(crate) fn at(path: PathBuf) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        remove_file(&path)?;
        Ok(ScratchFile(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Err(error) = remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a scratch file could not be removed");
        }
    }
}
