//! A part for tests alone, which proves the frame: one role, one stream, one feed, one route and one setting in one
//! file. The list of parts names it, and no other file knows it.
//!
//! `POST /guestbook` appends a name to the stream. The role folds the stream: it numbers the names, and tells each of
//! them in the feed, behind the greeting of the config. `GET /guestbook` answers how many there are.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use consort_cluster::worker::{self, Memory, Plan, Record, Sheet};
use consort_cluster::{Agreement, Ended, Part as Workload, Role, Tenure};
use consort_feeds::{FeedSpec, Payload, Retention};
use consort_kernel::{
    Cell, Change, Key, Kind, Moment, Most, Name, Note, Partition, Records, Shard, Store, Value,
    shard_of,
};
use consort_server::axum::Router;
use consort_server::axum::extract::State;
use consort_server::axum::http::StatusCode;
use consort_server::axum::routing::get;
use consort_server::{GateKind, Ingress, IngressSpec, POST_WITHIN, Problem, problems};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::time::Instant;

use super::partition::PIPELINE;
use super::{OpenPart, Opening, Part, PartError, link};
use crate::config::part::insert_defaults;
use crate::config::spec::{SettingSpec, TableSpec};
use crate::config::{Config, PartConfig, read};
use crate::services::Services;

/// A book that everybody may sign.
#[derive(Debug)]
pub(super) struct Guestbook;

static CONFIG: PartConfig = PartConfig {
    tables: &[TableSpec { name: "guestbook", doc: "The guest book.", settings: &SETTINGS }],
    reserved: &["guestbook"],
    insert: insert_defaults::<GuestbookConfig>,
    ..PartConfig::new("guestbook")
};

static SETTINGS: [SettingSpec; 1] =
    [SettingSpec::new("greeting", &["The word that stands before each name in the feed."])
        .with_default("\"hello\"")
        .with_reader(|config, raw| {
            let greeting = read::text(raw)?.to_owned();
            config.part_mut::<GuestbookConfig>().greeting = greeting;
            Ok(())
        })];

/// `[guestbook]`
#[derive(Clone, Debug, PartialEq, Eq)]
struct GuestbookConfig {
    greeting: String,
}

impl Default for GuestbookConfig {
    fn default() -> GuestbookConfig {
        GuestbookConfig { greeting: "hello".to_owned() }
    }
}

#[async_trait]
impl Part for Guestbook {
    fn config(&self) -> &'static PartConfig {
        &CONFIG
    }

    /// Whichever node folds, the feed says the same.
    fn define(&self, config: &Config, agreement: Agreement) -> Agreement {
        let GuestbookConfig { greeting } = config.part();
        agreement.define("guestbook", "entries", json!({ "greeting": greeting }))
    }

    fn feeds(&self, _config: &Config) -> Result<Vec<FeedSpec>, PartError> {
        Ok(vec![FeedSpec {
            path: "guestbook/entries".to_owned(),
            feed: entries(),
            payload: Arc::new(EntryPayload),
            retention: Retention::default(),
            sinks: Vec::new(),
        }])
    }

    async fn open(&self, opening: Opening<'_>) -> Result<OpenPart, PartError> {
        let Opening { config, services, .. } = opening;
        let ingress = services.ingresses.open(IngressSpec {
            stream: entries(),
            partitions: 1,
            gate: GateKind::Off,
            keys_for: Duration::ZERO,
        });
        let page = Page { ingress, store: Arc::clone(&services.store) };
        let GuestbookConfig { greeting } = config.part();
        let plan = Arc::new(EntryPlan { greeting: greeting.clone(), at: place(&*services.store) });
        Ok(OpenPart {
            workloads: vec![Arc::new(EntryWorkload(worker_options(services, plan)))],
            routes: Router::new().route("/guestbook", get(count).post(sign)).with_state(page),
            links: vec![link("/guestbook", "how many have signed the guest book")],
            ..OpenPart::default()
        })
    }
}

/// The name of the stream, and of the feed: users cannot give theirs a name with a dot.
fn entries() -> Name {
    Name::new("guestbook.entries").unwrap()
}

/// The cell that keeps the number of entries.
fn place(store: &dyn Store) -> (Shard, Key) {
    let key = Key::from(["guestbook", "count"]);
    (shard_of(&key, store.shards()), key)
}

fn worker_options(services: &Services, plan: Arc<dyn Plan>) -> worker::Options {
    worker::Options {
        log: Arc::clone(&services.log),
        store: Arc::clone(&services.store),
        runtime: Arc::clone(&services.runtime),
        entropy: Arc::clone(&services.entropy),
        partition: Partition::new(entries(), 0),
        pipeline: Name::new(PIPELINE).unwrap(),
        plan,
        appender: Arc::clone(&services.appender),
        batch: Most { entries: 100, bytes: 1 << 20 },
        linger: Duration::ZERO,
        yield_after: Duration::from_secs(30),
    }
}

