//! A plan that folds by slices: documents in one shard, parsed once and written once a commit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use consort_kernel::limits::{PAGE_BYTES, VALUE_BYTES};
use consort_kernel::{Expect, FrameKind};
use parking_lot::Mutex;

use super::*;
use crate::worker::sheet::FULL_BYTES;

/// Where the documents are. The checkpoint of the test's partition is elsewhere.
const SHARD: Shard = Shard(1);

/// Appends the text of each record `ID:TEXT` to the document ID, and keeps documents in its memory.
#[derive(Debug, Default)]
struct Joining {
    /// Documents that were read from their cells.
    parsed: AtomicUsize,
    /// Records that were applied.
    applied: AtomicUsize,
    slices: AtomicUsize,
    /// The bytes of cells that were looked at in the slice with the most.
    largest_slice: Mutex<(usize, usize)>,
    rejects_panic: bool,
}

/// Documents with whether they have changed since they were written.
#[derive(Debug, Default)]
struct Documents(BTreeMap<String, (Vec<u8>, bool)>);

fn document(id: &str) -> Key {
    Key::from(["document", id])
}

fn rejected(record: &Record<'_>) -> Key {
    Key::from(["rejected"]).with(record.position.offset).with(record.position.record)
}

fn split(bytes: &[u8]) -> (&str, &str) {
    std::str::from_utf8(bytes).unwrap().split_once(':').unwrap()
}

impl Joining {
    fn cell_of(&self, id: &str, memory: &mut Memory) -> Vec<(Shard, Key)> {
        let known = memory.recall::<Documents>().0.contains_key(id);
        if known { Vec::new() } else { vec![(SHARD, document(id))] }
    }

    fn join(&self, id: &str, text: &str, memory: &mut Memory, sheet: &mut Sheet) {
        let documents = &mut memory.recall::<Documents>().0;
        let (joined, changed) = documents.entry(id.to_owned()).or_insert_with(|| {
            self.parsed.fetch_add(1, SeqCst);
            let read = sheet.read_owned(SHARD, &document(id)).unwrap_or_default();
            self.largest_slice.lock().0 += read.len();
            (read.to_vec(), false)
        });
        joined.extend(text.bytes());
        *changed = true;
        sheet.reserve(SHARD, text.len());
        sheet.add(SHARD, Key::from(["records"]), 1, None);
    }
}

impl Plan for Joining {
    fn folding(&self) -> Folding {
        Folding::Slices
    }

    fn shards(&self, _: &Partition, _: u16) -> Option<Vec<Shard>> {
        Some(vec![SHARD])
    }

    fn begin_slice(&self, _: &mut Memory) {
        self.slices.fetch_add(1, SeqCst);
        let mut bytes = self.largest_slice.lock();
        *bytes = (0, bytes.0.max(bytes.1));
    }

    fn reads(&self, record: &Record<'_>, memory: &mut Memory) -> Vec<(Shard, Key)> {
        self.cell_of(split(record.bytes).0, memory)
    }

    fn apply(&self, record: &Record<'_>, memory: &mut Memory, sheet: &mut Sheet) {
        self.applied.fetch_add(1, SeqCst);
        let (id, text) = split(record.bytes);
        self.join(id, text, memory, sheet);
        match text {
            "panics" => panic!("as the test asked"),
            "is too large" => {
                for part in 0..5u64 {
                    let key = Key::from(["part"]).with(part);
                    sheet.put(SHARD, key, vec![0; VALUE_BYTES].into());
                }
            }
            _ => {}
        }
    }

    fn control_reads(
        &self,
        _: &Record<'_>,
        control: &Control,
        memory: &mut Memory,
    ) -> Vec<(Shard, Key)> {
        let Control::Word { text, .. } = control else { return Vec::new() };
        self.cell_of(split(text.as_bytes()).0, memory)
    }

    fn control(&self, _: &Record<'_>, control: &Control, memory: &mut Memory, sheet: &mut Sheet) {
        let Control::Word { text, .. } = control else { return };
        let (id, text) = split(text.as_bytes());
        self.join(id, text, memory, sheet);
    }

