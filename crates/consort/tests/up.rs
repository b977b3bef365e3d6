//! `consort up`: what it refuses, how it ends, and that nothing outlives it; and the number as an autoscaler reads it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use consort_client::{Client, Cluster, Connection, Method};
use consort_testbed::{Port, Process, RedisOptions, RedisServer, eventually};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);

const PROGRAM: &str = env!("CARGO_BIN_EXE_consort");

struct Up {
    process: Process,
    prefix: String,
    ports: Vec<Port>,
    _folder: TempDir,
}

/// A stream with a view, on this engine.
fn config(folder: &TempDir, url: &str, port: u16) -> std::path::PathBuf {
    let path = folder.path().join("consort.toml");
    let text = format!(
        "[http]\nlisten = \"127.0.0.1:{port}\"\n[engine]\nurl = \"{url}\"\npartitions = 4\n\
         [cluster]\nlease = \"1s\"\nheartbeat = \"200ms\"\n\
         [stream.rides]\nkey = \"lift\"\nfields = {{ lift = \"int\" }}\n\
         [view.rides_per_lift]\nfrom = \"rides\"\nby = [\"lift\"]\ncount = true\n"
    );
    fs::write(&path, text).expect("a file");
    path
}

fn up(arguments: &[&str], config: &std::path::Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("up").args(arguments).arg("-c").arg(config);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSORT_") {
            command.env_remove(name);
        }
    }
    command
}

impl Up {
    fn start(url: &str, nodes: usize) -> Up {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = Port::claim_row(nodes as u16);
        let path = config(&folder, url, ports[0].number());
        let prefix = format!("test-{}-{}", std::process::id(), ports[0].number());
        let bounds = nodes.to_string();
        let mut command =
            up(&["--min", &bounds, "--max", &bounds, "--json", "--node", &prefix], &path);
        command.current_dir(folder.path());
        let process = Process::start(&command, &folder.path().join("log"));
        Up { process, prefix, ports, _folder: folder }
    }

    async fn cluster_is(&self, what: &str, fits: impl Fn(&Cluster) -> bool) -> Cluster {
        let fits = &fits;
        let what = format!("{what}; `up` said:\n{}", self.process.output());
        eventually(&what, PATIENCE, || async move {
            for port in &self.ports {
                let client = Client::new(&format!("127.0.0.1:{}", port.number()), None).ok()?;
                if let Some(cluster) = client.cluster().await.ok().filter(|cluster| fits(cluster)) {
                    return Some(cluster);
                }
            }
            None
        })
        .await
    }

    fn pids(&self, number: Option<usize>) -> Vec<u32> {
        let id = format!("{}-up-", self.prefix);
        let fits = |argument: &str| {
            let rest = argument.strip_prefix(&id);
            rest.is_some_and(|rest| number.is_none_or(|number| rest == number.to_string()))
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
                let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
                line.split('\0').any(fits).then_some(pid)
            })
            .collect()
    }
}

fn live(cluster: &Cluster) -> usize {
    cluster.status.nodes.iter().filter(|node| node.live).count()
}

#[tokio::test]
async fn sigterm_retires_all_nodes_but_one_and_then_stops_that_one() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let mut up = Up::start(&redis.url(), 3);
    up.cluster_is("three nodes are live", |cluster| live(cluster) == 3).await;
    up.process.terminate(PATIENCE).await;
    let said = up.process.output();
    assert_eq!(up.process.exit_code(), Some(0), "{said}");
    assert_eq!(up.pids(None), Vec::<u32>::new());
    for number in [2, 3] {
        let retired = format!("{}-up-{number}' hands its roles over and leaves", up.prefix);
        assert!(said.contains(&retired), "{retired}\n{said}");
    }
    assert!(!said.contains("-up-1' hands its roles over and leaves"), "{said}");
    let first = said.lines().find(|line| line.starts_with('{')).expect("a decision");
    let first: Value = serde_json::from_str(first).expect("JSON");
    assert_eq!((&first["before"], &first["after"]), (&0.into(), &3.into()));
}

#[tokio::test]
async fn nothing_is_left_behind_when_up_itself_is_killed() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let mut up = Up::start(&redis.url(), 2);
    up.cluster_is("two nodes are live", |cluster| live(cluster) == 2).await;
    assert_eq!(up.pids(None).len(), 2);
    up.process.kill().await;
    let what = "the nodes end by themselves when `up` is gone";
    eventually(what, PATIENCE, || async { up.pids(None).is_empty() }).await;
    let said = up.process.output();
    assert_eq!(said.matches("since `consort up` is gone").count(), 2, "{said}");
}

