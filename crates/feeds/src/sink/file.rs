//! The sink `file`: changes are lines, on the disk before they count as delivered.
//!
//! The file is opened anew for each delivery, so it may be moved away at any time. Several nodes of one
//! machine may write the same file: each locks it while it appends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::config::{FileConfig, FileForm};
use super::{Delivery, Failed, Sink, write_line};

/// How much is read at once to find the last line end.
const STEP: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) struct FileSink {
    path: PathBuf,
    form: FileForm,
    /// Deliverers of one node wait for each other here, and not on the file's lock. It is held until the
    /// writing has ended, even where the caller has not waited for that.
    turn: Arc<Mutex<()>>,
}

impl FileSink {
    pub(super) fn new(config: &FileConfig) -> FileSink {
        FileSink { path: config.path.clone(), form: config.form, turn: Arc::default() }
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn deliver(&self, changes: &[Delivery]) -> Result<(), Failed> {
        let mut text = String::new();
        for delivery in changes {
            match self.form {
                FileForm::Ndjson => {
                    text.push_str(&delivery.change.payload_line());
                    text.push('\n');
                }
                FileForm::Line => {
                    let point = delivery.point();
                    let written = point.and_then(|point| write_line(&point, &mut text));
                    written.map_err(Failed::refused)?;
                }
            }
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let path = self.path.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            append(&path, text.as_bytes())
        });
        let told = |error: &dyn std::fmt::Display| {
            Failed::retry(format!("{} cannot be written: {error}", self.path.display()))
        };
        writing.await.map_err(|error| told(&error))?.map_err(|error| told(&error))
    }
}

/// Appends whole lines, or nothing.
fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    let is_new = !path.exists();
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(io::Error::other("another process is writing it just now"));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let end = whole_lines(&mut file)?;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    let written = file.write_all(lines).and_then(|()| file.sync_data());
    if let Err(error) = written {
        // What was begun is taken back, as far as the disk lets us; the next delivery does it otherwise.
        let _ = file.set_len(end);
        return Err(error);
    }
    if is_new {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Where the last whole line ends. Behind it stands what a crash left half-written: its changes were never
/// counted as delivered, and come again.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut piece = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        piece.clear();
        (&*file).take(end - start).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{delivery, feed, point};
    use std::fs;

    fn rows(values: &[&str]) -> Vec<Delivery> {
        let feed = feed("v");
        let delivery =
            |(at, value): (usize, &&str)| delivery(&feed, at as u64, point("x", value, 1));
        values.iter().enumerate().map(delivery).collect()
    }

    #[tokio::test]
    async fn changes_are_appended_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let sink = |form| FileSink::new(&FileConfig { path: path.clone(), form });
        sink(FileForm::Line).deliver(&rows(&["1", "2"])).await.unwrap();
        sink(FileForm::Line).deliver(&rows(&["3"])).await.unwrap();
        let line = |value| format!("v,of=x value={value} 1480876740000000000\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), [line(1), line(2), line(3)].concat());
        fs::remove_file(&path).unwrap();
        sink(FileForm::Ndjson).deliver(&rows(&["1"])).await.unwrap();
        let json = "{\"of\":\"x\",\"value\":1}\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), json);
    }

    #[tokio::test]
    async fn a_line_that_a_crash_left_half_written_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let sink = FileSink::new(&FileConfig { path: path.clone(), form: FileForm::Line });
        let long = "x".repeat(3 * STEP as usize);
        for (before, kept) in [
            ("whole\nhalf", "whole\n"),
            ("half", ""),
            ("", ""),
            ("a\nb\n", "a\nb\n"),
            (&format!("whole\n{long}"), "whole\n"),
        ] {
            fs::write(&path, before).unwrap();
            sink.deliver(&rows(&["1"])).await.unwrap();
            let expected = format!("{kept}v,of=x value=1 1480876740000000000\n");
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn a_file_that_another_process_writes_is_tried_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let other = File::create(&path).unwrap();
        other.lock().unwrap();
        let sink = FileSink::new(&FileConfig { path, form: FileForm::Line });
        let failed = sink.deliver(&rows(&["1"])).await.unwrap_err();
        assert!(matches!(&failed, Failed::Retry { reason, .. } if reason.contains("just now")));
        drop(other);
        sink.deliver(&rows(&["1"])).await.unwrap();
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_told() {
        let path = PathBuf::from("/no/such/folder/rows");
        let sink = FileSink::new(&FileConfig { path, form: FileForm::Ndjson });
        let failed = sink.deliver(&rows(&["1"])).await.unwrap_err();
        assert!(matches!(&failed, Failed::Retry { reason, .. } if reason.contains("/no/such")));
    }
}