/// The one role, and its work.
#[derive(Debug)]
struct EntryWorkload(worker::Options);

impl Workload for EntryWorkload {
    fn roles(&self) -> Vec<Role> {
        vec![worker::role(&entries(), 0)]
    }

    fn work(&self, tenure: Tenure) -> BoxFuture<'static, Ended> {
        worker::run(self.0.clone(), tenure).boxed()
    }
}

/// Numbers the entries, and tells each of them in the feed.
#[derive(Debug)]
struct EntryPlan {
    greeting: String,
    at: (Shard, Key),
}

impl Plan for EntryPlan {
    fn reads(&self, _record: &Record<'_>, _memory: &mut Memory) -> Vec<(Shard, Key)> {
        vec![self.at.clone()]
    }

    fn apply(&self, record: &Record<'_>, _memory: &mut Memory, sheet: &mut Sheet) {
        let (shard, key) = self.at.clone();
        let number = number_in(sheet.read(shard, &key)) + 1;
        sheet.put(shard, key, Bytes::copy_from_slice(&number.to_be_bytes()));
        let text = format!("{}, {}", self.greeting, String::from_utf8_lossy(record.bytes));
        let change = Change {
            subject: "guestbook".to_owned(),
            time: Moment(0),
            revision: number,
            payload: to_raw_value(&json!({ "number": number, "text": text })).unwrap(),
        };
        sheet.append(shard, Note { feed: entries(), entry: change.encode() });
    }
}

/// The count in its cell; 0 if there is none yet.
fn number_in(cell: Option<Bytes>) -> u64 {
    cell.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()))
}

/// The kind of the feed's changes.
#[derive(Debug)]
struct EntryPayload;

impl Payload for EntryPayload {
    fn name(&self) -> &'static str {
        "entry"
    }

    fn id(&self, change: &Change) -> Result<String, String> {
        Ok(change.revision.to_string())
    }
}

/// What the route needs.
#[derive(Clone, Debug)]
struct Page {
    ingress: Ingress,
    store: Arc<dyn Store>,
}

/// `POST /guestbook`
async fn sign(State(page): State<Page>, name: String) -> Result<StatusCode, Problem> {
    let records = Records::one(|bytes| bytes.extend_from_slice(name.as_bytes()));
    let appended = page.ingress.append(0, records, None, Instant::now() + POST_WITHIN).await;
    appended.map(|_| StatusCode::CREATED).map_err(unavailable)
}

/// `GET /guestbook`
async fn count(State(page): State<Page>) -> Result<String, Problem> {
    let (shard, key) = place(&*page.store);
    let cells = page.store.get(shard, &[Cell::new(Kind::Bytes, key)]).await.map_err(unavailable)?;
    let cell = cells.into_iter().flatten().next().map(|value| match value {
        Value::Bytes(bytes) => bytes,
        other => panic!("the count is {other:?}"),
    });
    Ok(number_in(cell).to_string())
}

fn unavailable(error: impl std::fmt::Display) -> Problem {
    Problem::new(problems::STORE_FAILED, error.to_string())
}

/// The part in a real node.
mod tests {
    use std::path::Path;

    use consort_client::{Client, Connection, Method};
    use consort_testbed::eventually;

    use super::*;
    use crate::config::{ConfigFile, Flag, Problems, Sources, commented_defaults, reference};
    use crate::{Node, StartError};

    const PATIENCE: Duration = Duration::from_secs(30);

    fn sources(text: &str) -> Sources {
        let file = ConfigFile { name: "consort.toml".into(), text: text.into() };
        Sources { file: Some(file), ..Sources::default() }
    }

    fn greeting(sources: &Sources) -> Result<String, Problems> {
        Config::resolve(sources).map(|config| config.part::<GuestbookConfig>().greeting.clone())
    }

    fn told(text: &str) -> String {
        let problems = greeting(&sources(text)).unwrap_err().to_string();
        problems.lines().next().unwrap().to_owned()
    }

