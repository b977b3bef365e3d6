//! `GET` and `PUT /db/{name}/backup`: the whole database as one SQLite file.
//!
//! Files pass through a folder of this node, since SQLite reads and writes files. A body of any length is written there
//! in pieces, up to `max_size`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use consort_db::db::Database;
use futures::StreamExt as _;
use futures::stream;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::DbHttp;
use super::answers::{at_position, tell_position};
use super::failures::{no_worker, not_stored, refused};
use super::hop::{HopOutcome, HopRequest};
use super::incoming::DatabasePath;
use super::orders::admin_failed;
use crate::problem::Problem;
use crate::problems;
use crate::streams::unreadable;
use consort_db::admin::DbAdminError;

/// How long another node may take until its file begins to come: it copies up to 16 GiB first.
const COPY_WITHIN: Duration = Duration::from_secs(600);

/// Bytes of a file that are read at once.
const STEP: usize = 64 * 1024;

/// Every SQLite file begins with this.
const SQLITE_HEADER: &[u8] = b"SQLite format 3\0";

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/vnd.sqlite3");

/// A file of this node that goes when its request ends.
#[derive(Debug)]
struct TransferFile(PathBuf);

/// `GET /db/{name}/backup`
pub(super) async fn download(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Response, Problem> {
    let database = http.database(path)?;
    let (head, _) = request.into_parts();
    let hop = HopRequest {
        method: head.method,
        uri: head.uri,
        headers: head.headers,
        body: Bytes::new(),
    };
    let file = http.transfer_file(&database).await?;
    let copied = {
        // Not beyond the copy: another node may ask this one meanwhile.
        let _turn = http.turn().await;
        database.backup(&file.0).await.map_err(DbAdminError::from)
    };
    match copied {
        Ok(position) => {
            let mut response = sent(file, &database).await.map_err(|error| disk_failed(&error))?;
            tell_position(&mut response, position);
            Ok(response)
        }
        Err(DbAdminError::NoWorker) => http.download_elsewhere(&database, &hop).await,
        Err(error) => Err(admin_failed(&error)),
    }
}

/// `PUT /db/{name}/backup`
pub(super) async fn restore(
    State(http): State<DbHttp>,
    path: DatabasePath,
    request: Request,
) -> Result<Response, Problem> {
    let database = http.database(path)?;
    let Some(_restoring) = http.restore_turn() else {
        return Err(no_worker("this node receives another file at the moment; send yours later"));
    };
    let file = http.transfer_file(&database).await?;
    let body = request.into_body().into_data_stream();
    receive(body, &file.0, database.settings().max_size).await?;
    let _turn = http.turn().await;
    let position = database.restore(&file.0).await.map_err(|error| admin_failed(&error.into()))?;
    tracing::warn!(database = database.name(), %position, "an operator restored the database");
    Ok(at_position(position))
}

impl DbHttp {
    /// Gets the file from another node that has a worker.
    async fn download_elsewhere(
        &self,
        database: &Database,
        hop: &HopRequest,
    ) -> Result<Response, Problem> {
        let mut problem = no_worker("no worker can make a copy at the moment");
        if hop.is_forwarded() {
            return Err(problem);
        }
        let view = database.view().now();
        for to in self.loads().candidates(&view, self.own_node().as_deref(), self.draw()) {
            match hop.send(self.peers(), &to, Instant::now(), COPY_WITHIN).await {
                HopOutcome::Answered(answer) if answer.status().is_success() => return Ok(answer),
                HopOutcome::Answered(answer) => {
                    problem = no_worker(format!("node '{}' answered {}", to.node, answer.status()));
                }
                HopOutcome::NotTaken(detail) | HopOutcome::Unknown(detail) => {
                    problem = no_worker(detail);
                }
            }
        }
        Err(problem)
    }

    /// A place for a file, in the folder that the node empties when it starts.
    async fn transfer_file(&self, database: &Database) -> Result<TransferFile, Problem> {
        let folder = self.transfers();
        tokio::fs::create_dir_all(folder).await.map_err(|error| disk_failed(&error))?;
        Ok(TransferFile(folder.join(format!("{}-{:016x}.db", database.name(), self.draw()))))
    }
}

/// The file as an answer. It is read as the client takes it.
async fn sent(file: TransferFile, database: &Database) -> io::Result<Response> {
    let opened = File::open(&file.0).await?;
    let length = opened.metadata().await?.len();
    let pieces = stream::try_unfold((opened, file), async |(mut opened, file)| {
        let mut piece = vec![0; STEP];
        let length = opened.read(&mut piece).await?;
        piece.truncate(length);
        Ok::<_, io::Error>((length > 0).then(|| (Bytes::from(piece), (opened, file))))
    });
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    let name = format!("attachment; filename=\"{}.db\"", database.name());
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Writes a body into a file, up to `most` bytes.
async fn receive(mut body: BodyDataStream, to: &Path, most: u64) -> Result<(), Problem> {
    let mut file = File::create_new(to).await.map_err(|error| disk_failed(&error))?;
    let mut length = 0;
    let mut beginning = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|_| not_stored(unreadable()))?;
        length += piece.len() as u64;
        if length > most {
            let detail = format!("the file is larger than {most} bytes ('max_size' in [db.NAME])");
            return Err(not_stored(Problem::new(problems::DB_TOO_LARGE, detail)));
        }
        let missing = SQLITE_HEADER.len().saturating_sub(beginning.len());
        beginning.extend_from_slice(&piece[..missing.min(piece.len())]);
        if !SQLITE_HEADER.starts_with(&beginning) {
            return Err(refused("the body is not a SQLite file"));
        }
        file.write_all(&piece).await.map_err(|error| disk_failed(&error))?;
    }
    if beginning.len() < SQLITE_HEADER.len() {
        return Err(refused("the body is not a SQLite file"));
    }
    file.flush().await.map_err(|error| disk_failed(&error))
}

fn disk_failed(error: &io::Error) -> Problem {
    let detail = format!("this node's disk failed: {error}");
    not_stored(Problem::new(problems::DB_FULL, detail))
}

impl Drop for TransferFile {
    fn drop(&mut self) {
        // It may not have been created; what stays goes when the node starts again.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(pieces: &[&'static [u8]], most: u64) -> (Result<(), String>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let file = TransferFile(folder.path().join("x.db"));
        let pieces: Vec<io::Result<&[u8]>> = pieces.iter().map(|piece| Ok(*piece)).collect();
        let body = Body::from_stream(stream::iter(pieces)).into_data_stream();
        let outcome = receive(body, &file.0, most).await;
        let length = std::fs::metadata(&file.0).map_or(0, |file| file.len());
        (outcome.map_err(|problem| problem.detail().to_owned()), length)
    }

    #[tokio::test]
    async fn a_file_is_taken_in_pieces_up_to_its_bound() {
        let file: &[&[u8]] = &[b"SQLite ", b"format 3\0", b"pages"];
        assert_eq!(received(file, 21).await, (Ok(()), 21));
        let (outcome, _) = received(file, 20).await;
        assert!(outcome.unwrap_err().contains("larger than 20 bytes"));
        for other in ["", "SQLite", "CREATE TABLE t (a);", "SQLite format 4\0"] {
            let (outcome, _) = received(&[other.as_bytes()], 100).await;
            assert_eq!(outcome, Err("the body is not a SQLite file".to_owned()), "{other}");
        }
    }

    #[tokio::test]
    async fn a_file_goes_with_its_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let file = TransferFile(path.clone());
        std::fs::write(&path, b"x").unwrap();
        drop(file);
        assert!(!path.exists());
    }
}
