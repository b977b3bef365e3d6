//! The change stream over a store in memory.

use bytes::Bytes;
use consort_cluster::TokioRuntime;
use consort_db::cells::DbCells;
use consort_db::entry::{EntryPart, SetValues};
use consort_db::hash::{ContentHash, SchemaChain};
use consort_kernel::{Commit, Name, Note, Operation, Store, SystemClock, Timestamp, memory};

use super::*;

struct Bed {
    store: Arc<dyn Store>,
    cells: DbCells,
    reader: ChangeReader,
}

/// A database in era 1 whose head says that it has so many entries.
async fn bed(index: u64) -> Bed {
    let (_, store) = memory::open(2, Arc::new(SystemClock::default()));
    let store: Arc<dyn Store> = Arc::new(store);
    let cells = DbCells::new(&Name::new("notes").unwrap(), 2);
    let database = DatabaseStore::new(Arc::clone(&store), cells.clone());
    let reader = ChangeReader::new(database, TokioRuntime::current());
    let bed = Bed { store, cells, reader };
    bed.put_head(1, index).await;
    bed
}

impl Bed {
    async fn put_head(&self, era: u64, index: u64) {
        let head = DbHead { era, index, ..DbHead::created(7, 4, 3_054_001) };
        let put = Operation::Put { key: self.cells.head(), value: head.encode() };
        self.commit(vec![put]).await;
    }

    async fn append(&self, parts: Vec<EntryPart>) {
        let group = EntryGroup {
            epoch: 1,
            time: Timestamp(0),
            sqlite: 3_054_001,
            chain_before: SchemaChain::START,
            content_after: ContentHash(0),
            parts,
        };
        let feed = self.cells.feed(1).unwrap();
        let note = |entry: Bytes| Operation::Append(Note { feed: feed.clone(), entry });
        self.commit(group.encode().unwrap().into_iter().map(note).collect()).await;
    }

    async fn ddl(&self, texts: &[&str]) {
        self.append(texts.iter().map(|text| EntryPart::Ddl((*text).into())).collect()).await;
    }

    async fn commit(&self, operations: Vec<Operation>) {
        self.store.commit(self.cells.shard(), Commit::of(operations)).await.unwrap();
    }
}

fn at(text: &str) -> ChangeCursor {
    text.parse().unwrap()
}

fn lines(page: &ChangePage) -> Vec<&str> {
    page.groups.iter().flat_map(|group| &group.lines).map(String::as_str).collect()
}

#[tokio::test]
async fn changes_come_in_whole_groups_and_each_cursor_goes_on_behind_one() {
    let bed = bed(3).await;
    bed.ddl(&["a", "b"]).await;
    bed.append(vec![EntryPart::Set(SetValues::default())]).await;
    bed.ddl(&["c"]).await;
    let start = bed.reader.oldest().await.unwrap();
    assert_eq!(start, at("1-0"));
    let first = bed.reader.read(start, 1, Duration::ZERO).await.unwrap();
    assert_eq!(
        lines(&first),
        [
            r#"{"position":"1-1","op":"schema","sql":"a"}"#,
            r#"{"position":"1-1","op":"schema","sql":"b"}"#
        ]
    );
    assert_eq!(first.next.position.to_string(), "1-1");
    let rest = bed.reader.read(first.next, 100, Duration::ZERO).await.unwrap();
    assert_eq!(lines(&rest), [r#"{"position":"1-3","op":"schema","sql":"c"}"#]);
    let plain = bed.reader.read(at("1-1"), 100, Duration::ZERO).await.unwrap();
    assert_eq!(lines(&plain), lines(&rest), "a position alone is a cursor as well");
    let end = bed.reader.read(rest.next, 100, Duration::ZERO).await.unwrap();
    assert!(end.groups.is_empty() && end.next == rest.next);
}

#[tokio::test]
async fn a_group_of_several_entries_is_read_whole() {
    let bed = bed(3).await;
    let large = "x".repeat(9 << 20);
    bed.append(vec![EntryPart::Ddl(large.clone())]).await;
    let page = bed.reader.read(at("1-0"), 1, Duration::ZERO).await.unwrap();
    let shown = lines(&page);
    assert_eq!((shown.len(), page.next.position.to_string().as_str()), (1, "1-3"));
    assert!(shown[0].contains(&large));
    let error = bed.reader.read(at("1-1"), 1, Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), problems::CURSOR_GONE, "no group begins there");
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_the_first_change_of_a_user() {
    let bed = bed(0).await;
    let reading = {
        let reader = bed.reader.clone();
        tokio::spawn(async move { reader.read(at("1-0"), 9, Duration::from_secs(60)).await })
    };
    tokio::time::sleep(Duration::from_secs(7)).await;
    bed.append(vec![EntryPart::Set(SetValues::default())]).await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    bed.ddl(&["a"]).await;
    let page = reading.await.unwrap().unwrap();
    assert_eq!(lines(&page), [r#"{"position":"1-2","op":"schema","sql":"a"}"#]);
}

#[tokio::test]
async fn what_was_trimmed_lost_or_replaced_is_gone() {
    let bed = bed(4).await;
    for text in ["a", "b", "c", "d"] {
        bed.ddl(&[text]).await;
    }
    let known = bed.reader.read(at("1-0"), 1, Duration::ZERO).await.unwrap().next;
    let feed = bed.cells.feed(1).unwrap();
    bed.store.trim_feed(bed.cells.shard(), &feed, 2).await.unwrap();
    let oldest = bed.reader.oldest().await.unwrap();
    assert_eq!(oldest, at("1-3"), "entry 2 stays for the snapshot that vouches for it");
    let forged = ChangeCursor { digest: Some(consort_kernel::Digest::of(b"x")), ..oldest };
    for gone in [known, at("1-1"), forged] {
        let error = bed.reader.read(gone, 9, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.kind(), problems::CURSOR_GONE, "{gone}: {error:?}");
    }
    bed.put_head(2, 0).await;
    let error = bed.reader.read(oldest, 9, Duration::ZERO).await.unwrap_err();
    assert!(error.detail().contains("era 1, and the database is in era 2"), "{error:?}");
}

#[test]
fn a_row_is_shown_with_null_where_it_has_no_side() {
    let position = DbPosition { era: 1, index: 17 };
    let row = |operation, old: &[i64], new: &[i64]| {
        let values = |numbers: &[i64]| {
            numbers
                .iter()
                .map(|number| consort_db::write::job::SqlValue::Integer(*number))
                .collect()
        };
        let change = GroupChange::Row(ChangedRow {
            table: "t".into(),
            operation,
            key: values(&[1]),
            columns: vec![1],
            old: values(old),
            new: values(new),
        });
        serde_json::to_string(&ShownChange(position, &change)).unwrap()
    };
    let head = r#"{"position":"1-17","table":"t","op":"#;
    for (operation, old, new, rest) in [
        (
            RowOperation::Insert,
            &[][..],
            &[5][..],
            r#""insert","key":[1],"columns":[1],"old":null,"new":[5]}"#,
        ),
        (
            RowOperation::Update,
            &[4],
            &[5],
            r#""update","key":[1],"columns":[1],"old":[4],"new":[5]}"#,
        ),
        (
            RowOperation::Delete,
            &[4],
            &[],
            r#""delete","key":[1],"columns":[1],"old":[4],"new":null}"#,
        ),
    ] {
        assert_eq!(row(operation, old, new), format!("{head}{rest}"));
    }
}