    /// A node with its data in `folder`.
    async fn start(folder: &Path, settings: &str) -> Result<Node, StartError> {
        let url = folder.join("data");
        let text = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[engine]\nurl = 'embedded:{}'\n{settings}",
            url.display()
        );
        Node::start(Config::resolve(&sources(&text)).unwrap()).await
    }

    /// One who uses a node.
    struct Guest(Client);

    impl Guest {
        fn new(node: &Node) -> Guest {
            Guest(Client::new(&format!("http://{}", node.address()), None).unwrap())
        }

        async fn send(&self, method: Method, path: &str, body: &'static str) -> (u16, String) {
            let mut connection = Connection::new(self.0.clone(), PATIENCE);
            let reply = connection.send(method, path, &[], body).await.unwrap();
            (reply.status.as_u16(), String::from_utf8(reply.body.to_vec()).unwrap())
        }

        async fn get(&self, path: &str) -> String {
            let (status, body) = self.send(Method::GET, path, "").await;
            assert_eq!(status, 200, "{path}: {body}");
            body
        }
    }

    #[tokio::test]
    async fn a_part_of_one_file_is_folded_served_and_subscribed_to() {
        let folder = tempfile::tempdir().unwrap();
        let settings = "[guestbook]\ngreeting = 'welcome'\n";
        let node = start(folder.path(), settings).await.unwrap();
        let guest = Guest::new(&node);
        for name in ["Ada", "Grace"] {
            assert_eq!(guest.send(Method::POST, "/guestbook", name).await.0, 201);
        }
        eventually("both entries are counted", PATIENCE, || async {
            guest.get("/guestbook").await == "2"
        })
        .await;
        let told = "{\"number\":1,\"text\":\"welcome, Ada\"}\n{\"number\":2,\"text\":\"welcome, Grace\"}\n";
        assert_eq!(guest.get("/feeds/guestbook/entries").await, told);

        // The node shows the part wherever it shows its parts.
        for (path, expected) in [
            ("/", "\"/guestbook\""),
            ("/feeds", "\"/feeds/guestbook/entries\""),
            ("/cluster", "\"worker:guestbook.entries/0\""),
            ("/metrics", "consort_stream_accepted_total{stream=\"guestbook.entries\"} 2\n"),
        ] {
            let shown = guest.get(path).await;
            assert!(shown.contains(expected), "{expected} is not at {path}:\n{shown}");
        }
        node.stop().await;

        // A node that starts again goes on where the last one stopped.
        let node = start(folder.path(), settings).await.unwrap();
        let guest = Guest::new(&node);
        assert_eq!(guest.get("/guestbook").await, "2");
        assert_eq!(guest.send(Method::POST, "/guestbook", "Alan").await.0, 201);
        let third = "{\"number\":3,\"text\":\"welcome, Alan\"}\n";
        eventually("the third entry is in the feed", PATIENCE, || async {
            guest.get("/feeds/guestbook/entries").await == format!("{told}{third}")
        })
        .await;
        node.stop().await;
    }

    #[tokio::test]
    async fn nodes_must_agree_on_the_parts_definitions() {
        let folder = tempfile::tempdir().unwrap();
        start(folder.path(), "").await.unwrap().stop().await;
        let refused = start(folder.path(), "[guestbook]\ngreeting = 'welcome'\n").await;
        let error = refused.unwrap_err().to_string();
        let difference =
            "guestbook 'entries': greeting is 'welcome' here and 'hello' in the cluster";
        assert!(error.contains(difference), "{error}");
    }

    #[test]
    fn the_setting_comes_from_file_environment_and_flags() {
        assert_eq!(greeting(&sources("")).unwrap(), "hello");
        let given = sources("[guestbook]\ngreeting = 'welcome'\n");
        assert_eq!(greeting(&given).unwrap(), "welcome");
        let environment = vec![("CONSORT_GUESTBOOK_GREETING".into(), "salve".into())];
        let given = Sources { environment, ..given };
        assert_eq!(greeting(&given).unwrap(), "salve");
        let given = Sources { flags: vec![Flag::set("guestbook.greeting=ave")], ..given };
        assert_eq!(greeting(&given).unwrap(), "ave");
    }

    #[test]
    fn mistakes_about_the_setting_are_told_with_the_nearest_right_name() {
        for (text, expected) in [
            (
                "[guestbok]\ngreeting = 'a'",
                "1:2: unknown table [guestbok]; did you mean [guestbook]?",
            ),
            (
                "[guestbook]\ngreting = 'a'",
                "2:1: unknown setting 'greting' in [guestbook]; did you mean 'greeting'?",
            ),
            (
                "[http]\ngreeting = 'a'",
                "2:1: unknown setting 'greeting' in [http]; it belongs in [guestbook]",
            ),
            (
                "[guestbook]\ngreeting = 1",
                "2:12: 'greeting' in [guestbook] must be text in quotes, not a number",
            ),
            (
                "[stream.s]\nfields.a = 'int'\nroute = 'POST /guestbook/{a}'",
                "3:9: 'route' in [stream.s] cannot begin with '/guestbook': such paths are Consort's own",
            ),
        ] {
            assert_eq!(told(text), format!("consort.toml:{expected}"), "in\n{text}");
        }
    }

    #[test]
    fn the_defaults_and_the_reference_show_the_setting() {
        let defaults = commented_defaults();
        let shown = "# The guest book.\n[guestbook]\n\n# The word that stands before each name in the feed.\n\
                     greeting = \"hello\"";
        assert!(defaults.contains(shown), "{defaults}");
        let tables = reference();
        let table = tables.iter().find(|table| table.name == "guestbook").unwrap();
        let [setting] = &table.settings[..] else { panic!("{table:?}") };
        assert_eq!(setting.variable.as_deref(), Some("CONSORT_GUESTBOOK_GREETING"));
        assert_eq!(setting.default.as_deref(), Some("\"hello\""));
    }
}