#[tokio::test]
async fn a_node_that_dies_is_started_again_and_one_that_always_dies_ends_up() {
    let redis = RedisServer::start(RedisOptions::new()).await;
    let mut up = Up::start(&redis.url(), 2);
    let two = up.cluster_is("two nodes are live", |cluster| live(cluster) == 2).await;
    let since = |cluster: &Cluster| cluster.status.nodes.iter().map(|node| node.since).max();
    let before = since(&two);
    let kill = |pids: Vec<u32>| {
        for pid in pids {
            let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            assert!(killed.is_ok_and(|status| status.success()), "pid {pid}");
        }
    };
    kill(up.pids(Some(2)));
    up.cluster_is("it is started again", |cluster| live(cluster) == 2 && since(cluster) > before)
        .await;
    // From now on it is killed as soon as it is there.
    let mut deaths = 1;
    while up.process.is_running() && deaths < 30 {
        let pids = up.pids(Some(2));
        deaths += pids.len();
        kill(pids);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    up.process.end(PATIENCE).await;
    let said = up.process.output();
    assert_eq!(up.process.exit_code(), Some(1), "{said}");
    assert!(said.contains("5 times within a minute"), "{said}");
    assert_eq!(up.pids(None), Vec::<u32>::new(), "the other node is stopped as well");
}

#[test]
fn an_embedded_engine_is_refused_with_the_reason_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = config(&folder, "embedded:./data", 7400);
    let output = up(&[], &path).current_dir(folder.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in ["belongs to one process", "redis://HOST:PORT/DB", "consort serve"] {
        assert!(said.contains(words), "{words} in {said}");
    }
}

#[test]
fn help_tells_what_up_does() {
    let output = Command::new(PROGRAM).args(["up", "--help"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    for words in ["--min", "--max", "--json", "HOST-up-1", "SIGTERM", "examples/keda.yaml"] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(!said.contains("until-stdin-closes"), "{said}");
}

/// The value of `valueLocation` in the example: the path of the number in the answer.
fn value_location() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/keda.yaml");
    let text = fs::read_to_string(path).expect("the example is there");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("valueLocation:"));
    let path = line.expect("the example has a valueLocation").trim().trim_matches('"');
    path.split('.').map(str::to_owned).collect()
}

/// A node by itself. Its servers and its folder live as long.
struct Node {
    process: Process,
    client: Client,
    _redis: RedisServer,
    _port: Port,
    _folder: TempDir,
}

impl Node {
    /// Starts one with these lines in `[http]`.
    async fn start(http: &str) -> Node {
        let redis = RedisServer::start(RedisOptions::new()).await;
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::claim();
        let path = config(&folder, &redis.url(), port.number());
        let text = fs::read_to_string(&path).expect("it was written");
        fs::write(&path, text.replace("[http]\n", &format!("[http]\n{http}\n"))).expect("a file");
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "-c"]).arg(&path).stdin(Stdio::null()).current_dir(folder.path());
        let process = Process::start(&command, &folder.path().join("log"));
        let address = format!("127.0.0.1:{}", port.number());
        let client = Client::new(&address, None).expect("an address");
        Node { process, client, _redis: redis, _port: port, _folder: folder }
    }

    /// The status and the answer of one request.
    async fn get(&self, path: &str, headers: &[(&'static str, &str)]) -> Option<(u16, Value)> {
        let mut connection = Connection::new(self.client.clone(), Duration::from_secs(5));
        let answer = connection.send(Method::GET, path, headers, "").await.ok()?;
        Some((answer.status.as_u16(), serde_json::from_slice(&answer.body).ok()?))
    }

    /// The number where KEDA looks for it, once it is there.
    async fn number(&self, headers: &[(&'static str, &str)]) -> Value {
        let location = value_location();
        let what =
            format!("GET /cluster has the number; the node said:\n{}", self.process.output());
        eventually(&what, PATIENCE, || async {
            let (_, answer) = self.get("/cluster", headers).await?;
            location.iter().try_fold(&answer, |value, name| value.get(name)).cloned()
        })
        .await
    }
}

#[tokio::test]
async fn keda_finds_the_number_where_the_example_says() {
    let node = Node::start("").await;
    assert_eq!(node.number(&[]).await, Value::from(1));
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/keda.yaml"));
    let text = text.expect("the example is there");
    for setting in ["type: metrics-api", "targetValue: \"1\"", "/cluster\"", "fallback:"] {
        assert!(text.contains(setting), "{setting}");
    }
}

#[tokio::test]
async fn keda_needs_the_token_that_the_example_has_as_a_secret() {
    let node = Node::start("tokens = [\"0123456789abcdef\"]").await;
    // As `authMode: bearer` sends it.
    let number = node.number(&[("authorization", "Bearer 0123456789abcdef")]).await;
    assert_eq!(number, Value::from(1));
    for headers in [&[][..], &[("authorization", "Bearer fedcba9876543210")]] {
        let (status, answer) = node.get("/cluster", headers).await.expect("an answer");
        assert_eq!((status, answer.get("wanted")), (401, None), "{answer}");
    }
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/keda.yaml"));
    let text = text.expect("the example is there");
    for setting in ["authMode: bearer", "parameter: token", "name: consort-token"] {
        assert!(text.contains(setting), "{setting}");
    }
}

#[tokio::test]
async fn a_decision_is_made_from_the_cores_and_the_processor_time_of_the_process() {
    let node = Node::start("").await;
    let cores = std::thread::available_parallelism().expect("cores are known").get() as u64;
    let what = format!("the report shows the work; the node said:\n{}", node.process.output());
    let load = eventually(&what, PATIENCE, || async {
        // Answers are work.
        for _ in 0..50 {
            node.get("/cluster", &[]).await?;
        }
        let (_, answer) = node.get("/cluster", &[]).await?;
        let evidence = answer.get("scaling")?.get("evidence")?;
        assert_eq!(evidence["cores"], cores, "{evidence}");
        // An idle node uses less.
        evidence["load_millicores"].as_u64().filter(|load| *load > 50)
    })
    .await;
    assert!(load <= 1000 * cores, "{load} of {cores} cores");
}
