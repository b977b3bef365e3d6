//! Keys of requests that may be repeated: the first answer is kept in the database itself, in the savepoint
//! of its job, and travels in the changeset (H22).

use std::time::Duration;

use consort_kernel::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::job::{
    JobAnswer, JobError, JobErrorKind, JobKey, StatementResult, decode_answer, encode_answer,
};

/// How long a key lives, by store time.
pub const KEY_LIFE: Duration = Duration::from_secs(3600);
/// Longest answer that is kept. A repeat of a longer one gets its position only.
pub const KEPT_ANSWER_BYTES: usize = 64 * 1024;
/// Old keys that one write deletes: more than it adds, so that they cannot pile up.
const DELETED_KEYS: u32 = 2;

/// What a request with this key did before. An error is an error of the request.
pub fn look_up(
    connection: &Connection,
    key: &JobKey,
    now: Timestamp,
) -> rusqlite::Result<Result<Option<JobAnswer>, JobError>> {
    let sql = "SELECT hash, answer, idx FROM _consort_keys WHERE key = ?1 AND time > ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row((&key.key, oldest(now)), |row| {
        Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, Option<Vec<u8>>>(1)?, row.get::<_, i64>(2)?))
    });
    let Some((hash, answer, index)) = found.optional()? else { return Ok(Ok(None)) };
    if hash != key.hash {
        let message = "this Idempotency-Key was used with other statements: draw a new one";
        return Ok(Err(JobError::new(JobErrorKind::KeyReused, message)));
    }
    // An answer of a later release is as good as one that was not kept.
    let results = answer.and_then(|answer| decode_answer(&answer).ok());
    Ok(Ok(Some(JobAnswer::Known { index: index as u64, results })))
}

/// Keeps the answer of a job, and deletes a few keys that are over.
pub fn remember(
    connection: &Connection,
    key: &JobKey,
    results: &[StatementResult],
    index: u64,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM _consort_keys WHERE key IN
        (SELECT key FROM _consort_keys WHERE time <= ?1 ORDER BY time LIMIT ?2)";
    connection.prepare_cached(sql)?.execute((oldest(now), DELETED_KEYS))?;
    let answer = encode_answer(results);
    let answer = (answer.len() <= KEPT_ANSWER_BYTES).then_some(answer);
    let sql = "INSERT INTO _consort_keys (key, hash, answer, idx, time) VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (key) DO UPDATE SET hash = ?2, answer = ?3, idx = ?4, time = ?5";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute((&key.key, key.hash, answer, index as i64, now.0 as i64))?;
    Ok(())
}

/// The time of the newest key that is over.
fn oldest(now: Timestamp) -> i64 {
    let life = KEY_LIFE.as_millis() as u64;
    now.0.saturating_sub(life) as i64
}
