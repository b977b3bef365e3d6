//! The data folder and its lock: one process at a time.

use std::fs::{File, OpenOptions, TryLockError, create_dir_all};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The file that is locked while a process has the folder, and that names this process.
const LOCK_FILE: &str = "consort.lock";

/// Why a folder cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process has it.
    #[error(
        "the data folder {path} is in use by process {holder}: stop that one first, or choose another folder"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other process's number, as it wrote it down.
        holder: String,
    },
    /// It cannot be made, read or written.
    #[error("the data folder {path} cannot be used: {error}")]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// What it holds was written by another release, or is damaged.
    #[error("the data folder {path} cannot be opened: {reason}")]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Held for as long as the folder is open. The system lets go of it when the process ends, however it
/// ends.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub(super) fn acquire(path: &Path) -> Result<Self, FolderError> {
        let io = |error| FolderError::Io { path: path.to_path_buf(), error };
        create_dir_all(path).map_err(io)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path.join(LOCK_FILE)).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(io)?;
                let holder = match holder.trim() {
                    "" => "that has just started".to_string(),
                    number => number.to_string(),
                };
                return Err(FolderError::InUse { path: path.to_path_buf(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(FolderLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_is_told_who_has_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::acquire(folder.path()).unwrap();
        let error = FolderLock::acquire(folder.path()).unwrap_err().to_string();
        let holder = format!("in use by process {}:", std::process::id());
        assert!(error.contains(&holder), "{error}");
        drop(lock);
        FolderLock::acquire(folder.path()).unwrap();
    }
}
