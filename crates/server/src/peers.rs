//! The other nodes of the cluster, as a part reaches them: the address of a role's owner, and a pooled way to
//! forward a request to it.
//!
//! A forwarded request makes one hop at most. It carries the header [`FORWARDED`], and a node that receives a
//! marked request never forwards it again. Ownership may have changed meanwhile, so the receiving node must check
//! that it owns the role, and the part's own compare-and-commit decides what is right.

use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use consort_cluster::{ClusterStatus, Role};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::cluster::Cluster;
use crate::problem::Problem;
use crate::problems;
use crate::tokens::Tokens;
use crate::web::SEC_FETCH_SITE;

/// Marks a forwarded request with the id of the node that forwards it.
pub const FORWARDED: HeaderName = HeaderName::from_static("consort-forwarded");

/// How long a connection to another node may take. A live node on the same network accepts within milliseconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Idle connections that are kept for each node: as many forwarded requests as usually run at once.
const IDLE_PER_NODE: usize = 32;

/// How long an idle connection is kept: less than the time after which a node closes it.
const IDLE_FOR: Duration = Duration::from_secs(20);

/// Headers about one connection, which end at each hop (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The other nodes; all clones share one pool of connections.
#[derive(Clone)]
pub struct Peers {
    cluster: Cluster,
    client: Client<HttpConnector, Body>,
    /// What this node authenticates itself with, where tokens are set.
    token: Option<HeaderValue>,
}

/// The owner of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleOwner {
    /// The node's id.
    pub node: String,
    /// Host and port of its HTTP interface.
    pub address: String,
    /// Whether it is this node.
    pub is_here: bool,
}

/// Why a request was not answered by the owner of a role.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The cluster's cells could not be read.
    #[error("{}", .0.detail())]
    Cluster(Problem),
    /// No live node owns the role at the moment.
    #[error("no live node owns '{0}' at the moment; send the request again in a moment")]
    NoOwner(Role),
    /// The request has made its one hop, and this node does not own the role.
    #[error("'{role}' has just moved to node '{node}'; send the request again")]
    Moved {
        /// The role.
        role: Role,
        /// Its present owner.
        node: String,
    },
    /// This node owns the role itself: the caller must do the work.
    #[error("this node owns '{0}' itself")]
    Here(Role),
    /// The request certainly did not reach the owner.
    #[error(
        "node '{node}' at {address} cannot be reached: {reason}; send the request again in a moment"
    )]
    Unreached {
        /// The owner.
        node: String,
        /// Its address.
        address: String,
        /// What failed.
        reason: String,
    },
    /// The owner may have received the request, and its answer did not come.
    #[error(
        "node '{node}' did not answer: {reason}; whether it carried the request out is not known"
    )]
    Unanswered {
        /// The owner.
        node: String,
        /// What failed.
        reason: String,
    },
}