    fn finish_step(&self, memory: &mut Memory, sheet: &mut Sheet) {
        for (id, (text, changed)) in &mut memory.recall::<Documents>().0 {
            if std::mem::take(changed) {
                sheet.put(SHARD, document(id), text.clone().into());
            }
        }
    }

    fn reject(
        &self,
        record: &Record<'_>,
        cause: &RejectCause,
        memory: &mut Memory,
        sheet: &mut Sheet,
    ) {
        assert!(!self.rejects_panic, "as the test asked");
        assert!(memory.recall::<Documents>().0.is_empty(), "the memory is fresh");
        let (id, _) = split(record.bytes);
        let joined = sheet.read_owned(SHARD, &document(id)).unwrap_or_default();
        let cause = match cause {
            RejectCause::Oversized(_) => "oversized",
            RejectCause::Panicked => "panicked",
        };
        let text = [cause.as_bytes(), b" behind ", &joined].concat();
        sheet.put(SHARD, rejected(record), text.into());
    }

    fn expired(&self, _: &Partition, log_time: Timestamp) -> Option<ExpiredRange> {
        let prefix = Key::from(["id"]);
        let before = prefix.clone().with(log_time.0);
        Some(ExpiredRange { shard: SHARD, prefix, before })
    }
}

struct Desk {
    bed: Bed,
    plan: Arc<Joining>,
}

impl Desk {
    fn new() -> Self {
        Desk { bed: Bed::new(), plan: Arc::new(Joining::default()) }
    }

    fn options(&self) -> Options {
        let batch = Most::entries(1_000);
        Options { plan: self.plan.clone(), batch, ..self.bed.options(self.bed.log.clone()) }
    }

    fn start(&self) -> Running {
        self.bed.start_with(self.options())
    }

    async fn text(&self, key: Key) -> Option<String> {
        let cell = Cell::new(Kind::Bytes, key);
        match self.bed.store.get(SHARD, &[cell]).await.unwrap().remove(0) {
            Some(Value::Bytes(text)) => Some(String::from_utf8(text.to_vec()).unwrap()),
            _ => None,
        }
    }

    async fn document(&self, id: &str) -> String {
        self.text(document(id)).await.unwrap_or_default()
    }

    async fn put(&self, key: Key, value: impl Into<Bytes>) {
        let put = Operation::Put { key, value: value.into() };
        self.bed.store.commit(SHARD, Commit::of([put])).await.unwrap();
    }

    fn cells(&self) -> Cells {
        Cells::new(&"all".parse().unwrap(), &self.bed.partition, SHARDS)
    }
}

