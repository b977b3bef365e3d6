//! Requests that are forwarded to the owner of a role: one hop, marked, with the node's token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use consort::config::{ConfigFile, PartConfig, Sources};
use consort::parts::{OpenPart, Opening, Part, PartError};
use consort::{Config, Node, Services};
use consort_cluster::{Ended, Part as Workload, Role, Tenure};
use consort_server::axum::Router;
use consort_server::axum::body::Body;
use consort_server::axum::extract::{Request, State};
use consort_server::axum::http::Method;
use consort_server::axum::http::header::AUTHORIZATION;
use consort_server::axum::response::{IntoResponse, Response};
use consort_server::axum::routing::post;
use consort_server::{FORWARDED, PeerError};
use consort_testbed::{RedisOptions, RedisServer, eventually};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdef";

fn leader() -> Role {
    Role::new("leader", "x")
}

/// A part with one role; its owner answers the route, and every other node forwards to it.
#[derive(Debug)]
struct Leader;

#[async_trait]
impl Part for Leader {
    fn config(&self) -> &'static PartConfig {
        static LEADER: PartConfig = PartConfig::new("leader");
        &LEADER
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let routes = Router::new()
            .route("/leader/{*path}", post(answer))
            .with_state(opening.services.clone());
        Ok(OpenPart { workloads: vec![Arc::new(Leading)], routes, ..OpenPart::default() })
    }
}

#[derive(Debug)]
struct Leading;

impl Workload for Leading {
    fn roles(&self) -> Vec<Role> {
        vec![leader()]
    }

    fn work(&self, mut tenure: Tenure) -> BoxFuture<'static, Ended> {
        async move {
            tenure.ready();
            tenure.ending().await;
            Ended::Drained
        }
        .boxed()
    }
}

async fn answer(State(services): State<Services>, request: Request) -> Response {
    let by = request.headers().get(FORWARDED).cloned();
    let target = request.uri().to_string();
    let (mut head, body) = request.into_parts();
    // As in a request of the node's own: the owner takes it only with the token that the node adds.
    head.headers.remove(AUTHORIZATION);
    let body = consort_server::axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let request = Request::from_parts(head, Body::from(body.clone()));
    match services.peers.forward(&leader(), request, Duration::from_secs(5)).await {
        Ok(answer) => answer,
        Err(PeerError::Here(_)) => {
            let by = by.as_ref().map_or("a client", |id| id.to_str().unwrap());
            let body = String::from_utf8_lossy(&body);
            format!("the leader got '{body}' at {target} from {by}").into_response()
        }
        Err(error) => error.into_response(),
    }
}

async fn node(id: &str, url: &str) -> Node {
    let text = format!(
        "[node]\nid = \"{id}\"\n[http]\nlisten = \"127.0.0.1:0\"\ntokens = [\"{TOKEN}\"]\n[engine]\nurl = \"{url}\"\n"
    );
    let file = ConfigFile { name: "test".into(), text };
    let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() });
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    Node::start_with(config, vec![Arc::new(Leader)]).await.expect("a node")
}

/// Status and body of the answer.
async fn ask(address: SocketAddr, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{} /leader/say?x=%20y HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\
         connection: close\r\ncontent-length: 5\r\n{headers}\r\nhello",
        Method::POST
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Waits until one of two nodes answers by itself and the other forwards to it; tells whether that is `a`. A role
/// may move once more when the second node has joined.
async fn settled(a: &Node, b: &Node) -> bool {
    let got = "the leader got 'hello' at /leader/say?x=%20y from";
    let said = |by: &str| (200, format!("{got} {by}"));
    eventually("one node leads, and the other forwards to it", PATIENCE, || async {
        let answers = (ask(a.address(), "").await, ask(b.address(), "").await);
        let a_leads = (said("a client"), said("b"));
        let b_leads = (said("a"), said("a client"));
        [(a_leads, true), (b_leads, false)]
            .into_iter()
            .find_map(|(led, is_a)| (answers == led).then_some(is_a))
    })
    .await
}

#[tokio::test]
async fn a_request_reaches_the_owner_of_a_role_through_any_node_in_one_hop() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let (a, b) = (node("a", &redis.url()).await, node("b", &redis.url()).await);
    let a_leads = settled(&a, &b).await;
    let (here, there) = if a_leads { (a, b) } else { (b, a) };

    // A request that has made its hop goes no further.
    let (status, body) = ask(there.address(), "consort-forwarded: c\r\n").await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("urn:consort:problem:moved"), "{body}");
    assert!(body.contains(&format!("node '{}'", here.id())), "{body}");

    // The owner is gone: the answer says so, and that nothing was carried out.
    drop(here);
    let (status, body) = ask(there.address(), "").await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("peer-unreached") || body.contains("outcome-unknown"), "{body}");
    eventually("the other node leads", PATIENCE, || async {
        let (status, body) = ask(there.address(), "").await;
        (status == 200 && body.contains("from a client")).then_some(())
    })
    .await;
    there.stop().await;
}
