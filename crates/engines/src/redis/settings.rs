//! What the server's own settings promise, read when the engine is opened.
//!
//! A server that forgets what it acknowledged makes every promise above it void: it is refused, unless
//! whoever runs it says that this is wanted.

use std::collections::BTreeMap;

use redis::Value;

use super::link::{CallError, Link};
use crate::open::OpenError;

/// Scripts with flags and streams with partial ids came with this release.
const OLDEST_VERSION: u32 = 7;

/// Reads every master's settings. The lines say what they give; unsafe ones are an error.
pub(super) async fn check(link: &Link, allow_volatile: bool) -> Result<Vec<String>, OpenError> {
    let address = link.place().shown.clone();
    let unreachable = |error: CallError| OpenError::Unreachable {
        address: address.clone(),
        reason: error.fault().to_string(),
    };
    let mut info = redis::cmd("INFO");
    info.arg("server");
    for answer in link.everywhere(&info).await.map_err(unreachable)? {
        if let Some(reason) = too_old(&answer) {
            return Err(OpenError::Unusable { address, reason });
        }
    }
    let mut config = redis::cmd("CONFIG");
    config.arg("GET").arg("appendonly").arg("appendfsync").arg("maxmemory-policy").arg("maxmemory");
    let answers = match link.everywhere(&config).await {
        Ok(answers) => answers,
        // Managed servers forbid CONFIG. What cannot be read is said, and not guessed.
        Err(CallError::Unknown(_) | CallError::NotDone(_)) => {
            return Ok(vec![format!(
                "engine: redis at {address}; this user may not read the server's settings (CONFIG GET): whether it persists (appendonly yes) and never evicts (maxmemory-policy noeviction) was not checked"
            )]);
        }
    };
    let masters: Vec<Settings> = answers.into_iter().map(Settings::read).collect();
    let unsafe_ones: Vec<String> = masters.iter().filter_map(Settings::danger).collect();
    if let Some(reason) = unsafe_ones.first() {
        if !allow_volatile {
            return Err(OpenError::Volatile { address, reason: reason.clone() });
        }
        return Ok(vec![format!("engine: redis at {address}; ALLOWED ALTHOUGH UNSAFE: {reason}")]);
    }
    let weakest = masters.iter().map(Settings::durability).min().unwrap_or(Durability::Unknown);
    let servers =
        if masters.len() > 1 { format!(" ({} masters)", masters.len()) } else { String::new() };
    Ok(vec![format!("engine: redis at {address}{servers}; {}", weakest.sentence())])
}

/// From weakest to strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Durability {
    Unknown,
    Never,
    EverySecond,
    Always,
}

impl Durability {
    fn sentence(self) -> &'static str {
        match self {
            Durability::Unknown => "how it persists could not be read",
            Durability::Never => {
                "appendfsync no: acknowledged writes survive a killed server, not a power loss"
            }
            Durability::EverySecond => {
                "appendfsync everysec: a power loss may cost up to a second of acknowledged writes, and that is detected"
            }
            Durability::Always => "appendfsync always: every acknowledged write is on the disk",
        }
    }
}

/// One server's settings by name.
#[derive(Debug)]
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn read(answer: Value) -> Self {
        let pairs = match answer {
            Value::Map(pairs) => pairs,
            Value::Array(parts) => {
                parts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
            }
            _ => Vec::new(),
        };
        Settings(pairs.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Why data is not safe with this server.
    fn danger(&self) -> Option<String> {
        if self.get("appendonly") == "no" {
            return Some("appendonly is 'no', so what it acknowledged is gone when it stops: set appendonly to 'yes'".into());
        }
        let policy = self.get("maxmemory-policy");
        if !matches!(policy, "noeviction" | "") {
            return Some(format!(
                "maxmemory-policy is '{policy}', so it throws data away when memory is short: set it to 'noeviction'"
            ));
        }
        None
    }

    fn durability(&self) -> Durability {
        match self.get("appendfsync") {
            "always" => Durability::Always,
            "everysec" => Durability::EverySecond,
            "no" => Durability::Never,
            _ => Durability::Unknown,
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

fn too_old(info: &Value) -> Option<String> {
    let info = text(info);
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"))?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major < OLDEST_VERSION).then(|| {
        format!("it is Redis {}, and Consort needs {OLDEST_VERSION}.0 or later", version.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings(pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect())
    }

    #[test]
    fn unsafe_settings_are_named_with_what_they_should_be() {
        let volatile = settings(&[("appendonly", "no")]).danger().unwrap();
        assert!(volatile.contains("set appendonly to 'yes'"), "{volatile}");
        let evicting = settings(&[("appendonly", "yes"), ("maxmemory-policy", "allkeys-lru")]);
        assert!(evicting.danger().unwrap().contains("'noeviction'"));
        let safe = settings(&[("appendonly", "yes"), ("maxmemory-policy", "noeviction")]);
        assert_eq!(safe.danger(), None);
    }

    #[test]
    fn an_old_server_is_refused() {
        let info = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert!(too_old(&info("redis_version:6.2.7\r\n")).unwrap().contains("Redis 6.2.7"));
        assert_eq!(too_old(&info("# Server\r\nredis_version:7.0.15\r\n")), None);
    }
}
