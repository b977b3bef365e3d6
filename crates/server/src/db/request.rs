//! The bodies of writes and reads: what they may hold, and how they are read in bounded steps.

use std::fmt;

use axum::http::HeaderMap;
use consort_db::read::{Consistency, ReadJob};
use consort_db::write::job::{JobArgs, JobKey, JobStatement, SqlValue, WriteJob};
use consort_kernel::Budget;
use ring::digest::{Context, SHA256};
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::failures::{not_stored, refused};
use super::values::ArgumentValue;
use crate::problem::Problem;
use crate::problems;

/// Most statements of a request: as many as run within the time of one write.
pub(crate) const STATEMENTS_MOST: usize = 1_000;

/// The longest text of a statement, which is SQLite's own limit here.
pub(crate) const SQL_MOST: usize = 1024 * 1024;

/// Most arguments of a statement: SQLite's own limit here. A list is refused where it grows beyond it.
pub(crate) const ARGUMENTS_MOST: usize = 32_000;

/// The longest `Idempotency-Key`.
pub(crate) const KEY_MOST: usize = 256;

const KEY: &str = "idempotency-key";

/// The version of what [`statements_hash`] hashes. Keys of another version match nothing.
pub(crate) const HASH_VERSION: u8 = 1;

/// A read as its body says it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReadRequest {
    pub(super) job: ReadJob,
    /// One query, whose rows are the answer itself.
    pub(super) is_single: bool,
    pub(super) consistency: Consistency,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteBody<'a> {
    #[serde(borrow)]
    statements: StatementTexts<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadBody<'a> {
    #[serde(borrow, default)]
    query: Option<&'a RawValue>,
    #[serde(borrow, default)]
    queries: Option<StatementTexts<'a>>,
    #[serde(default)]
    consistency: ReadWord,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadWord {
    #[default]
    Any,
    Strong,
    /// As other databases call it.
    Leader,
}

/// A list of statements that are not read yet. One that is too long is refused before it takes memory.
struct StatementTexts<'a>(Vec<&'a RawValue>);

/// One statement: a list, or an object.
struct StatementForm(JobStatement);

/// Reads the body of a write. The caller runs it where other requests do not wait for it.
pub(super) async fn read_write(body: &[u8]) -> Result<Vec<JobStatement>, Problem> {
    let parsed: WriteBody<'_> = serde_json::from_slice(body).map_err(|error| {
        refused(format!("the body must be {{\"statements\": [STATEMENT, …]}}: {error}"))
    })?;
    statements(&parsed.statements.0).await
}

/// Reads the body of a read.
pub(super) async fn read_read(body: &[u8]) -> Result<ReadRequest, Problem> {
    let form =
        "{\"query\": STATEMENT} or {\"queries\": [STATEMENT, …]}, and perhaps \"consistency\"";
    let parsed: ReadBody<'_> = serde_json::from_slice(body)
        .map_err(|error| refused(format!("the body must be {form}: {error}")))?;
    let (texts, is_single) = match (parsed.query, parsed.queries) {
        (Some(query), None) => (vec![query], true),
        (None, Some(queries)) => (queries.0, false),
        _ => return Err(refused(format!("the body must be {form}: either of the two"))),
    };
    let queries = statements(&texts).await?;
    if let Some(n) = queries.iter().position(|query| query.changes.is_some()) {
        let problem = refused("'changes' is an expectation of a write: a query has none");
        return Err(problem.with("statement", n));
    }
    let consistency = match parsed.consistency {
        ReadWord::Any => Consistency::Any,
        ReadWord::Strong | ReadWord::Leader => Consistency::Strong,
    };
    Ok(ReadRequest { job: ReadJob { queries }, is_single, consistency })
}

/// The job of a write, with the key of the request if it has one.
pub(super) fn write_job(
    statements: Vec<JobStatement>,
    headers: &HeaderMap,
) -> Result<WriteJob, Problem> {
    let key = idempotency_key(headers)?;
    let key = key.map(|key| JobKey { key, hash: statements_hash(&statements) });
    Ok(WriteJob { statements, key })
}

/// SHA-256 of statements, whatever white space their JSON has. Stored keys have it, so that its form may never change
/// without another [`HASH_VERSION`].
pub(crate) fn statements_hash(statements: &[JobStatement]) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    hash.update(&[HASH_VERSION]);
    for statement in statements {
        hash_bytes(&mut hash, b'S', statement.sql.as_bytes());
        match &statement.args {
            JobArgs::Positional(values) => {
                values.iter().for_each(|value| hash_value(&mut hash, value))
            }
            JobArgs::Named(values) => {
                // Objects of JSON have no order.
                let mut sorted: Vec<&(String, SqlValue)> = values.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                for (name, value) in sorted {
                    hash_bytes(&mut hash, b'A', name.as_bytes());
                    hash_value(&mut hash, value);
                }
            }
        }
        if let Some(changes) = statement.changes {
            hash_bytes(&mut hash, b'C', &changes.to_be_bytes());
        }
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.finish().as_ref());
    bytes
}

