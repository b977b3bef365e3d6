//! What the hammer does: the frame at each place of a partition, the commit with each number of a shard,
//! and what a shard then holds. All of it follows from the place and the number.

use bytes::Bytes;
use consort_kernel::{
    Cell, Commit, Expect, Frame, FrameKind, Key, Kind, Name, Note, Operation, Partition, Producer,
    Shard, Timestamp, Value,
};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

/// Partitions that are appended to, each by a producer of its own.
pub const PARTITIONS: u32 = 4;
/// Shards that are committed to, each by a task of its own.
pub const SHARDS: u16 = 3;
/// Counters of a shard that amounts are moved between.
const ACCOUNTS: u64 = 5;
/// The set of late numbers is deleted and begun again with each number that this divides.
const LATELY: u64 = 10;
/// Most frames are small and a few are large: the bound is halved up to this many times.
const HALVINGS: u32 = 8;

/// A partition of the hammer's stream.
pub fn partition(index: u32) -> Partition {
    Partition::new(name("hammer"), index)
}

/// The feed of each shard.
pub fn feed() -> Name {
    name("numbers")
}

/// The frame with this sequence, with up to about `most` bytes.
pub fn frame(index: u32, producer: Producer, sequence: u64, most: u32) -> Frame {
    let mut random = SmallRng::seed_from_u64(producer.0 ^ (sequence << 8) ^ u64::from(index));
    let bound = most >> random.random_range(0..HALVINGS);
    let mut filler = vec![0; random.random_range(0..=bound) as usize];
    random.fill_bytes(&mut filler);
    let place = Bytes::from(format!("{index} {producer} {sequence}"));
    Frame {
        kind: FrameKind::Events,
        producer,
        sequence,
        time: Timestamp(1_700_000_000_000),
        records: vec![place, filler.into()].into(),
    }
}

/// The commit with this number, from 1 on: it expects the one before, and touches many cells at once, so
/// that half a commit would show.
pub fn commit(shard: Shard, number: u64) -> Commit {
    let (from, to, amount) = transfer(shard, number);
    let (before, text) = (number - 1, text(shard, number));
    let expected = (before > 0).then(|| self::text(shard, before));
    let mut operations = vec![
        Operation::Put { key: key("number"), value: text.clone() },
        add(from, -amount),
        Operation::Insert { key: key("all"), members: vec![rank(number)] },
        Operation::Append(Note { feed: feed(), entry: text.clone() }),
        Operation::Put { key: key("trail").with(number), value: text.clone() },
        Operation::Delete(Cell::new(Kind::Bytes, key("trail").with(before))),
    ];
    if number.is_multiple_of(LATELY) {
        operations.push(Operation::Delete(Cell::new(Kind::Set, key("lately"))));
    }
    operations.extend([
        Operation::Insert { key: key("lately"), members: vec![rank(number)] },
        Operation::Max { key: key("highest"), rank: rank(number) },
        Operation::Last { key: key("last"), rank: rank(number), value: text.clone() },
        add(to, amount),
        Operation::Put { key: key("copy"), value: text },
    ]);
    let commit = Commit::of(operations).expecting(Expect::Bytes(key("number"), expected));
    if number.is_multiple_of(3) { commit.urgent() } else { commit }
}

/// The cells of a shard that tell its state, in the order of [`state`].
pub fn cells() -> Vec<Cell> {
    let mut cells = vec![
        Cell::new(Kind::Bytes, key("number")),
        Cell::new(Kind::Bytes, key("copy")),
        Cell::new(Kind::Set, key("all")),
        Cell::new(Kind::Set, key("lately")),
        Cell::new(Kind::Max, key("highest")),
        Cell::new(Kind::Last, key("last")),
    ];
    cells.extend(
        (0..ACCOUNTS).map(|account| Cell::new(Kind::Counter, key("account").with(account))),
    );
    cells
}

/// What [`cells`] hold after the commit with this number and all before it.
pub fn state(shard: Shard, number: u64) -> Vec<Option<Value>> {
    if number == 0 {
        return vec![None; cells().len()];
    }
    let text = text(shard, number);
    let mut state = vec![
        Some(Value::Bytes(text.clone())),
        Some(Value::Bytes(text.clone())),
        Some(Value::Set(number)),
        Some(Value::Set(lately(number).len() as u64)),
        Some(Value::Max(rank(number))),
        Some(Value::Last { rank: rank(number), value: text }),
    ];
    let mut accounts = vec![None; ACCOUNTS as usize];
    for number in 1..=number {
        let (from, to, amount) = transfer(shard, number);
        *accounts[from as usize].get_or_insert(0) -= amount;
        *accounts[to as usize].get_or_insert(0) += amount;
    }
    state.extend(accounts.into_iter().map(|account| account.map(Value::Counter)));
    state
}

/// The members of the set that is begun again from time to time.
pub fn lately(number: u64) -> Vec<Bytes> {
    (number - number % LATELY..=number).filter(|&number| number > 0).map(rank).collect()
}

/// The key of the sets: all numbers, and the late ones.
pub fn sets() -> (Key, Key) {
    (key("all"), key("lately"))
}

/// The cells under this key are one: each commit puts its own and deletes the one before.
pub fn trail() -> Key {
    key("trail")
}

/// The number that a shard has come to, from its first cell.
///
/// # Panics
///
/// If the cell holds what the hammer never wrote.
pub fn number(cell: Option<&Value>) -> u64 {
    match cell {
        None => 0,
        Some(Value::Bytes(text)) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.split(' ').nth(1));
            let number = number.and_then(|number| number.parse().ok());
            number.unwrap_or_else(|| panic!("the hammer never wrote {text:?}"))
        }
        Some(other) => panic!("a bytes cell holds {other:?}"),
    }
}

/// What the commit with this number puts and appends.
pub fn text(shard: Shard, number: u64) -> Bytes {
    let filler = "x".repeat(number as usize * 7 % 300);
    format!("{} {number} {filler}", shard.0).into()
}

/// A number as a member and as a rank.
pub fn rank(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Which account gives, which takes, and how much.
fn transfer(shard: Shard, number: u64) -> (u64, u64, i64) {
    let mut random = SmallRng::seed_from_u64(u64::from(shard.0) ^ (number << 8));
    let from = random.random_range(0..ACCOUNTS);
    let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
    (from, to, random.random_range(1..1_000_000))
}

fn add(account: u64, by: i64) -> Operation {
    Operation::Add { key: key("account").with(account), by, on_overflow: None }
}

fn key(text: &str) -> Key {
    Key::from([text])
}

fn name(text: &str) -> Name {
    Name::new(text).expect("the hammer's own names are valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_kernel::memory::MemoryStore;
    use consort_kernel::{Store, SystemClock};
    use std::sync::Arc;

    #[tokio::test]
    async fn the_state_is_what_the_commits_make_of_a_store() {
        let store = MemoryStore::new(SHARDS, Arc::new(SystemClock::default()));
        let shard = Shard(1);
        for number in 1..=37 {
            store.commit(shard, commit(shard, number)).await.expect("commit");
            assert_eq!(store.get(shard, &cells()).await, Ok(state(shard, number)));
            let members = store.members(shard, &sets().1, None, 100).await;
            assert_eq!(members, Ok(lately(number)));
            assert_eq!(super::number(state(shard, number)[0].as_ref()), number);
        }
    }
}
