//! The folder of a slot in a node: a lock, the file that the worker uses, and what the file belongs to.
//!
//! A file is named by its generation. Beside it stands a note with the database's id and the machine's boot id:
//! local writes are not durable, so a file from before a power loss is not to be trusted (H10).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::shared::ServedFile;

/// The note beside the file.
const NOTE: &str = "file";
/// The lock file.
const LOCK: &str = "lock";
/// The kernel's id of this start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// How long a worker waits for the one before it to let go of the folder: a thread of it may still end a commit.
const LOCK_ATTEMPTS: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// A folder that this process has locked.
#[derive(Debug)]
pub(crate) struct WorkerFolder {
    path: PathBuf,
    boot: String,
    /// Locked for as long as it is open.
    _lock: File,
}

/// The file that a note names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotedFile {
    pub(crate) file: ServedFile,
    /// Whether the machine has not started anew since the file was begun.
    pub(crate) is_of_this_boot: bool,
}

impl WorkerFolder {
    /// Makes the folder if there is none, and locks it.
    pub(crate) async fn open(path: PathBuf) -> io::Result<WorkerFolder> {
        fs::create_dir_all(&path)?;
        let lock = File::create(path.join(LOCK))?;
        let mut attempt = 0;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let reason = format!("another process works in {}", path.display());
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, reason));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        Ok(WorkerFolder { path, boot, _lock: lock })
    }

    /// The file of the worker before, if there is one.
    pub(crate) fn noted(&self) -> Option<NotedFile> {
        let note = fs::read_to_string(self.path.join(NOTE)).ok()?;
        let mut words = note.split_whitespace();
        let generation = u64::from_str_radix(words.next()?, 16).ok()?;
        let database = u128::from_str_radix(words.next()?, 16).ok()?;
        let boot = words.next()?;
        let path = self.file_path(generation);
        path.exists().then(|| NotedFile {
            file: ServedFile { path: Arc::new(path), generation, database },
            is_of_this_boot: !self.boot.is_empty() && boot == self.boot,
        })
    }

    /// The file of this generation, which does not exist yet. All others are removed.
    pub(crate) fn new_file(&self, generation: u64, database: u128) -> io::Result<ServedFile> {
        self.clear()?;
        Ok(ServedFile { path: Arc::new(self.file_path(generation)), generation, database })
    }

    /// Notes that the worker uses this file from now on.
    pub(crate) fn note(&self, file: &ServedFile) -> io::Result<()> {
        let note = format!("{:x} {:x} {}\n", file.generation, file.database, self.boot);
        let fresh = self.path.join("file.new");
        fs::write(&fresh, note)?;
        fs::rename(fresh, self.path.join(NOTE))
    }

    /// Removes all files of databases. Connections that are open keep what they have.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != LOCK {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// A path in the folder for work that is not finished.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn file_path(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{generation:x}.sqlite"))
    }
}

/// Bytes of the write-ahead log beside a file.
pub(crate) fn wal_bytes(file: &Path) -> u64 {
    let mut wal = file.as_os_str().to_owned();
    wal.push("-wal");
    fs::metadata(PathBuf::from(wal)).map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_has_one_worker_and_remembers_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let opened = WorkerFolder::open(folder.path().join("0")).await.unwrap();
        assert_eq!(opened.noted(), None);
        let file = opened.new_file(7, 9).unwrap();
        fs::write(&*file.path, "x").unwrap();
        opened.note(&file).unwrap();
        assert!(File::open(folder.path().join("0").join(LOCK)).unwrap().try_lock().is_err());
        drop(opened);
        let mut opened = WorkerFolder::open(folder.path().join("0")).await.unwrap();
        assert_eq!(opened.noted(), Some(NotedFile { file, is_of_this_boot: true }));
        opened.boot = "another".into();
        assert!(!opened.noted().unwrap().is_of_this_boot);
        opened.clear().unwrap();
        assert_eq!(opened.noted(), None);
    }
}