fn hash_value(hash: &mut Context, value: &SqlValue) {
    match value {
        SqlValue::Null => hash_bytes(hash, b'n', b""),
        SqlValue::Integer(number) => hash_bytes(hash, b'i', &number.to_be_bytes()),
        SqlValue::Real(real) => hash_bytes(hash, b'r', &real.to_bits().to_be_bytes()),
        SqlValue::Text(text) => hash_bytes(hash, b't', text),
        SqlValue::Blob(blob) => hash_bytes(hash, b'b', blob),
    }
}

fn hash_bytes(hash: &mut Context, kind: u8, bytes: &[u8]) {
    hash.update(&[kind]);
    hash.update(&(bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(KEY).iter();
    let Some(key) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(refused("'Idempotency-Key' came twice"));
    }
    let key = key.as_bytes();
    if !(1..=KEY_MOST).contains(&key.len()) || !key.iter().all(u8::is_ascii_graphic) {
        return Err(refused(format!(
            "'Idempotency-Key' has 1 to {KEY_MOST} visible ASCII characters, without spaces"
        )));
    }
    Ok(Some(String::from_utf8_lossy(key).into_owned()))
}

async fn statements(texts: &[&RawValue]) -> Result<Vec<JobStatement>, Problem> {
    if texts.is_empty() {
        return Err(refused(format!("a request has 1 to {STATEMENTS_MOST} statements, not 0")));
    }
    let (mut statements, mut budget) = (Vec::with_capacity(texts.len()), Budget::default());
    for (n, text) in texts.iter().enumerate() {
        let parsed: StatementForm = serde_json::from_str(text.get()).map_err(|error| {
            refused(format!("statement {n} cannot be read: {error}")).with("statement", n)
        })?;
        if parsed.0.sql.len() > SQL_MOST {
            let detail = format!(
                "the text of statement {n} has {} bytes, and the limit is {SQL_MOST}: send values as arguments",
                parsed.0.sql.len()
            );
            let problem = Problem::new(problems::DB_TOO_LARGE, detail);
            return Err(not_stored(problem).with("statement", n));
        }
        statements.push(parsed.0);
        budget.spend(text.get().len()).await;
    }
    Ok(statements)
}

impl<'de: 'a, 'a> Deserialize<'de> for StatementTexts<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of statements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    if texts.len() == STATEMENTS_MOST {
                        let many = format!("a request has at most {STATEMENTS_MOST} statements");
                        return Err(de::Error::custom(many));
                    }
                    texts.push(text);
                }
                Ok(texts)
            }
        }

        from.deserialize_seq(Texts).map(StatementTexts)
    }
}

impl<'de> Deserialize<'de> for StatementForm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StatementVisitor).map(StatementForm)
    }
}

struct StatementVisitor;

impl<'de> Visitor<'de> for StatementVisitor {
    type Value = JobStatement;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list [SQL, ARGUMENT, …] or an object with 'sql', 'args' and 'changes'")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JobStatement, A::Error> {
        let sql = list.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let args = JobArgs::Positional(rest_of(list)?);
        Ok(JobStatement { sql, args, changes: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JobStatement, A::Error> {
        let (mut sql, mut args, mut changes) = (None, None, None);
        while let Some(name) = map.next_key::<String>()? {
            let is_again = match name.as_str() {
                "sql" => sql.replace(map.next_value()?).is_some(),
                "args" => args.replace(map.next_value::<Arguments>()?.0).is_some(),
                "changes" => changes.replace(map.next_value()?).is_some(),
                _ => {
                    let known = &["sql", "args", "changes"];
                    return Err(de::Error::unknown_field(&name, known));
                }
            };
            if is_again {
                return Err(de::Error::custom(format!("'{name}' came twice")));
            }
        }
        let sql = sql.ok_or_else(|| de::Error::missing_field("sql"))?;
        let args = args.unwrap_or(JobArgs::Positional(Vec::new()));
        Ok(JobStatement { sql, args, changes })
    }
}

/// `args`: a list, or an object of named arguments.
struct Arguments(JobArgs);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Given;

        impl<'de> Visitor<'de> for Given {
            type Value = JobArgs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of arguments or an object of named ones")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<JobArgs, A::Error> {
                rest_of(list).map(JobArgs::Positional)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JobArgs, A::Error> {
                let mut named: Vec<(String, SqlValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, ArgumentValue>()? {
                    if named.len() == ARGUMENTS_MOST {
                        return Err(too_many());
                    }
                    named.push((name, value.0));
                }
                Ok(JobArgs::Named(named))
            }
        }

        from.deserialize_any(Given).map(Arguments)
    }
}

/// The arguments that are left of a list.
fn rest_of<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Vec<SqlValue>, A::Error> {
    let mut values = Vec::new();
    while values.len() < ARGUMENTS_MOST {
        match list.next_element::<ArgumentValue>()? {
            Some(value) => values.push(value.0),
            None => return Ok(values),
        }
    }
    match list.next_element::<IgnoredAny>()? {
        None => Ok(values),
        Some(_) => Err(too_many()),
    }
}

fn too_many<E: de::Error>() -> E {
    E::custom(format!("a statement has at most {ARGUMENTS_MOST} arguments"))
}

#[cfg(test)]
mod tests;
