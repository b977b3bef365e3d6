//! A connection to a Redis server or cluster that mends itself.
//!
//! Many calls share one connection. A call that gets no answer in time gives the connection up, since
//! a peer that vanished without a word would otherwise swallow every later call too; the next call
//! connects anew. No call is ever sent twice by the link itself, except where the server said that it did
//! not execute it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use consort_kernel::Fault;
use parking_lot::RwLock;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind,
    TlsCertificates, Value,
};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::scripts::Source;
use crate::address::printable;
use crate::open::OpenError;

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long the answer to a call may take. Scripts are bounded to milliseconds: more than this is a
/// server that is gone, stopped or hopelessly behind.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The same for calls about leases. It is a third of the default lease, so that a connection that fell silent is given
/// up, and a renewal tried on another one, before the lease lapses.
const LEASE_ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// How often a call is sent anew when a cluster says that it lies elsewhere, and how long it waits
/// before each. Together about the time that a failover or a moved slot takes to settle.
const REDIRECTS: u32 = 8;
const REDIRECT_WAIT: Duration = Duration::from_millis(25);

/// Where a server or cluster is, and how to get in.
#[derive(Clone)]
pub(super) struct Place {
    /// One `redis://` or `rediss://` URL for each node that was named.
    nodes: Vec<String>,
    cluster: bool,
    root_cert: Option<Vec<u8>>,
    /// What messages call it.
    pub(super) shown: String,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Place").field(&self.shown).finish()
    }
}

impl Place {
    /// Reads `redis://…`, `rediss://…`, `redis-cluster://…` or `rediss-cluster://…`.
    pub(super) fn parse(url: &str, tls_ca: Option<&Path>) -> Result<Self, OpenError> {
        let shown = printable(url);
        let unusable = |reason: String| OpenError::Unusable { address: shown.clone(), reason };
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let cluster = scheme.ends_with("-cluster");
        let nodes: Vec<String> = if cluster {
            let scheme = scheme.trim_end_matches("-cluster");
            let (login, hosts) = match rest.rsplit_once('@') {
                Some((login, hosts)) => (format!("{login}@"), hosts),
                None => (String::new(), rest),
            };
            let hosts = hosts.trim_end_matches('/').split(',');
            hosts.map(|host| format!("{scheme}://{login}{}", host.trim())).collect()
        } else {
            vec![url.to_string()]
        };
        let root_cert = match tls_ca {
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                unusable(format!("the certificate file {} cannot be read: {error}", path.display()))
            })?),
            None => None,
        };
        let place = Place { nodes, cluster, root_cert, shown: shown.clone() };
        for node in 0..place.nodes.len() {
            // The library's message may quote the URL, password and all: it is not passed on.
            place.client(node).map_err(|_| {
                unusable("this is not an address: use redis://[USER:PASSWORD@]HOST:PORT/DB, or redis-cluster://HOST:PORT,HOST:PORT".into())
            })?;
        }
        Ok(place)
    }

    /// A client of one of the named nodes.
    pub(super) fn client(&self, node: usize) -> RedisResult<Client> {
        let url = self.nodes[node % self.nodes.len()].as_str();
        match &self.root_cert {
            Some(_) if url.starts_with("rediss:") => {
                Client::build_with_tls(url, self.certificates())
            }
            _ => Client::open(url),
        }
    }

    fn certificates(&self) -> TlsCertificates {
        TlsCertificates { client_tls: None, root_cert: self.root_cert.clone() }
    }

    async fn connect(&self) -> RedisResult<Connection> {
        if self.cluster {
            let mut builder = ClusterClientBuilder::new(self.nodes.clone())
                // A retry inside the library could apply a commit twice.
                .retries(0)
                .connection_timeout(CONNECT_WITHIN)
                .response_timeout(ANSWER_WITHIN);
            if self.root_cert.is_some() && self.nodes[0].starts_with("rediss:") {
                builder = builder.certs(self.certificates());
            }
            return Ok(Connection::Many(builder.build()?.get_async_connection().await?));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(None);
        let client = self.client(0)?;
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Connection::One(connection))
    }
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Many(ClusterConnection),
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server did not execute it.
    NotDone(Fault),
    /// It may have been executed.
    Unknown(Fault),
}