#[tokio::test(start_paused = true)]
async fn records_are_joined_in_order_by_one_owner_after_another() {
    let desk = Desk::new();
    let texts = ["a:1", "b:x", "a:2", "b:y", "a:3"];
    for sequence in 0..60 {
        desk.bed.append(1, sequence, &texts).await;
        if sequence % 7 == 0 {
            let worker = desk.start();
            for _ in 0..sequence % 11 {
                tokio::task::yield_now().await;
            }
            drop(worker);
        }
    }
    let worker = desk.start();
    desk.bed.applied(60).await;
    assert_eq!(desk.document("a").await, "123".repeat(60));
    assert_eq!(desk.document("b").await, "xy".repeat(60));
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn two_owners_with_memories_are_slow_and_never_wrong() {
    let desk = Desk::new();
    let workers = [desk.start(), desk.start(), desk.start()];
    for sequence in 0..200 {
        desk.bed.append(1, sequence, &["a:1", "a:2", "b:x"]).await;
        if sequence % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    desk.bed.applied(200).await;
    assert_eq!(desk.document("a").await, "12".repeat(200));
    assert_eq!(desk.document("b").await, "x".repeat(200));
    for worker in workers {
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_is_parsed_once_although_everything_is_loaded_again() {
    let desk = Desk::new();
    let worker = desk.start();
    for sequence in 0..5 {
        desk.bed.append(1, sequence, &["a:1"]).await;
        desk.bed.applied(sequence + 1).await;
        tokio::time::sleep(2 * LOAD_EVERY).await;
    }
    assert_eq!(desk.document("a").await, "11111");
    assert_eq!(desk.plan.parsed.load(SeqCst), 1);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_rolled_back_drops_the_memory() {
    let desk = Desk::new();
    let worker = desk.start();
    desk.bed.append(1, 0, &["a:1"]).await;
    desk.bed.applied(1).await;
    let image = desk.bed.store.image(SHARD);
    desk.bed.append(1, 1, &["a:2"]).await;
    desk.bed.applied(2).await;
    desk.bed.store.roll_back(SHARD, image);
    tokio::time::sleep(2 * LOAD_EVERY).await;
    desk.bed.append(1, 2, &["a:3"]).await;
    desk.bed.applied(3).await;
    assert_eq!(desk.document("a").await, "123");
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn records_that_the_shard_has_taken_are_not_planned_again() {
    let desk = Desk::new();
    let home = desk.cells().home();
    assert_ne!(home, SHARD, "choose another shard");
    let image = desk.bed.store.image(home);
    let worker = desk.start();
    desk.bed.append(1, 0, &["a:1", "a:2"]).await;
    desk.bed.applied(1).await;
    worker.drain().await;
    // As if the owner had crashed between the document's commit and the checkpoint.
    desk.bed.store.roll_back(home, image);
    let worker = desk.start();
    desk.bed.append(1, 1, &["a:3"]).await;
    desk.bed.applied(2).await;
    assert_eq!(desk.document("a").await, "123");
    assert_eq!(desk.plan.applied.load(SeqCst), 3);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_panics_or_that_no_commit_holds_costs_no_other_record() {
    let desk = Desk::new();
    let worker = desk.start();
    desk.bed.append(1, 0, &["a:1", "b:x", "a:panics", "a:2"]).await;
    desk.bed.append(1, 1, &["b:is too large", "b:y", "a:3"]).await;
    desk.bed.applied(2).await;
    assert_eq!((desk.document("a").await, desk.document("b").await), ("123".into(), "xy".into()));
    let rejected = |offset: u64, record: u32| Key::from(["rejected"]).with(offset).with(record);
    let told = desk.text(rejected(0, 2)).await;
    assert_eq!(told.as_deref(), Some("panicked behind 1"), "it saw the cells before the panic");
    assert_eq!(desk.text(rejected(1, 0)).await.as_deref(), Some("oversized behind x"));
    assert_eq!(desk.text(Key::from(["part"]).with(0u64)).await, None);
    // Then batches are planned as a whole again.
    let slices = desk.plan.slices.load(SeqCst);
    desk.bed.append(1, 2, &["a:4", "a:5", "b:z"]).await;
    desk.bed.applied(3).await;
    assert_eq!(desk.plan.slices.load(SeqCst), slices + 1);
    assert_eq!(desk.document("a").await, "12345");
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_can_neither_be_applied_nor_rejected_stops_the_partition() {
    let mut desk = Desk::new();
    desk.plan = Arc::new(Joining { rejects_panic: true, ..Joining::default() });
    let worker = desk.start();
    desk.bed.append(1, 0, &["a:1", "a:panics"]).await;
    let gauge = worker.gauge(|gauge| gauge.stopped.is_some()).await;
    assert!(gauge.stopped.is_some_and(|reason| reason.contains("neither be applied nor rejected")));
    assert_eq!(desk.document("a").await, "1");
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_over_large_documents_is_read_and_committed_page_by_page() {
    let desk = Desk::new();
    let ids = ["a:!", "b:!", "c:!", "d:!", "e:!", "f:!", "g:!", "h:!", "i:!", "j:!"];
    for id in ids {
        desk.put(document(split(id.as_bytes()).0), vec![b'.'; FULL_BYTES / 2]).await;
    }
    desk.bed.append(1, 0, &ids).await;
    desk.bed.append(1, 1, &ids).await;
    let worker = desk.start();
    desk.bed.applied(2).await;
    for id in ids {
        let text = desk.document(split(id.as_bytes()).0).await;
        assert!(text.len() == FULL_BYTES / 2 + 2 && text.ends_with(".!!"));
    }
    let (last, most) = *desk.plan.largest_slice.lock();
    assert!(last.max(most) < PAGE_BYTES + VALUE_BYTES, "{most} bytes in one slice");
    assert!(desk.plan.slices.load(SeqCst) > 1);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_control_record_reads_and_changes_a_document() {
    let desk = Desk::new();
    desk.bed.append(1, 0, &["a:1"]).await;
    let word = Control::Word { part: "test".into(), text: "a:2".into() };
    desk.bed.append_frame(FrameKind::Control, 1, 1, vec![word.encode()]).await;
    let worker = desk.start();
    desk.bed.applied(2).await;
    assert_eq!(desk.document("a").await, "12");
    worker.drain().await;
    // Also when nothing of the document is in memory.
    let word = Control::Word { part: "test".into(), text: "a:3".into() };
    desk.bed.append_frame(FrameKind::Control, 1, 2, vec![word.encode()]).await;
    let worker = desk.start();
    desk.bed.applied(3).await;
    assert_eq!(desk.document("a").await, "123");
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn marks_of_shards_that_the_plan_does_not_name_are_not_read() {
    let desk = Desk::new();
    let broken = Operation::Put { key: desk.cells().mark(), value: Bytes::from_static(b"?") };
    for shard in (0..SHARDS).map(Shard).filter(|shard| *shard != SHARD) {
        desk.bed.store.commit(shard, Commit::of([broken.clone()])).await.unwrap();
    }
    desk.bed.append(1, 0, &["a:1"]).await;
    let worker = desk.start();
    desk.bed.applied(1).await;
    assert_eq!(desk.document("a").await, "1");
    let mark = desk.cells().read_mark(&*desk.bed.store, SHARD).await.unwrap();
    assert_eq!(mark.position().offset, 1);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn expired_cells_are_deleted_by_log_time_and_no_others() {
    let desk = Desk::new();
    let now = desk.bed.store.now().await.unwrap().0;
    let id = |time: u64, name: &str| Key::from(["id"]).with(time).with(name);
    for key in [id(now - 2, "a"), id(now - 1, "b"), id(now, "c"), id(now + 1, "d")] {
        desk.put(key, "there").await;
    }
    desk.put(Key::from(["ie"]), "there").await;
    let worker = desk.start();
    desk.bed.append(1, 0, &["a:1"]).await;
    while desk.text(id(now - 1, "b")).await.is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(desk.text(id(now - 2, "a")).await, None);
    for key in [id(now, "c"), id(now + 1, "d"), Key::from(["ie"])] {
        assert!(desk.text(key.clone()).await.is_some(), "{key:?}");
    }
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_mark_has_moved_deletes_no_expired_cells() {
    let desk = Desk::new();
    let old = Key::from(["id"]).with(1u64);
    desk.put(old.clone(), "there").await;
    let options = desk.options();
    let (tenure, _control) = Tenure::new(Role::new("worker", "s/0"), 1);
    let worker = Worker::new(options, tenure);
    let (store, log): (&dyn Store, &dyn Log) = (&*desk.bed.store, &*desk.bed.log);
    let mut loaded = worker.cells.load(store, log, &desk.bed.partition).await.unwrap();
    let moved = Operation::Put { key: desk.cells().mark(), value: Bytes::from_static(b"moved") };
    let moved = Commit::of([moved]).expecting(Expect::Bytes(desk.cells().mark(), None));
    store.commit(SHARD, moved).await.unwrap();
    let deleted = worker.delete_expired(&mut loaded, Timestamp(5)).await;
    assert_eq!(deleted, Err(Setback::Stale));
    assert!(desk.text(old).await.is_some());
}
