//! The tour: what `consort serve` runs without a config file, and what it says of it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use consort::Config;
use consort::upstream::SampleUpstream;

/// As slow as something that is worth asking for once.
const DELAY: Duration = Duration::from_millis(200);

/// The database of the tour, and where its schema files are within the node's data.
const DATABASE: &str = "notes";
const SCHEMA_FOLDER: &str = "tour-schema";

/// The schema files, as in `examples/schema/notes`: the program works without files beside it.
const SCHEMA_FILES: [(&str, &str); 2] = [
    ("001-notes.sql", include_str!("../../../../examples/schema/notes/001-notes.sql")),
    ("002-search.sql", include_str!("../../../../examples/schema/notes/002-search.sql")),
];

/// Starts the upstream that the tour's list is asked of, and has it asked there. It ends with the process. Writes the
/// schema files of the tour's database.
pub(super) async fn begin(config: &mut Config) -> Result<(), String> {
    write_schema(config).map_err(|error| format!("its schema files cannot be written: {error}"))?;
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let upstream = SampleUpstream::bind(free, DELAY).await.map_err(|error| error.to_string())?;
    config.ask_upstream_at(upstream.address());
    tokio::spawn(upstream.run(std::future::pending()));
    Ok(())
}

fn write_schema(config: &mut Config) -> io::Result<()> {
    let folder = config.data_folder().join(SCHEMA_FOLDER);
    fs::create_dir_all(&folder)?;
    for (name, text) in SCHEMA_FILES {
        fs::write(folder.join(name), text)?;
    }
    config.set_schema_folder(DATABASE, folder);
    Ok(())
}

/// What the node answers to the commands of the guide.
const RIDE_ANSWER: &str = r#"{"accepted":1}"#;
const VERTICAL_ANSWER: &str = r#"{"view":"skier_vertical","groups":[{"group":{"skier":7,"season":"2026","day":45},"value":210}],"next":null}"#;
const FILM_ANSWER: &str = r#"{"title":"Metropolis"}"#;
const NOTE_ANSWER: &str = r#"{"position":"1-3","index":3,"results":[{"changes":1,"last_id":1}]}"#;
const NOTES_ANSWER: &str =
    r#"{"columns":["title"],"rows":[["Buy milk"]],"position":"1-3","index":3,"worker":2}"#;

/// What can be tried with the node at `address`, from another shell. Beyond loopback it needs a token, which is not
/// for printing.
pub(super) fn guide(address: SocketAddr) -> Vec<String> {
    if !address.ip().is_loopback() {
        return Vec::new();
    }
    [
        "this is the tour: lift rides and six views of them, events by the minute, a list that is computed once, documents, and a SQL database".to_owned(),
        "try, from another shell:".to_owned(),
        format!("  curl -d '{{\"time\": 217, \"liftID\": 21}}' http://{address}/skiers/1/seasons/2026/days/45/skiers/7"),
        format!("    {RIDE_ANSWER}"),
        format!("  curl 'http://{address}/views/skier_vertical?skier=7'"),
        format!("    {VERTICAL_ANSWER}     (after the first ride)"),
        format!("  curl --parallel --parallel-immediate 'http://{address}/once/items/today?position=[0-4]'"),
        "    five answers with the same \"call\": the list was computed once".to_owned(),
        format!("  curl -X PATCH -H 'content-type: application/merge-patch+json' -d '{{\"title\": \"Metropolis\"}}' 'http://{address}/glue/content/film-1?wait=applied'"),
        format!("  curl http://{address}/glue/content/film-1"),
        format!("    {FILM_ANSWER}     (assembled from every piece that was sent)"),
        format!("  curl -d '{{\"statements\": [[\"INSERT INTO notes (author, title) VALUES (?, ?)\", \"ann\", \"Buy milk\"]]}}' http://{address}/db/notes/write"),
        format!("    {NOTE_ANSWER}"),
        format!("  curl -d '{{\"query\": [\"SELECT title FROM notes WHERE author = ?\", \"ann\"]}}' http://{address}/db/notes/read"),
        format!("    {NOTES_ANSWER}     (after the first note)"),
        format!("for everything else, open http://{address}/ in a browser"),
    ]
    .into()
}