impl CallError {
    /// The fault, for calls that change nothing.
    pub(super) fn fault(self) -> Fault {
        match self {
            CallError::NotDone(fault) | CallError::Unknown(fault) => fault,
        }
    }
}

/// One shared connection.
pub(super) struct Link {
    place: Place,
    held: RwLock<Option<(u64, Connection)>>,
    /// Held while connecting, so that one call connects and the others wait for it.
    connecting: Mutex<()>,
    connections: AtomicU64,
    /// Whether a call whose outcome is unknown is sent once more.
    repeats: bool,
    answer_within: Duration,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Link {
    /// A link for calls that may change something: none is sent twice.
    pub(super) fn new(place: Place) -> Self {
        Link {
            place,
            held: RwLock::default(),
            connecting: Mutex::default(),
            connections: AtomicU64::new(0),
            repeats: false,
            answer_within: ANSWER_WITHIN,
        }
    }

    /// A link for calls that change nothing a reader could see.
    pub(super) fn for_reads(place: Place) -> Self {
        Link { repeats: true, ..Link::new(place) }
    }

    /// A link for leases: it gives a silent connection up sooner.
    pub(super) fn for_leases(place: Place) -> Self {
        Link { answer_within: LEASE_ANSWER_WITHIN, ..Link::new(place) }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Calls a script on the server that holds `key`.
    pub(super) async fn script(
        &self,
        source: &Source,
        key: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Value, CallError> {
        let command = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(1).arg(key);
            for argument in arguments {
                command.arg(*argument);
            }
            command
        };
        let mut call = command("EVALSHA", &source.hash);
        let mut waits = 0..REDIRECTS;
        let mut repeats = self.repeats;
        loop {
            let error = match self.send(&call).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                // The connection was lost while nobody used it: a new one is likely to do.
                Err(CallError::Unknown(_)) if repeats => {
                    repeats = false;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match error.kind() {
                // A server that was restarted does not know the script: sending it whole teaches it.
                ErrorKind::Server(ServerErrorKind::NoScript) => {
                    call = command("EVAL", &source.text);
                }
                kind if elsewhere(kind) => match waits.next() {
                    Some(waited) => sleep(REDIRECT_WAIT * waited).await,
                    None => return Err(self.refused(&error)),
                },
                _ => return Err(self.refused(&error)),
            }
        }
    }

    /// Calls a command on every master, or on the one server.
    pub(super) async fn everywhere(&self, command: &Cmd) -> Result<Vec<Value>, CallError> {
        let (_, connection) = self.connection().await?;
        let answer = match connection {
            Connection::One(_) => {
                let answer = self.send(command).await?;
                return answer.map(|value| vec![value]).map_err(|error| self.refused(&error));
            }
            Connection::Many(mut many) => {
                let masters = MultipleNodeRoutingInfo::AllMasters;
                let routing = RoutingInfo::MultiNode((masters, None));
                timeout(ANSWER_WITHIN, many.route_command(command.clone(), routing)).await
            }
        };
        let answer = answer.unwrap_or_else(|_| Err(late())).and_then(Value::extract_error);
        match answer {
            Ok(Value::Map(nodes)) => Ok(nodes.into_iter().map(|(_, value)| value).collect()),
            Ok(Value::Array(values)) => Ok(values),
            Ok(value) => Ok(vec![value]),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Sends a command. The inner error is the server's answer: it did not execute the call.
    async fn send(&self, command: &Cmd) -> Result<Result<Value, RedisError>, CallError> {
        let (id, connection) = self.connection().await?;
        let answer = match connection {
            Connection::One(mut one) => {
                timeout(self.answer_within, one.req_packed_command(command)).await
            }
            Connection::Many(mut many) => {
                timeout(self.answer_within, many.req_packed_command(command)).await
            }
        };
        match answer.unwrap_or_else(|_| Err(late())) {
            Ok(value) => match value.extract_error() {
                Ok(value) => Ok(Ok(value)),
                Err(error) => Ok(Err(error)),
            },
            Err(error) if answered(&error) => Ok(Err(error)),
            Err(error) => {
                self.give_up(id, &error);
                Err(CallError::Unknown(self.fault(&error)))
            }
        }
    }

    async fn connection(&self) -> Result<(u64, Connection), CallError> {
        if let Some(held) = &*self.held.read() {
            return Ok(held.clone());
        }
        let _connecting = self.connecting.lock().await;
        if let Some(held) = &*self.held.read() {
            return Ok(held.clone());
        }
        let connected = timeout(2 * CONNECT_WITHIN, self.place.connect()).await;
        match connected.unwrap_or_else(|_| Err(late())) {
            Ok(connection) => {
                let id = self.connections.fetch_add(1, Ordering::Relaxed);
                *self.held.write() = Some((id, connection.clone()));
                Ok((id, connection))
            }
            Err(error) => Err(CallError::NotDone(self.fault(&error))),
        }
    }

    /// Lets go of a connection that failed, unless another took its place already.
    fn give_up(&self, id: u64, error: &RedisError) {
        let mut held = self.held.write();
        if let Some((current, connection)) = &*held
            && *current == id
        {
            // A cluster's connection mends single nodes by itself, but does not notice a silent one.
            let mends_itself = matches!(connection, Connection::Many(_)) && !error.is_timeout();
            if !mends_itself {
                *held = None;
            }
        }
    }

    /// The error of a call that the server answered with a refusal.
    fn refused(&self, error: &RedisError) -> CallError {
        let fault = self.fault(error);
        match error.kind() {
            // A script that failed while it ran: which it cannot, unless something is very wrong.
            ErrorKind::Server(ServerErrorKind::ResponseError) => CallError::Unknown(fault),
            _ => CallError::NotDone(fault),
        }
    }

    fn fault(&self, error: &RedisError) -> Fault {
        let text = format!("redis at {}: {}", self.place.shown, explain(error));
        let code = error.code().unwrap_or_default();
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Fault::Fatal(text),
            ErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::ResponseError) => {
                Fault::Fatal(text)
            }
            _ if matches!(code, "NOAUTH" | "WRONGPASS" | "NOPERM") => Fault::Fatal(text),
            _ => Fault::Retryable(text),
        }
    }
}

/// Whether the error came from a server, in answer to the call.
fn answered(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::ClusterConnectionNotFound
    )
}

/// Whether a cluster said that the call must go elsewhere, or wait until it has settled.
fn elsewhere(kind: ErrorKind) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, MasterDown, Moved, TryAgain};
    matches!(
        kind,
        ErrorKind::ClusterConnectionNotFound
            | ErrorKind::Server(Ask | ClusterDown | MasterDown | Moved | TryAgain)
    )
}