impl Peers {
    /// The peers of the node that takes part in `cluster`. Requests of its own carry the first of `tokens`.
    pub fn new(cluster: Cluster, tokens: &Tokens) -> Peers {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE_PER_NODE)
            // A repeated request might be carried out twice: callers decide what may be repeated.
            .retry_canceled_requests(false)
            .build(connector);
        Peers { cluster, client, token: tokens.bearer() }
    }

    /// The live owner of a role, as the cluster's cells showed it a moment ago.
    pub async fn owner(&self, role: &Role) -> Result<RoleOwner, PeerError> {
        let status = self.cluster.recent().await.map_err(PeerError::Cluster)?;
        let own = self.cluster.node().map(|node| node.id().to_owned());
        owner_in(&status, role, own.as_deref()).ok_or_else(|| PeerError::NoOwner(role.clone()))
    }

    /// Sends a request on to the owner of `role` and returns its answer. `within` bounds the wait for the head of
    /// the answer. Path, query, headers and body pass unchanged, but for headers that belong to one connection.
    pub async fn forward(
        &self,
        role: &Role,
        request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Body>, PeerError> {
        let marked = request.headers().contains_key(FORWARDED);
        let owner = self.owner(role).await?;
        if owner.is_here {
            return Err(PeerError::Here(role.clone()));
        }
        if marked {
            return Err(PeerError::Moved { role: role.clone(), node: owner.node });
        }
        self.send(&owner, request, within).await
    }

    /// Sends a request to one node, as [`forward`](Peers::forward) does.
    pub async fn send(
        &self,
        to: &RoleOwner,
        request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Body>, PeerError> {
        let unreached = |reason: String| PeerError::Unreached {
            node: to.node.clone(),
            address: to.address.clone(),
            reason,
        };
        let unanswered = |reason: String| PeerError::Unanswered { node: to.node.clone(), reason };
        let request = self.addressed(&to.address, request).map_err(unreached)?;
        let answer = match tokio::time::timeout(within, self.client.request(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_connect() => return Err(unreached(reason(&error))),
            Ok(Err(error)) => return Err(unanswered(reason(&error))),
            Err(_) => return Err(unanswered(format!("no answer within {within:?}"))),
        };
        Ok(without_hop_headers(answer))
    }

    /// The request as it goes to the node at `address`.
    fn addressed(&self, address: &str, request: Request<Body>) -> Result<Request<Body>, String> {
        let (mut head, body) = request.into_parts();
        let authority: Authority =
            address.parse().map_err(|error| format!("its address cannot be used: {error}"))?;
        let path = head.uri.path_and_query().cloned();
        let uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(authority)
            .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        head.uri = uri.build().map_err(|error| error.to_string())?;
        remove_hop_headers(&mut head.headers);
        // The client writes the host of the address; browsers' words are about the first hop.
        head.headers.remove(header::HOST);
        head.headers.remove(header::ORIGIN);
        head.headers.remove(SEC_FETCH_SITE);
        let here = self.cluster.node().map_or("joining", |node| node.id());
        let here = HeaderValue::try_from(here).map_err(|error| error.to_string())?;
        head.headers.insert(FORWARDED, here);
        if let Some(token) = &self.token
            && !head.headers.contains_key(header::AUTHORIZATION)
        {
            head.headers.insert(header::AUTHORIZATION, token.clone());
        }
        Ok(Request::from_parts(head, body))
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl PeerError {
    /// The answer for the client of the request.
    pub fn problem(&self) -> Problem {
        let kind = match self {
            PeerError::Cluster(problem) => return problem.clone(),
            PeerError::NoOwner(_) | PeerError::Here(_) => problems::NO_OWNER,
            PeerError::Moved { .. } => problems::MOVED,
            PeerError::Unreached { .. } => problems::PEER_UNREACHED,
            PeerError::Unanswered { .. } => problems::OUTCOME_UNKNOWN,
        };
        Problem::new(kind, self.to_string()).retry_after(Duration::from_secs(1))
    }

    /// Whether the request certainly changed nothing.
    pub fn changed_nothing(&self) -> bool {
        !matches!(self, PeerError::Unanswered { .. })
    }
}

impl axum::response::IntoResponse for PeerError {
    fn into_response(self) -> axum::response::Response {
        self.problem().into_response()
    }
}

fn owner_in(status: &ClusterStatus, role: &Role, own: Option<&str>) -> Option<RoleOwner> {
    let known = status.roles.iter().find(|known| known.role == *role)?;
    let id = known.owner.as_deref()?;
    let node = status.nodes.iter().find(|node| node.id == id && node.live)?;
    Some(RoleOwner { node: id.to_owned(), address: node.address.clone(), is_here: own == Some(id) })
}

fn without_hop_headers(answer: Response<Incoming>) -> Response<Body> {
    let (mut head, body) = answer.into_parts();
    remove_hop_headers(&mut head.headers);
    Response::from_parts(head, Body::new(body))
}

/// Removes the headers about one connection, and those that `Connection` names.
fn remove_hop_headers(headers: &mut HeaderMap) {
    let lines = headers.get_all(header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let names = lines.flat_map(|line| line.split(',')).filter_map(|name| name.trim().parse().ok());
    let named: Vec<HeaderName> = names.collect();
    named.iter().chain(&HOP_BY_HOP).for_each(|name| drop(headers.remove(name)));
}

/// The innermost cause, which is the one that says something.
fn reason(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use consort_cluster::status::{NodeStatus, RoleStatus};

    use super::*;
    use crate::cluster::Resolvers;
    use crate::metrics::Metrics;

    fn status(owner: Option<&str>, live: bool) -> ClusterStatus {
        let role = RoleStatus {
            role: Role::new("leader", "x"),
            owner: owner.map(str::to_owned),
            epoch: 1,
            ready: true,
            lag: None,
            applied: 0,
            trouble: None,
            stopped: None,
            pause: None,
            refusals: vec![],
        };
        let node = NodeStatus {
            id: "b".into(),
            address: "127.0.0.1:7402".into(),
            version: "1".into(),
            since: 0,
            load: 1,
            draining: false,
            live,
        };
        ClusterStatus { nodes: vec![node], roles: vec![role], ..ClusterStatus::default() }
    }

    #[test]
    fn words_about_the_first_hop_end_there_and_the_mark_is_the_nodes_own() {
        let mut metrics = Metrics::new("0");
        let cluster = Cluster::new(Resolvers::default(), &mut metrics);
        let peers = Peers::new(cluster, &Tokens::new(vec!["a-token-of-this-test".into()]).unwrap());
        let request = Request::post("http://a:7401/leader/x?y=%20z")
            .header("host", "a:7401")
            .header("origin", "https://app.example.org")
            .header("sec-fetch-site", "cross-site")
            .header("connection", "close, X-Hop")
            .header("x-hop", "1")
            .header("consort-forwarded", "someone")
            .header("content-type", "text/plain");
        let sent = peers.addressed("b:7402", request.body(Body::empty()).unwrap()).unwrap();
        assert_eq!(sent.uri(), "http://b:7402/leader/x?y=%20z");
        let header = |name: &str| sent.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("consort-forwarded"), Some("joining"));
        assert_eq!(header("authorization"), Some("Bearer a-token-of-this-test"));
        assert_eq!(header("content-type"), Some("text/plain"));
        for gone in ["host", "origin", "sec-fetch-site", "connection", "x-hop"] {
            assert_eq!(header(gone), None, "{gone}");
        }
    }

    #[test]
    fn the_owner_of_a_role_is_a_live_node_that_holds_its_lease() {
        let role = Role::new("leader", "x");
        let found = owner_in(&status(Some("b"), true), &role, Some("a")).unwrap();
        assert_eq!((found.node.as_str(), found.is_here), ("b", false));
        assert_eq!(found.address, "127.0.0.1:7402");
        assert!(owner_in(&status(Some("b"), true), &role, Some("b")).unwrap().is_here);
        assert_eq!(owner_in(&status(Some("b"), false), &role, Some("a")), None);
        assert_eq!(owner_in(&status(None, true), &role, Some("a")), None);
        assert_eq!(owner_in(&status(Some("b"), true), &Role::new("leader", "y"), None), None);
    }
}
