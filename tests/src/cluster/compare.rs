//! The comparison: the state against the independent fold, and the fold against what was acknowledged.

use std::collections::BTreeMap;

use bytes::Bytes;
use consort_engines::Engine;
use consort_kernel::{Cell, Key, Kind, Shard, Store, Value};

use super::fold::{Count, Fold};
use super::ledger::Fate;
use crate::tally::{self, Kept, PARTITIONS, SHARDS};

/// Differences that a failure shows; more of them say the same.
const SHOWN: usize = 20;

/// Compares everything; gives how many cells were looked at.
///
/// # Panics
///
/// If anything differs; the message says what.
pub async fn compare(engine: &Engine, fold: &Fold, fates: &BTreeMap<u64, Fate>) -> usize {
    let mut wrong = against_ledger(fold, fates);
    let expected = expected(fold);
    for ((shard, cell), value) in &expected {
        let held = engine.store.get(*shard, std::slice::from_ref(cell)).await.expect("get");
        if held[0].as_ref() != Some(value) {
            wrong.push(format!("{cell:?} of {shard} holds {:?}, not {value:?}", held[0]));
        }
    }
    for (subject, count) in fold.keys.iter().chain(&fold.groups) {
        let (shard, cell) = Kept::Values.cell(subject);
        let held = members(&*engine.store, shard, &cell.key).await;
        if !held.iter().cloned().eq(count.set().into_iter().map(tally::number)) {
            wrong.push(format!("the set of {subject} has other members than the log"));
        }
    }
    for (shard, cell) in strays(&*engine.store).await {
        if !expected.contains_key(&(shard, cell.clone())) {
            wrong.push(format!("{shard} has {cell:?}, which nothing in the log accounts for"));
        }
    }
    for index in 0..PARTITIONS {
        let checkpoint = tally::cells(index).read_checkpoint(&*engine.store).await;
        let checkpoint = checkpoint.expect("the checkpoint can be read");
        if fold.ends.get(&index).is_some_and(|&end| checkpoint.stand.next <= end) {
            wrong.push(format!("partition {index} is not at the end of its log"));
        }
    }
    let (count, shown) = (wrong.len(), wrong.len().min(SHOWN));
    assert!(wrong.is_empty(), "{count} differences:\n{}", wrong[..shown].join("\n"));
    expected.len()
}

/// What was acknowledged is in the log once; what is in the log was acknowledged or is possible.
fn against_ledger(fold: &Fold, fates: &BTreeMap<u64, Fate>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut found: BTreeMap<u64, (&str, u32)> = BTreeMap::new();
    for (key, count) in &fold.keys {
        for value in &count.values {
            found.entry(*value).or_insert((key, 0)).1 += 1;
        }
    }
    for (value, (key, times)) in &found {
        match fates.get(value) {
            Some(fate) if fate.key == *key && *times == 1 => {
                if !fate.acknowledged && !fate.possible {
                    wrong.push(format!("{value} of {key} is in the log, though its append failed"));
                }
            }
            fate => wrong.push(format!("{value} of {key} is {times} times in the log: {fate:?}")),
        }
    }
    let missing =
        fates.iter().filter(|(value, fate)| fate.acknowledged && !found.contains_key(value));
    wrong.extend(missing.map(|(value, fate)| {
        format!("{value} of {} was acknowledged and is not in the log", fate.key)
    }));
    wrong
}

/// The cells that there must be.
fn expected(fold: &Fold) -> BTreeMap<(Shard, Cell), Value> {
    let mut cells = BTreeMap::new();
    let keys = fold.keys.iter().map(|subject| (subject, &Kept::OF_KEYS[..]));
    let groups = fold.groups.iter().map(|subject| (subject, &Kept::OF_GROUPS[..]));
    for ((subject, count), kept) in keys.chain(groups) {
        for kept in kept {
            cells.extend(value(*kept, count).map(|value| (kept.cell(subject), value)));
        }
    }
    cells
}

/// What one cell must hold; none if nothing was ever written to it.
fn value(kept: Kept, count: &Count) -> Option<Value> {
    let sum = |numbers: &[u64]| numbers.iter().sum::<u64>() as i64;
    let values = (!count.values.is_empty()).then_some(&count.values[..]);
    match kept {
        Kept::Count => values.map(|values| Value::Counter(values.len() as i64)),
        Kept::Sum => values.map(|values| Value::Counter(sum(values))),
        Kept::Least => Some(Value::Min(tally::number(*values?.iter().min()?))),
        Kept::Most => Some(Value::Max(tally::number(*values?.iter().max()?))),
        Kept::Values => values.map(|_| Value::Set(count.set().len() as u64)),
        Kept::Last => {
            let (rank, value) = count.last.clone()?;
            Some(Value::Last { rank, value: tally::number(value) })
        }
        Kept::Chain => {
            let (length, digest) = count.chain?;
            Some(Value::Bytes([&length.to_be_bytes()[..], &digest.0].concat().into()))
        }
        Kept::Duplicates => {
            (count.duplicates > 0).then_some(Value::Counter(count.duplicates as i64))
        }
    }
}

/// All cells of the tally that there are.
async fn strays(store: &dyn Store) -> Vec<(Shard, Cell)> {
    let mut cells = Vec::new();
    for shard in (0..SHARDS).map(Shard) {
        for kind in Kind::ALL {
            let mut after: Option<Key> = None;
            loop {
                let rows = store.scan(shard, kind, &tally::root(), after.as_ref(), 1_000).await;
                let rows = rows.expect("scan");
                let Some((last, _)) = rows.last() else { break };
                after = Some(last.clone());
                cells.extend(rows.into_iter().map(|(key, _)| (shard, Cell::new(kind, key))));
            }
        }
    }
    cells
}

async fn members(store: &dyn Store, shard: Shard, key: &Key) -> Vec<Bytes> {
    let mut members: Vec<Bytes> = Vec::new();
    loop {
        let after = members.last().cloned();
        let page = store.members(shard, key, after.as_deref(), 1_000).await.expect("members");
        if page.is_empty() {
            return members;
        }
        members.extend(page);
    }
}