fn late() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer in time").into()
}

/// The error in words, with what to do where that is known.
fn explain(error: &RedisError) -> String {
    let hint = match error.code().unwrap_or_default() {
        _ if error.kind() == ErrorKind::AuthenticationFailed => {
            "; check the user and password in engine.url"
        }
        "OOM" => "; the server's memory is full: raise maxmemory, or let Consort keep less",
        "MISCONF" => "; the server cannot write its data to disk: look at its log",
        "LOADING" => "; the server is starting",
        "NOAUTH" | "WRONGPASS" => "; check the user and password in engine.url",
        "NOPERM" => "; this user needs the rights to run scripts and publish",
        _ => "",
    };
    format!("{error}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let one = Place::parse("redis://:pw@host:1/2", None).unwrap();
        assert_eq!((one.nodes.len(), one.cluster), (1, false));
        let many = Place::parse("redis-cluster://u:p@a:1,b:2, c:3/", None).unwrap();
        assert_eq!(many.nodes, ["redis://u:p@a:1", "redis://u:p@b:2", "redis://u:p@c:3"]);
        let tls = Place::parse("rediss-cluster://a:1", None).unwrap();
        assert_eq!(tls.nodes, ["rediss://a:1"]);
    }

    #[test]
    fn a_bad_address_is_told_without_its_password() {
        let error = Place::parse("redis://:hush@:x:y", None).unwrap_err().to_string();
        assert!(error.contains("not an address"), "{error}");
        assert!(!error.contains("hush"), "{error}");
        let place = Place::parse("redis://:hush@host", None).unwrap();
        assert!(!format!("{place:?} {:?}", Link::new(place.clone())).contains("hush"));
    }
}
